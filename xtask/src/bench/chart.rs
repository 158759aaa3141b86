//! The chart of the page: CPU time per operation as a ratio, one pair of bars per workload.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::load::Row;
use crate::outcome::{Context, Outcome};

const SIZE: (u32, u32) = (900, 420);
const COLOURS: [(u32, RGBColor); 2] = [(1, RGBColor(70, 120, 180)), (16, RGBColor(225, 145, 60))];

/// Draws `rows` to an SVG file.
pub(super) fn draw(rows: &[Row], file: &Path) -> Outcome {
    try_draw(rows, file).context(format!("cannot draw {}", file.display()))
}

fn try_draw(rows: &[Row], file: &Path) -> Result<(), Box<dyn Error>> {
    let ratio = |row: &Row| row.ours.cpu_ns / row.redis.cpu_ns;
    let highest = rows.iter().map(ratio).fold(1.2, f64::max) * 1.1;
    let names: Vec<&str> = rows.iter().step_by(COLOURS.len()).map(|row| row.workload).collect();
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .caption(
            "CPU time per operation, engine / redis-server (lower is better)",
            ("sans-serif", 17),
        )
        .x_label_area_size(34)
        .y_label_area_size(44)
        .build_cartesian_2d(0f64..names.len() as f64, 0f64..highest)?;
    let name_at = |x: &f64| {
        // Labels stand in the middle of a workload's pair of bars.
        let inside = (x.fract() - 0.5).abs() < 0.01;
        names.get(*x as usize).filter(|_| inside).map_or_else(String::new, |n| (*n).to_owned())
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(names.len() * 2 + 1)
        .x_label_formatter(&name_at)
        .y_desc("ratio")
        .draw()?;
    for (series, (pipeline, colour)) in COLOURS.into_iter().enumerate() {
        let bars = rows.iter().filter(|row| row.pipeline == pipeline).enumerate();
        let bars = bars.map(|(at, row)| {
            let left = at as f64 + 0.14 + series as f64 * 0.37;
            Rectangle::new([(left, 0.0), (left + 0.35, ratio(row))], colour.filled())
        });
        chart
            .draw_series(bars)?
            .label(format!("pipeline {pipeline}"))
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled()));
    }
    chart.draw_series(LineSeries::new([(0.0, 1.0), (names.len() as f64, 1.0)], BLACK))?;
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    area.present()?;
    Ok(())
}
