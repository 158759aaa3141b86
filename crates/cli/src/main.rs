//! The single binary of Seawall.
//!
//! `seawall` alone serves the market on 127.0.0.1:8080. Exit codes: 0 on success, 1 if starting,
//! serving or shutting down failed, 2 if the command line or the configuration is wrong.

mod args;
mod banner;
mod config_file;
mod data;
mod engine;
mod keys;
mod open_files;
mod serve;
mod settings;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Command, Seawall};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Reason why the program failed.
#[derive(Debug)]
enum Failure {
    /// The command line or the configuration is wrong.
    Usage(String),
    /// The requested work could not be done.
    Work(String),
}

fn main() -> ExitCode {
    let command = Seawall::parse().command.unwrap_or_default();
    let result = match command {
        Command::Serve(args) => serve::run(&args),
        Command::Engine(args) => engine::run(&args),
        Command::Keys(args) => keys::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(text)) => {
            terminal::complain(&text);
            ExitCode::from(2)
        }
        Err(Failure::Work(text)) => {
            terminal::complain(&text);
            ExitCode::FAILURE
        }
    }
}
