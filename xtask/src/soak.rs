//! `cargo xtask soak`: long runs that take too much time for every change.
//!
//! The figures are printed and kept under `target/soak`, one file per run, so that a claim about a
//! million commands can be checked later.

use std::fs;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use seawall_testkit::ServerBuilder;
use seawall_testkit::differential::{Differential, Limits};

use crate::lean;
use crate::mutants;
use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{bar, cargo, release_binary, target};
use crate::test::step_of_tests;

/// Options of `cargo xtask soak`.
#[derive(Args)]
pub(crate) struct Options {
    /// Random commands to compare with redis-server
    #[arg(long, default_value_t = 1_000_000)]
    commands: u64,
    /// Seed of an earlier run to repeat [default: a new one]
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after this many kinds of difference
    #[arg(long, default_value_t = 20)]
    differences: usize,
    /// Server to compare with redis-server; `redis` shows that the tester itself reports nothing
    #[arg(long, value_enum, default_value = "seawall")]
    server: Subject,
    /// Test this binary instead of building one
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Skip the tests that run at full length, such as power cuts and kills
    #[arg(long)]
    skip_tests: bool,
    /// Accept this difference in this run: `command | reply of redis | ours | why`
    #[arg(long)]
    accept: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Subject {
    Seawall,
    Redis,
}

/// Tests that by default run a twentieth of their counts: what they show, and their `cargo`
/// arguments.
const TESTS: &[(&str, &str)] = &[
    ("power cuts, bit flips", "test -p seawall-server --lib"),
    ("recovery and full disks", "test -p seawall-server --test it recovery"),
    ("a million visitors", "test --release -p seawall --test social a_million_visitors"),
    ("random histories from their log", "test -p seawall-engine --lib dump"),
    ("hot keys: ten million names in bounded memory", "test --release -p seawall --lib hotkey"),
    (
        "hot keys: half of 20,000 reads a second in four processes",
        "test --release -p seawall --test hotkey speed -- --nocapture",
    ),
    (
        "campaigns: streams, delayed queue, sessions, ten minutes each",
        "test -p seawall --test stream --test queue --test session campaign:: -- --nocapture --test-threads=1",
    ),
    ("kills under load", "test -p seawall-cli --test it durability::"),
    (
        "killed stream workers against their ledger",
        "test -p seawall --test stream kills -- --test-threads=1",
    ),
    (
        "a survey of a million keys",
        "test --release -p seawall --test survey the_top_equals_the_truth",
    ),
    (
        "ten thousand locks, waiters and lost holders",
        "test --release -p seawall --test lock -- --test-threads=1 --skip campaign",
    ),
    (
        "locks of all kinds under faults",
        "test --release -p seawall --test lock campaign -- --nocapture --test-threads=1",
    ),
    (
        "stock under kills and lost replies",
        "test --release -p seawall --test stock -- --skip campaign:: --test-threads=2",
    ),
    (
        "stock: random settings, lost replies, restarts, cancellations; ten minutes each",
        "test --release -p seawall --test stock campaign:: -- --nocapture --test-threads=2",
    ),
    ("collections that grow under load", "test --release -p seawall --test bigkey growing"),
    (
        "the cache against its oracle",
        "test --release -p seawall --test cache_faults -- --nocapture --test-threads=1",
    ),
];

/// Runs the tests and then the differential test at full length.
pub(crate) fn run(options: &Options) -> Outcome {
    if !options.skip_tests {
        for (name, words) in TESTS {
            let words: Vec<&str> = words.split_whitespace().collect();
            step_of_tests(name, cargo(&words).env("SEAWALL_SOAK", "1"))?;
        }
        println!("{} builds of features", lean::check_each_feature()?);
        mutants::run_all()?;
    }
    let ours = match (options.server, &options.binary) {
        (Subject::Redis, _) => ServerBuilder::redis(),
        (Subject::Seawall, Some(binary)) => engine(binary.clone()),
        (Subject::Seawall, None) => engine(release_binary()?),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed = options.seed.unwrap_or(now);
    println!("differential test with seed {seed}");
    let limits = Limits { seed, commands: options.commands, differences: options.differences };

    let started = Instant::now();
    let progress = bar("differential", options.commands);
    let mut test = Differential::new(ServerBuilder::redis(), ours)?;
    for rule in &options.accept {
        test.accept(rule);
    }
    let report = test.run(limits, |done| progress.set_position(done))?;
    progress.finish_and_clear();

    let seconds = started.elapsed().as_secs_f64();
    let mut text = format!("{report}took {seconds:.0} s\n");
    for (name, count) in &report.draws {
        text.push_str(&format!("drawn {count:>7} {name}\n"));
    }
    let folder = target().join("soak");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("differential-{seed}.txt"));
    fs::write(&file, text).context(format!("cannot keep {}", file.display()))?;
    print!("{report}");
    println!("took {seconds:.0} s; kept in {}", file.display());
    if report.found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} kinds of difference; `cargo xtask soak --seed {seed}` repeats them. Make the engine \
         answer as redis-server does, or add a line with the reason to accepted.txt",
        report.found.len()
    )))
}

/// The engine in memory only, as redis-server runs here.
fn engine(binary: PathBuf) -> ServerBuilder {
    ServerBuilder::seawall(binary).args(["--appendonly", "no"])
}
