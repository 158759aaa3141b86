//! `cargo xtask redis-suite PATH`: measures how much of Redis' own Tcl test suite the engine
//! passes.
//!
//! The suite is read from a checkout that the caller names; it is neither vendored nor modified. It
//! runs in a scratch copy, in external mode, unit by unit, against a private server on a free port,
//! a new one for each unit. A unit that crashes, hangs or stops in the middle is reported, and the
//! next one runs.
//!
//! A stopped unit leaves no trace of the tests that never ran, so counting failures alone would
//! overrate it. `--server redis` runs the same units against redis-server and stores the names of
//! the tests that pass there; once they are known, the score is relative to them.

mod results;
mod scratch;
mod units;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use seawall_testkit::{ServerBuilder, ServerProcess};

use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{bar, installed, release_binary, target};
use results::{Baseline, UnitResult};
use scratch::Scratch;

/// Options of `cargo xtask redis-suite`.
#[derive(Args)]
pub(crate) struct Options {
    /// Checkout of Redis 7.0, for example from `git clone --branch 7.0.15`
    path: PathBuf,
    /// Run only these units, such as `string,list-3` [default: all]
    #[arg(long, value_delimiter = ',')]
    units: Vec<String>,
    /// Server to test
    #[arg(long, value_enum, default_value = "seawall")]
    server: Subject,
    /// Test this binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Tags that the suite runs or, with a minus, leaves out
    #[arg(long, default_value = "-slow -needs:debug", allow_hyphen_values = true)]
    tags: String,
    /// Seconds without progress after which a unit counts as hung
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Fail if less than this percentage of the tests pass
    #[arg(long)]
    require: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    Seawall,
    Redis,
}

impl Subject {
    fn name(self) -> &'static str {
        match self {
            Self::Seawall => "seawall",
            Self::Redis => "redis",
        }
    }
}

/// Maximum total time of a unit, however active it looks.
const UNIT_LIMIT: Duration = Duration::from_secs(900);

/// Maximum names of missing tests printed per unit; all verdicts are in its log.
const SHOWN_NAMES: usize = 12;

/// Runs the suite and prints the score.
pub(crate) fn run(options: &Options) -> Outcome {
    if !installed("tclsh") {
        return Err(Failure::new("the suite needs Tcl: `apt-get install tcl`, then start again"));
    }
    let units = units::select(&options.units)?;
    let scratch = Scratch::new(&options.path)?;
    let builder = match (options.server, &options.binary) {
        (Subject::Redis, _) => ServerBuilder::redis(),
        (Subject::Seawall, Some(binary)) => ServerBuilder::seawall(binary),
        (Subject::Seawall, None) => ServerBuilder::seawall(release_binary()?),
    };
    let kept = target().join("redis-suite");
    let baseline = Baseline::load(&kept.join("redis.tsv"));

    let progress = bar("redis-suite", units.len() as u64);
    let mut results = Vec::new();
    for unit in units {
        progress.set_message(unit.path);
        // A test that fails in the middle leaves its settings behind, so each unit gets a new
        // server.
        let server = builder.start()?;
        let result = run_unit(unit.name, unit.path, options, &scratch, &server)?;
        progress.suspend(|| print_unit(&result, &baseline));
        results.push(result);
        progress.inc(1);
    }
    progress.finish_and_clear();
    results::keep(&kept.join(format!("{}.tsv", options.server.name())), &results)?;
    print_total(&results, &baseline, options)
}

fn run_unit(
    name: &'static str,
    path: &str,
    options: &Options,
    scratch: &Scratch,
    server: &ServerProcess,
) -> Outcome<UnitResult> {
    let started = Instant::now();
    let mut command = Command::new("tclsh");
    command
        .current_dir(scratch.path())
        .args(["tests/test_helper.tcl", "--host", "127.0.0.1", "--port"])
        .arg(server.port().to_string())
        .args(["--baseport", &base_port().to_string()])
        .args(["--single", path, "--tags", &options.tags, "--durable"])
        .args(["--timeout", &options.timeout.to_string()]);
    let lines = scratch.run(&mut command, UNIT_LIMIT).context(format!("unit {path}"))?;
    let log = target().join("redis-suite").join(format!("{}-{name}.log", options.server.name()));
    std::fs::create_dir_all(target().join("redis-suite"))?;
    std::fs::write(log, lines.join("\n"))?;
    let mut result = results::read(name, &lines, started.elapsed());
    if !server_answers(server) {
        result.interrupted = Some("the server does not answer any more".into());
    }
    Ok(result)
}

/// Returns the port at which the suite starts its own search; two runs on one machine must not
/// collide there.
fn base_port() -> u32 {
    22_000 + std::process::id() % 200 * 40
}

fn server_answers(server: &ServerProcess) -> bool {
    let ask = || {
        let mut client = server.connect().ok()?;
        client.set_timeout(Duration::from_secs(5)).ok()?;
        client.call(&["PING"]).ok()
    };
    ask().is_some()
}

fn print_unit(result: &UnitResult, baseline: &Baseline) {
    let (passed, of) = result.score(baseline);
    println!(
        "{:<16} {passed:>4} of {of:<4} {:>4} failed  ({:.0} s){}",
        result.unit,
        result.failed.len(),
        result.elapsed.as_secs_f64(),
        result.interrupted.as_ref().map(|why| format!("  STOPPED: {why}")).unwrap_or_default()
    );
    for failure in &result.failed {
        println!("    [err] {failure}");
    }
    let missing = result.never_passed(baseline);
    if !missing.is_empty() {
        let shown = &missing[..missing.len().min(SHOWN_NAMES)];
        let more = missing.len() - shown.len();
        let more = if more == 0 { String::new() } else { format!(" | and {more} more") };
        println!("    not passed, but redis-server does: {}{more}", shown.join(" | "));
    }
}

fn print_total(results: &[UnitResult], baseline: &Baseline, options: &Options) -> Outcome {
    let scores = results.iter().map(|result| result.score(baseline));
    let (passed, of) = scores.fold((0, 0), |sum, score| (sum.0 + score.0, sum.1 + score.1));
    let percent = if of == 0 { 0.0 } else { passed as f64 * 100.0 / of as f64 };
    let stopped = results.iter().filter(|result| result.interrupted.is_some()).count();
    println!(
        "{}: {passed} of {of} tests in {} units ({percent:.1} %), {stopped} units stopped early",
        options.server.name(),
        results.len()
    );
    if options.server == Subject::Seawall && baseline.is_empty() {
        println!(
            "this counts only tests that ran; `cargo xtask redis-suite {} --server redis` makes \
             the score fair",
            options.path.display()
        );
    }
    match options.require {
        Some(wanted) if percent < wanted => {
            Err(Failure::new(format!("{percent:.1} % is below the required {wanted} %")))
        }
        _ => Ok(()),
    }
}
