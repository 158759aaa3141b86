//! `cargo xtask bench toolkit`: the toolkit beside the bare libraries, on one redis-server.
//!
//! The measuring is done by the package `seawall-bench`, in a release build; here its figures become
//! docs/benchmarks-toolkit.md and a picture.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use plotters::prelude::*;
use seawall_testkit::ServerProcess;
use serde::Deserialize;

use super::page::machine;
use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{cargo, root, spinner, step, target};

/// What `seawall-bench` prints.
#[derive(Deserialize)]
struct Results {
    reports: Vec<Report>,
    hand_over: Vec<HandOver>,
    ids_per_second: f64,
}

#[derive(Deserialize)]
struct Report {
    subject: String,
    against: String,
    ours: f64,
    theirs: f64,
    ratio: f64,
    control: f64,
}

#[derive(Deserialize)]
struct HandOver {
    who: String,
    hand_overs_per_second: f64,
    median_millis: f64,
    p99_millis: f64,
}

/// The least throughput ratio of each subject, in the order of the reports; none for the last, which
/// does less than ours.
const GOALS: [Option<f64>; 5] = [Some(1.0 / 1.5), Some(0.9), Some(0.8), Some(0.9), None];

/// Measures and writes the page; a quick run leaves the documentation alone.
pub(super) fn run(quick: bool, rounds: usize) -> Outcome {
    step(
        "build seawall-bench (release)",
        &mut cargo(&["build", "--release", "-p", "seawall-bench"]),
    )?;
    let server = ServerProcess::redis()?;
    let rounds = if quick { 2 } else { rounds };
    let progress = spinner("measuring");
    let output = Command::new(target().join("release").join("seawall-bench"))
        .args([server.url(), rounds.to_string()])
        .output()
        .context("seawall-bench does not run")?;
    progress.finish_and_clear();
    if !output.status.success() {
        return Err(Failure::new(String::from_utf8_lossy(&output.stderr)));
    }
    let results: Results =
        serde_json::from_slice(&output.stdout).context("seawall-bench printed something else")?;
    let folder = if quick { target().join("bench") } else { root().join("docs") };
    fs::create_dir_all(&folder)?;
    let file = folder.join("benchmarks-toolkit.md");
    let text = page(&results, rounds);
    fs::write(&file, &text).context(format!("cannot write {}", file.display()))?;
    let picture = folder.join("benchmarks-toolkit.svg");
    draw(&results, &picture).context(format!("cannot draw {}", picture.display()))?;
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
         side against itself: what noise alone does.\n\n![Throughput, ours against the bare \
         library](benchmarks-toolkit.svg)\n\n| what | against | ours, per second | theirs, per second \
         | ratio | control | goal |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |\n",
        machine()
    );
    for (report, goal) in results.reports.iter().zip(GOALS) {
        let goal = goal.map_or_else(String::new, |goal| format!("at least {goal:.2}"));
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | **{:.2}** | {:.2} | {goal} |",
            report.subject,
            report.against,
            report.ours,
            report.theirs,
            report.ratio,
            report.control,
        );
    }
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

fn draw(results: &Results, file: &Path) -> Result<(), Box<dyn Error>> {
    let count = results.reports.len();
    let highest = results.reports.iter().map(|report| report.ratio).fold(1.2, f64::max) * 1.1;
    let area = SVGBackend::new(file, (900, 360)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .caption("Throughput, ours / the bare library (higher is better)", ("sans-serif", 17))
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0f64..count as f64, 0f64..highest)?;
    let name_at = |x: &f64| {
        let inside = (x.fract() - 0.5).abs() < 0.01;
        let report = results.reports.get(*x as usize).filter(|_| inside);
        report.map_or_else(String::new, |report| report.subject.clone())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(count * 2 + 1)
        .x_label_formatter(&name_at)
        .y_desc("ratio")
        .draw()?;
    let colour = RGBColor(70, 120, 180);
    chart.draw_series(results.reports.iter().enumerate().map(|(at, report)| {
        let left = at as f64 + 0.25;
        Rectangle::new([(left, 0.0), (left + 0.5, report.ratio)], colour.filled())
    }))?;
    for (at, goal) in GOALS.into_iter().enumerate().take(count) {
        let Some(goal) = goal else { continue };
        let line = [(at as f64 + 0.15, goal), (at as f64 + 0.85, goal)];
        chart.draw_series(LineSeries::new(line, RED.stroke_width(2)))?;
    }
    chart.draw_series(LineSeries::new([(0.0, 1.0), (count as f64, 1.0)], BLACK))?;
    area.present()?;
    Ok(())
}
