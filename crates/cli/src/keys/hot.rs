//! `seawall keys hot`.

use std::{fmt::Write as _, time::Duration};

use seawall::survey::{HotFound, HotKey, HotReport, Listen, MAX_LINES, MAX_LISTEN, key_text};
use serde_json::json;

use super::{
    args::{HotArgs, Output},
    connect::connect_as,
    csv, deliver, interrupted, progress, table,
    text::grouped,
};
use crate::{Failure, terminal};

/// Finds hot keys and prints them.
pub(super) async fn run(args: &HotArgs) -> Result<(), Failure> {
    let listen = bounds(args.monitor, args.lines)?;
    let seawall = connect_as(&args.target, &args.prefix).await?;
    let mut survey = seawall
        .hot_survey()
        .rate(args.walk.rate)
        .max_latency(Duration::from_millis(args.walk.max_latency))
        .top(args.top);
    if let Some(pattern) = &args.walk.pattern {
        survey = survey.matching(pattern);
    }
    let found = match (listen, args.tracker) {
        _ if args.fleet => survey.by_fleet().await,
        (Some(bounds), _) => {
            terminal::remark(&format!(
                "listening for {} s or {} lines; MONITOR costs the server a good part of its speed \
                 meanwhile",
                bounds.time.as_secs(),
                grouped(bounds.lines)
            ));
            survey.by_monitor(bounds, interrupted()).await
        }
        (None, Some(seconds)) => {
            survey.by_tracker(Duration::from_secs(seconds), interrupted()).await
        }
        (None, None) => {
            let bar = progress::keys(0);
            let found = survey
                .by_frequency(
                    |progress| {
                        bar.set_length(progress.total.max(progress.seen));
                        bar.set_position(progress.seen);
                        bar.set_message(format!("({})", progress.node));
                    },
                    interrupted(),
                )
                .await;
            bar.finish_and_clear();
            found
        }
    };
    seawall.shutdown().await;
    let found = found.map_err(|error| match error {
        seawall::Error::Invalid(sentence) => Failure::Usage(sentence),
        other => Failure::Work(other.to_string()),
    })?;
    let (report, end) = match found {
        HotFound::Found { report, end } => (report, end),
        HotFound::Unsupported(advice) => {
            return Err(Failure::Work(format!(
                "{advice}. Or listen for a few seconds: `seawall keys hot --monitor 5`"
            )));
        }
    };
    let text = match args.delivery.output {
        Output::Table => as_table(&report),
        Output::Csv => as_csv(&report),
        Output::Json => as_json(&report),
    };
    deliver(&text, args.delivery.out.as_deref())?;
    super::ended(end)
}

/// Returns the limits of `--monitor`.
pub(super) fn bounds(seconds: Option<u64>, lines: u64) -> Result<Option<Listen>, Failure> {
    let Some(seconds) = seconds else { return Ok(None) };
    let most = MAX_LISTEN.as_secs();
    if !(1..=most).contains(&seconds) {
        return Err(Failure::Usage(format!(
            "--monitor cannot be {seconds}: it takes 1 to {most} seconds"
        )));
    }
    if !(1..=MAX_LINES).contains(&lines) {
        return Err(Failure::Usage(format!(
            "--lines cannot be {lines}: it takes 1 to {MAX_LINES}"
        )));
    }
    Ok(Some(Listen { time: Duration::from_secs(seconds), lines }))
}

fn as_table(report: &HotReport) -> String {
    let heading = ["score", "reads", "writes", "net bytes", "node", "key"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for hot in &report.keys {
        rows.push(vec![
            grouped(hot.score),
            grouped(hot.reads),
            grouped(hot.writes),
            grouped(hot.net_bytes),
            hot.node.to_string(),
            key_text(&hot.key),
        ]);
    }
    let mut text = table::aligned(&rows, &[0, 1, 2, 3]);
    text.push('\n');
    for note in &report.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {note}");
    }
    let seconds = report.took.as_secs_f64();
    let _ = writeln!(text, "  {} looked at or heard in {seconds:.1} s", grouped(report.examined));
    text
}

fn as_csv(report: &HotReport) -> String {
    let mut text = "key,score,reads,writes,net_bytes,node\n".to_owned();
    for HotKey { key, node, score, reads, writes, net_bytes, .. } in &report.keys {
        let (key, node) = (csv::field(&key_text(key)), csv::field(node));
        let _ = writeln!(text, "{key},{score},{reads},{writes},{net_bytes},{node}");
    }
    text
}

fn as_json(report: &HotReport) -> String {
    let key = |hot: &HotKey| {
        json!({
            "key": key_text(&hot.key),
            "score": hot.score,
            "reads": hot.reads,
            "writes": hot.writes,
            "netBytes": hot.net_bytes,
            "node": &*hot.node,
        })
    };
    let value = json!({
        "keys": report.keys.iter().map(key).collect::<Vec<_>>(),
        "examined": report.examined,
        "tookSeconds": report.took.as_secs_f64(),
        "notes": report.notes,
    });
    format!("{value:#}\n")
}
