//! `cargo xtask bench`: compares the product with what it is built on, in one run, on one machine.
//!
//! `engine`: the engine compared with redis-server.
//!
//! Throughput on a shared machine is noisy, and redis-benchmark costs more than the server it
//! drives, so the figure that counts is the server's own CPU time per operation. Rounds are
//! interleaved, and a second redis-server is measured like the others: its ratio to the first one
//! shows how much of a difference is noise.

mod chart;
mod cpu;
mod data;
mod embedded;
mod load;
mod market;
mod memory;
mod page;
mod ratios;
mod toolkit;
mod workload;
mod wrk;

use clap::{Args, Subcommand};

use crate::outcome::Outcome;
use crate::shell::dist_binary;
use load::Scale;

/// Options of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Compare the engine with redis-server: speed, CPU time, memory; writes docs/benchmarks.md
    Engine {
        /// Short run, to check that it works; writes under target/bench instead
        #[arg(long)]
        quick: bool,
        /// Rounds per workload
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Measure this binary instead of building one
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
        /// Run only workloads with these names
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Compare the toolkit with the bare libraries; writes docs/benchmarks-toolkit.md
    Toolkit {
        /// Short run, to check that it works; writes under target/bench instead
        #[arg(long)]
        quick: bool,
        /// Rounds per subject
        #[arg(long, default_value_t = 15)]
        rounds: usize,
    },
    /// Compare the market with bare axum handlers, with wrk; writes docs/benchmarks-market.md
    Market {
        /// Short run, to check that it works; writes under target/bench instead
        #[arg(long)]
        quick: bool,
        /// Rounds per subject
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Compare the data plane with bare commands; writes docs/benchmarks-data.md
    Data {
        /// Short run, to check that it works; writes under target/bench instead
        #[arg(long)]
        quick: bool,
        /// Rounds per subject
        #[arg(long, default_value_t = 15)]
        rounds: usize,
    },
}

/// Runs a benchmark and writes its page.
pub(crate) fn run(options: &Options) -> Outcome {
    let (quick, rounds, binary, only) = match &options.subject {
        Subject::Engine { quick, rounds, binary, only } => (quick, rounds, binary, only),
        Subject::Toolkit { quick, rounds } => return toolkit::run(*quick, *rounds),
        Subject::Market { quick, rounds } => return market::run(*quick, *rounds),
        Subject::Data { quick, rounds } => return data::run(*quick, *rounds),
    };
    let binary = match binary {
        Some(binary) => binary.clone(),
        None => dist_binary("seawall-cli", "seawall")?,
    };
    let scale = if *quick { Scale::quick() } else { Scale::full(*rounds) };
    let speed = load::measure(&binary, &scale, only)?;
    let memory = memory::measure(&binary, &scale)?;
    let embedded = embedded::measure()?;
    let results = page::Results { speed, memory, embedded, scale };
    page::write(&results, *quick)
}
