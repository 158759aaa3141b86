//! `seawall keys big`.

use std::{
    fs::File,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seawall::survey::{
    End, Kind, MAX_TOP, RdbEnd, RdbProgress, RdbSurvey, Report, Source, Thresholds,
};

use super::{
    args::{BigArgs, Output},
    connect::connect,
    csv, deliver, interrupted, json, log, progress, table, text,
};
use crate::Failure;

/// The checked settings.
struct Plan {
    kind: Option<Kind>,
    thresholds: Thresholds,
    separator: u8,
}

/// How the scan ended, and what to report about it.
struct Ended {
    word: &'static str,
    complaint: Option<String>,
}

impl Ended {
    fn well() -> Self {
        Ended { word: "complete", complaint: None }
    }

    fn interrupted() -> Self {
        let complaint = "interrupted; this is what was found so far".to_owned();
        Ended { word: "interrupted", complaint: Some(complaint) }
    }

    fn failed(why: impl std::fmt::Display) -> Self {
        let complaint = format!("{why}; this is what was found before");
        Ended { word: "failed", complaint: Some(complaint) }
    }
}

fn plan(args: &BigArgs) -> Result<Plan, String> {
    let kind = match args.kind.as_deref() {
        None => None,
        Some(name) => {
            Some(Kind::of_name(name).filter(|kind| *kind != Kind::Other).ok_or_else(|| {
                format!(
                    "--type cannot be '{name}': it takes string, list, set, zset, hash or stream"
                )
            })?)
        }
    };
    if args.top > MAX_TOP {
        return Err(format!("--top cannot be {}: it takes at most {MAX_TOP}", args.top));
    }
    let separator = match args.separator.as_bytes() {
        [one] if one.is_ascii() => *one,
        _ => {
            let given = &args.separator;
            return Err(format!("--separator cannot be '{given}': it takes one ASCII character"));
        }
    };
    Ok(Plan { kind, thresholds: text::thresholds(&args.threshold)?, separator })
}

/// Finds big keys and prints them.
pub(super) async fn run(args: &BigArgs) -> Result<(), Failure> {
    let plan = plan(args).map_err(Failure::Usage)?;
    let log = match &args.log {
        Some(url) => Some(log::open(url).await?),
        None => None,
    };
    let (report, ended) = match &args.rdb {
        Some(path) => read(args, &plan, path)?,
        None => scan(args, &plan).await?,
    };
    let text = match args.delivery.output {
        Output::Table => table::report(&report, ended.word),
        Output::Csv => csv::report(&report),
        Output::Json => json::report(&report, ended.word),
    };
    deliver(&text, args.delivery.out.as_deref())?;
    if let Some(log) = log {
        log::insert(&log, &report.flagged).await?;
    }
    ended.complaint.map_or(Ok(()), |complaint| Err(Failure::Work(complaint)))
}

async fn scan(args: &BigArgs, plan: &Plan) -> Result<(Report, Ended), Failure> {
    let seawall = connect(&args.target).await?;
    let mut survey = seawall
        .survey()
        .rate(args.walk.rate)
        .max_latency(Duration::from_millis(args.walk.max_latency))
        .samples(args.samples)
        .top(args.top)
        .separator(plan.separator)
        .thresholds(plan.thresholds.clone())
        .source(match (args.primary, args.replica) {
            (true, _) => Source::Primary,
            (_, true) => Source::Replica,
            _ => Source::PreferReplica,
        });
    if let Some(pattern) = &args.walk.pattern {
        survey = survey.matching(pattern);
    }
    if let Some(kind) = plan.kind {
        survey = survey.kind(kind);
    }
    let bar = progress::keys(0);
    let surveyed = survey
        .run(
            |progress| {
                bar.set_length(progress.total.max(progress.seen));
                bar.set_position(progress.seen);
                bar.set_message(match progress.slow {
                    Some(trip) => format!("({} is slow: {} ms)", progress.node, trip.as_millis()),
                    None => format!("({})", progress.node),
                });
            },
            interrupted(),
        )
        .await;
    bar.finish_and_clear();
    seawall.shutdown().await;
    let surveyed = surveyed.map_err(|error| match error {
        seawall::Error::Invalid(sentence) => Failure::Usage(sentence),
        other => Failure::Work(other.to_string()),
    })?;
    let ended = match surveyed.end {
        End::Complete => Ended::well(),
        End::Interrupted => Ended::interrupted(),
        End::Failed(error) => Ended::failed(error),
    };
    Ok((surveyed.report, ended))
}

fn read(args: &BigArgs, plan: &Plan, path: &Path) -> Result<(Report, Ended), Failure> {
    let fail = |error| Failure::Work(format!("--rdb {}: {error}", path.display()));
    let file = File::open(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    let stop = Arc::new(AtomicBool::new(false));
    // If this fails, Ctrl-C ends the program at once, as it does by default.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop));
    let mut survey = RdbSurvey::new()
        .thresholds(plan.thresholds.clone())
        .separator(plan.separator)
        .top(args.top);
    if let Some(kind) = plan.kind {
        survey = survey.kind(kind);
    }
    if let Some(pattern) = &args.walk.pattern {
        survey = survey.matching(pattern.as_bytes());
    }
    let bar = progress::file(length);
    let watch = |RdbProgress { bytes, keys, .. }: RdbProgress| {
        bar.set_position(bytes);
        bar.set_message(format!("({} keys)", text::grouped(keys)));
        match stop.load(Ordering::Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let (report, end) = survey.read(&path.display().to_string(), file, watch);
    bar.finish_and_clear();
    let ended = match end {
        RdbEnd::Complete => Ended::well(),
        RdbEnd::Interrupted => Ended::interrupted(),
        RdbEnd::Failed(error) => Ended::failed(format!("{}: {error}", path.display())),
    };
    Ok((report, ended))
}
