//! Speed: every workload on every server, with interleaved rounds.

use std::path::Path;

use seawall_testkit::{ServerBuilder, ServerProcess};

use super::cpu;
use super::workload::{SCRIPT, WORKLOADS, Workload};
use crate::outcome::{Context, Failure, Outcome};
use crate::shell::bar;

/// Pipeline depths that are measured.
pub(super) const PIPELINES: [u32; 2] = [1, 16];

/// How much work a run does.
pub(super) struct Scale {
    pub(super) rounds: usize,
    /// Operations per run without pipelining; five times as many with it.
    pub(super) operations: u64,
    /// Elements for the memory figures.
    pub(super) elements: u64,
}

impl Scale {
    pub(super) fn full(rounds: usize) -> Self {
        Self { rounds: rounds.max(1), operations: 200_000, elements: 1_000_000 }
    }

    pub(super) fn quick() -> Self {
        Self { rounds: 1, operations: 20_000, elements: 100_000 }
    }

    /// LRANGE moves a hundred elements per operation, so it gets fewer operations.
    pub(super) fn operations_of(&self, workload: &str, pipeline: u32) -> u64 {
        let base = if pipeline == 1 { self.operations } else { self.operations * 5 };
        if workload == "lrange_100" { base / 5 } else { base }
    }
}

/// One workload at one depth: per server, operations per second and CPU nanoseconds per operation.
pub(super) struct Row {
    pub(super) workload: &'static str,
    pub(super) pipeline: u32,
    pub(super) redis: Figures,
    pub(super) ours: Figures,
    pub(super) control: Figures,
}

/// The best round for throughput, the median round for CPU time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) per_second: f64,
    pub(super) cpu_ns: f64,
}

/// The three servers, in this order everywhere.
const SERVERS: usize = 3;

/// Measures all workloads, or those named in `only`.
pub(super) fn measure(binary: &Path, scale: &Scale, only: &[String]) -> Outcome<Vec<Row>> {
    let engine = ServerBuilder::seawall(binary).args(["--appendonly", "no"]);
    let servers: [ServerProcess; SERVERS] =
        [ServerProcess::redis()?, engine.start()?, ServerProcess::redis()?];
    let chosen: Vec<&Workload> =
        WORKLOADS.iter().filter(|w| only.is_empty() || only.iter().any(|o| o == w.name)).collect();
    if chosen.is_empty() {
        return Err(Failure::new(format!("no workload is named {}", only.join(" or "))));
    }
    let steps = chosen.len() * PIPELINES.len() * scale.rounds * SERVERS;
    let progress = bar("bench", steps as u64);
    let mut samples: Vec<[Vec<Figures>; SERVERS]> = Vec::new();
    samples.resize_with(chosen.len() * PIPELINES.len(), Default::default);
    for round in 0..scale.rounds {
        for (at, workload) in chosen.iter().enumerate() {
            for (depth, &pipeline) in PIPELINES.iter().enumerate() {
                for turn in 0..SERVERS {
                    // The order rotates, so that no server always runs first, while the machine is
                    // still cold.
                    let server = (turn + round) % SERVERS;
                    progress.set_message(format!("{} -P {pipeline}", workload.name));
                    let figures = sample(&servers[server], workload, pipeline, scale)?;
                    samples[at * PIPELINES.len() + depth][server].push(figures);
                    progress.inc(1);
                }
            }
        }
    }
    progress.finish_and_clear();
    let labels = chosen.iter().flat_map(|w| PIPELINES.map(|pipeline| (w.name, pipeline)));
    let rows = labels.zip(&samples).map(|((workload, pipeline), servers)| Row {
        workload,
        pipeline,
        redis: summary(&servers[0]),
        ours: summary(&servers[1]),
        control: summary(&servers[2]),
    });
    Ok(rows.collect())
}

fn sample(
    server: &ServerProcess,
    workload: &Workload,
    pipeline: u32,
    scale: &Scale,
) -> Outcome<Figures> {
    let count = scale.operations_of(workload.name, pipeline);
    let mut client = server.connect()?;
    client.call(&["FLUSHALL"])?;
    let sha = client.call(&["SCRIPT", "LOAD", SCRIPT])?.text();
    if let Some(mut fill) = workload.fill_command(server.port(), count) {
        output(&mut fill)?;
    }
    let before = cpu::time_ns(server.pid())?;
    let text = output(&mut workload.command(server.port(), count, pipeline, &sha))?;
    let spent = cpu::time_ns(server.pid())?.saturating_sub(before);
    // LRANGE's own setup is part of its output and cheap beside it; the last line is the test.
    let last = text.lines().rev().find(|line| line.starts_with('"'));
    let per_second = last
        .and_then(|line| line.split(',').nth(1))
        .and_then(|field| field.trim_matches('"').parse::<f64>().ok())
        .ok_or_else(|| Failure::new(format!("redis-benchmark said: {text}")))?;
    Ok(Figures { per_second, cpu_ns: spent as f64 / count as f64 })
}

fn output(command: &mut std::process::Command) -> Outcome<String> {
    let out = command.output().context("cannot run redis-benchmark")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    if out.status.success() && !text.contains("Error from server") {
        return Ok(text);
    }
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    Err(Failure::new(format!("{command:?} failed: {text}{errors}")))
}

fn summary(rounds: &[Figures]) -> Figures {
    let best = rounds.iter().map(|f| f.per_second).fold(0.0, f64::max);
    let mut cpu: Vec<f64> = rounds.iter().map(|f| f.cpu_ns).collect();
    cpu.sort_by(f64::total_cmp);
    Figures { per_second: best, cpu_ns: cpu.get(cpu.len() / 2).copied().unwrap_or_default() }
}
