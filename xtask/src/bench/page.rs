//! Writes docs/benchmarks.md and its chart.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use super::load::{Figures, PIPELINES, Row, Scale};
use super::workload::COMMON;
use super::{chart, memory};
use crate::outcome::{Context, Outcome};
use crate::shell::{root, target};

/// All results of a run.
pub(super) struct Results {
    pub(super) speed: Vec<Row>,
    pub(super) memory: Vec<memory::Row>,
    pub(super) embedded: f64,
    pub(super) scale: Scale,
}

/// Maximum microseconds of an embedded GET.
const EMBEDDED_LIMIT_US: f64 = 2.0;

/// Writes the page and prints it; a quick run leaves the documentation alone.
pub(super) fn write(results: &Results, quick: bool) -> Outcome {
    let folder = if quick { target().join("bench") } else { root().join("docs") };
    fs::create_dir_all(&folder)?;
    let text = page(results);
    let file = folder.join("benchmarks.md");
    fs::write(&file, &text).context(format!("cannot write {}", file.display()))?;
    chart::draw(&results.speed, &folder.join("benchmarks.svg"))?;
    print!("{text}");
    println!("written to {}", file.display());
    Ok(())
}

fn page(results: &Results) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "# Benchmarks\n\nWritten by `cargo xtask bench engine`; do not edit.\n\n{}\n",
        machine()
    );
    let _ = writeln!(
        out,
        "The engine, redis-server and a second redis-server (the control) run side by side; rounds \
         are interleaved ({} of them). CPU time is the server's own (all threads, user and system, \
         from `schedstat`), per operation, the median round; throughput is the best round. A ratio \
         is the engine's figure divided by redis-server's: below 1 is better for CPU time, above 1 \
         for throughput. The control's ratio is what noise alone does.\n\nLoad: `redis-benchmark {} \
         -n {} -P 1` and `-n {} -P 16`, per workload.\n\n![CPU time per operation, engine \
         against redis-server](benchmarks.svg)\n",
        results.scale.rounds,
        COMMON.join(" "),
        results.scale.operations_of("", 1),
        results.scale.operations_of("", 16),
    );
    for pipeline in PIPELINES {
        speed_table(&mut out, &results.speed, pipeline);
    }
    memory_table(&mut out, results);
    let micros = results.embedded / 1000.0;
    let verdict = if micros <= EMBEDDED_LIMIT_US { "within" } else { "above" };
    let _ = writeln!(
        out,
        "## In process\n\nOne GET at a time through redis-rs on the in-process connection: \
         {micros:.2} µs, {verdict} the limit of {EMBEDDED_LIMIT_US} µs."
    );
    out
}

fn speed_table(out: &mut String, rows: &[Row], pipeline: u32) {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.pipeline == pipeline).collect();
    let _ = writeln!(out, "## Pipeline {pipeline}\n");
    out.push_str(
        "| workload | redis ns/op | engine ns/op | CPU ratio | control | redis op/s | engine op/s | \
         throughput ratio | control |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: \
         |\n",
    );
    for row in &rows {
        let _ = writeln!(
            out,
            "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {:.0} | {:.2} | {:.2} |",
            row.workload,
            row.redis.cpu_ns,
            row.ours.cpu_ns,
            row.ours.cpu_ns / row.redis.cpu_ns,
            row.control.cpu_ns / row.redis.cpu_ns,
            row.redis.per_second,
            row.ours.per_second,
            row.ours.per_second / row.redis.per_second,
            row.control.per_second / row.redis.per_second,
        );
    }
    let mean = |pick: fn(&Row) -> Figures, part: fn(Figures) -> f64| {
        geometric_mean(rows.iter().map(|row| part(pick(row)) / part(row.redis)))
    };
    let _ = writeln!(
        out,
        "| **geometric mean** | | | **{:.2}** | {:.2} | | | **{:.2}** | {:.2} |\n",
        mean(|row| row.ours, |f| f.cpu_ns),
        mean(|row| row.control, |f| f.cpu_ns),
        mean(|row| row.ours, |f| f.per_second),
        mean(|row| row.control, |f| f.per_second),
    );
}

fn memory_table(out: &mut String, results: &Results) {
    let _ = writeln!(
        out,
        "## Memory\n\nGrowth of resident memory per element, {} elements, values of 16 bytes; \
         collections are one large key.\n\n| element | redis bytes | engine bytes | ratio |\n| --- \
         | ---: | ---: | ---: |",
        results.scale.elements
    );
    for row in &results.memory {
        let ratio = row.ours / row.redis;
        let _ = writeln!(out, "| {} | {:.1} | {:.1} | {ratio:.2} |", row.kind, row.redis, row.ours);
    }
    let mean = geometric_mean(results.memory.iter().map(|row| row.ours / row.redis));
    let _ = writeln!(out, "| **geometric mean** | | | **{mean:.2}** |\n");
}

fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = ratios.filter(|r| r.is_finite() && *r > 0.0).map(f64::ln).collect();
    if logs.is_empty() { f64::NAN } else { (logs.iter().sum::<f64>() / logs.len() as f64).exp() }
}

/// Describes the machine: figures from an unknown machine mean nothing.
pub(super) fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib: u64 =
        memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default();
    let said = |program: &str, args: &[&str]| {
        let out = Command::new(program).args(args).output().ok();
        out.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
    };
    let redis = said("redis-server", &["--version"]);
    let redis = redis.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("?");
    format!(
        "Machine: {}, {cores} cores, {:.0} GiB, Linux {}; redis-server {redis}; {}.",
        field("model name").unwrap_or_else(|| "unknown processor".into()),
        kib as f64 / 1_048_576.0,
        said("uname", &["-r"]),
        said("rustc", &["--version"]),
    )
}

#[cfg(test)]
mod tests {
    use super::geometric_mean;

    #[test]
    fn a_geometric_mean_balances_ratios() {
        assert!((geometric_mean([0.5, 2.0].into_iter()) - 1.0).abs() < 1e-9);
        assert!(geometric_mean(std::iter::empty()).is_nan());
    }
}
