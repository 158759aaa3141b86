//! The project's own tasks: `cargo xtask test | setup | soak | mutants | bench | redis-suite | docs | quick-starts | record`.
//!
//! One program instead of shell scripts, so that every task runs the same on a developer's machine
//! and in CI. Each task shows progress and keeps its full output under `target/xtask`. An error
//! says what to do next.
#![expect(clippy::print_stdout, reason = "a task reports to the person who started it")]
#![expect(clippy::print_stderr, reason = "a task reports to the person who started it")]

mod bench;
mod docs;
mod lean;
mod mutants;
mod outcome;
mod pages;
mod phrases;
mod record;
#[cfg(test)]
mod seams;
mod setup;
mod shell;
mod soak;
mod stands;
mod suite;
mod test;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own tasks", arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up the machine, then run every check that a change must pass
    Test(test::Options),
    /// Only set up the machine: install the servers and clients that the tests need
    Setup,
    /// Run the long tests and keep their figures under target/soak
    Soak(soak::Options),
    /// Plant each bug of mutants/ and check that its test fails
    Mutants(mutants::Options),
    /// Run the benchmarks of the engine and the toolkit; writes pages under docs/
    Bench(bench::Options),
    /// Score the engine with Redis' own test suite, in external mode
    RedisSuite(suite::Options),
    /// Write the generated pages
    Docs(docs::Options),
    /// Run the quick start of every page in a new package that has only what the page names, and a
    /// program that has fewer features than it asks for
    QuickStarts,
    /// Fill in the missing replies of transcripts from a private redis-server
    Record {
        /// Files such as conformance/string.txt
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Setup => setup::run(),
        Task::Soak(options) => soak::run(&options),
        Task::Mutants(options) => mutants::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::RedisSuite(options) => suite::run(&options),
        Task::Docs(options) => docs::run(&options),
        Task::QuickStarts => {
            lean::check_refusals().and_then(|()| pages::run_quick_starts()).map(drop)
        }
        Task::Record { files } => record::run(&files),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
