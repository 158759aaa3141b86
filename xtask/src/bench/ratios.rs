//! Shows the comparisons of `seawall-bench` as a table and a chart of ratios.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use plotters::prelude::*;
use serde::Deserialize;

use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{dist_binary, spinner};

/// Two sides of one subject.
#[derive(Deserialize)]
pub(super) struct Report {
    pub(super) subject: String,
    pub(super) against: String,
    pub(super) ours: f64,
    pub(super) theirs: f64,
    pub(super) ratio: f64,
    pub(super) control: f64,
    /// Processor time per operation, theirs divided by ours.
    #[serde(default)]
    pub(super) cpu_ratio: Option<f64>,
    /// The minimum ratio, if there is one.
    #[serde(default)]
    pub(super) goal: Option<f64>,
}

/// Builds `seawall-bench`, runs it for a page on a server, and returns its output.
pub(super) fn measure(
    page: &str,
    url: &str,
    rounds: usize,
    env: &[(&str, String)],
) -> Outcome<Vec<u8>> {
    let bench = dist_binary("seawall-bench", "seawall-bench")?;
    let progress = spinner("measuring");
    let output = Command::new(bench)
        .args([page, url, &rounds.to_string()])
        .envs(env.iter().map(|(name, value)| (name, value)))
        .output()
        .context("seawall-bench does not run")?;
    progress.finish_and_clear();
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Failure::new(String::from_utf8_lossy(&output.stderr)))
}

/// Returns the median.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Writes the table of all comparisons.
pub(super) fn table(out: &mut String, reports: &[Report]) {
    out.push_str(
        "| what | against | ours, per second | theirs, per second | ratio | control | CPU | goal |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for report in reports {
        let goal = report.goal.map_or_else(String::new, |goal| format!("at least {goal:.2}"));
        let cpu = report.cpu_ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | **{:.2}** | {:.2} | {cpu} | {goal} |",
            report.subject,
            report.against,
            report.ours,
            report.theirs,
            report.ratio,
            report.control,
        );
    }
}

/// Draws the ratios to an SVG file, with a red line at each goal.
pub(super) fn draw(reports: &[Report], file: &Path) -> Outcome {
    try_draw(reports, file).context(format!("cannot draw {}", file.display()))
}

fn try_draw(reports: &[Report], file: &Path) -> Result<(), Box<dyn Error>> {
    let count = reports.len();
    let highest = reports.iter().map(|report| report.ratio).fold(1.2, f64::max) * 1.1;
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
        let report = reports.get(*x as usize).filter(|_| inside);
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
    chart.draw_series(reports.iter().enumerate().map(|(at, report)| {
        let left = at as f64 + 0.25;
        Rectangle::new([(left, 0.0), (left + 0.5, report.ratio)], colour.filled())
    }))?;
    for (at, goal) in reports.iter().map(|report| report.goal).enumerate() {
        let Some(goal) = goal else { continue };
        let line = [(at as f64 + 0.15, goal), (at as f64 + 0.85, goal)];
        chart.draw_series(LineSeries::new(line, RED.stroke_width(2)))?;
    }
    chart.draw_series(LineSeries::new([(0.0, 1.0), (count as f64, 1.0)], BLACK))?;
    area.present()?;
    Ok(())
}
