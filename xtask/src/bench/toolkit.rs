//! `cargo xtask bench toolkit`: compares the toolkit with the bare libraries, on one redis-server.
//!
//! The package `seawall-bench` measures, in a release build; this module turns its figures into
//! docs/benchmarks-toolkit.md and a chart.

use std::fmt::Write;
use std::fs;

use seawall_testkit::ServerProcess;
use serde::Deserialize;

use super::page::machine;
use super::ratios::{Report, draw, measure, table};
use crate::outcome::{Context, Outcome};
use crate::shell::{root, target};

/// Output of `seawall-bench`.
#[derive(Deserialize)]
struct Results {
    reports: Vec<Report>,
    hand_over: Vec<HandOver>,
    ids_per_second: f64,
}

#[derive(Deserialize)]
struct HandOver {
    who: String,
    hand_overs_per_second: f64,
    median_millis: f64,
    p99_millis: f64,
}

/// The minimum throughput ratio of each subject, in the order of the reports; none for the last,
/// because the other side does less than ours.
const GOALS: [Option<f64>; 5] = [Some(1.0 / 1.5), Some(0.9), Some(0.8), Some(0.9), None];

/// Measures and writes the page; a quick run leaves the documentation alone.
pub(super) fn run(quick: bool, rounds: usize) -> Outcome {
    let server = ServerProcess::redis()?;
    let rounds = if quick { 2 } else { rounds };
    let printed = measure("toolkit", &server.url(), rounds, &[])?;
    let mut results: Results =
        serde_json::from_slice(&printed).context("seawall-bench printed something else")?;
    for (report, goal) in results.reports.iter_mut().zip(GOALS) {
        report.goal = goal;
    }
    let folder = if quick { target().join("bench") } else { root().join("docs") };
    fs::create_dir_all(&folder)?;
    let file = folder.join("benchmarks-toolkit.md");
    let text = page(&results, rounds);
    fs::write(&file, &text).context(format!("cannot write {}", file.display()))?;
    draw(&results.reports, &folder.join("benchmarks-toolkit.svg"))?;
    print!("{text}");
    println!("written to {}", file.display());
    Ok(())
}

fn page(results: &Results, rounds: usize) -> String {
    let mut out = format!(
        "# Benchmarks of the toolkit\n\nWritten by `cargo xtask bench toolkit`; do not edit.\n\n{}\n\n\
         64 tasks on two threads, one connection, values of 256 bytes, a metrics recorder installed. \
         Both sides take turns in one process on one redis-server, {rounds} rounds; the ratio is the \
         median of the rounds' ratios, ours divided by theirs, above 1 is faster. The control is their \
         side against itself: what noise alone does. CPU is the processor \
         time of this process per operation, theirs divided by ours, above 1 needs less. Hits in the first level, which wait for nothing, are \
         counted per second of processor time, the others per second of the clock.\n\n![Throughput, ours against the bare \
         library](benchmarks-toolkit.svg)\n\n",
        machine()
    );
    table(&mut out, &results.reports);
    out.push_str(
        "\n## Hand-over of a contended lock\n\nEight tasks want one lock; the time runs from the \
         beginning of a release to the next holder's hold.\n\n| | hand-overs per second | median | \
         p99 |\n| --- | ---: | ---: | ---: |\n",
    );
    for row in &results.hand_over {
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.2} ms | {:.2} ms |",
            row.who, row.hand_overs_per_second, row.median_millis, row.p99_millis,
        );
    }
    let _ = writeln!(out, "\n## Ids\n\n{:.0} ids per second.", results.ids_per_second);
    out
}
