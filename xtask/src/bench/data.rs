//! `cargo xtask bench data`: compares the data plane with bare commands, on one redis-server and on
//! a Cluster of three primaries.
//!
//! The package `seawall-bench` measures, in a release build; it has the only list of subjects. This
//! module turns its figures into docs/benchmarks-data.md and a chart.

use std::fmt::Write;
use std::fs;

use seawall_testkit::{Cluster, ServerProcess};
use serde::Deserialize;

use super::page::machine;
use super::ratios::{Report, draw, measure, table};
use crate::outcome::{Context, Outcome};
use crate::shell::{root, target};

/// Output of `seawall-bench`.
#[derive(Deserialize)]
struct Results {
    comparisons: Vec<Report>,
    figures: Vec<Figure>,
}

#[derive(Deserialize)]
struct Figure {
    what: String,
    value: f64,
    unit: String,
    at_most: Option<f64>,
}

/// Measures and writes the page; a quick run leaves the documentation alone.
pub(super) fn run(quick: bool, rounds: usize) -> Outcome {
    let server = ServerProcess::redis()?;
    let cluster = Cluster::with(3, 0).context("the Cluster does not start")?;
    let rounds = if quick { 2 } else { rounds };
    let environment = [("SEAWALL_BENCH_CLUSTER", cluster.url())];
    let printed = measure("data", &server.url(), rounds, &environment)?;
    let results: Results =
        serde_json::from_slice(&printed).context("seawall-bench printed something else")?;
    let folder = if quick { target().join("bench") } else { root().join("docs") };
    fs::create_dir_all(&folder)?;
    let file = folder.join("benchmarks-data.md");
    let text = page(&results, rounds);
    fs::write(&file, &text).context(format!("cannot write {}", file.display()))?;
    draw(&results.comparisons, &folder.join("benchmarks-data.svg"))?;
    print!("{text}");
    println!("written to {}", file.display());
    Ok(())
}

fn page(results: &Results, rounds: usize) -> String {
    let mut out = format!(
        "# Benchmarks of the data plane\n\nWritten by `cargo xtask bench data`; do not edit.\n\n{}\n\n\
         64 tasks on two threads, a metrics recorder installed. Both sides take turns in one process \
         on one server (or one Cluster of three primaries, all on this machine), {rounds} rounds; the \
         ratio is the median of the rounds' ratios, ours divided by theirs, above 1 is faster. The \
         control is their side against itself: what noise alone does. CPU is the processor \
         time of this process per operation, theirs divided by ours, above 1 needs less.\n\n![Throughput, ours against \
         bare commands](benchmarks-data.svg)\n\n",
        machine()
    );
    table(&mut out, &results.comparisons);
    if results.figures.is_empty() {
        return out;
    }
    out.push_str("\n## Single figures\n\n| what | measured | goal |\n| --- | ---: | ---: |\n");
    for figure in &results.figures {
        let unit = &figure.unit;
        let goal = figure.at_most.map_or_else(String::new, |most| format!("at most {most} {unit}"));
        let _ = writeln!(out, "| {} | **{:.1} {unit}** | {goal} |", figure.what, figure.value);
    }
    out
}
