//! The one binary of Seawall.
//!
//! `seawall` alone serves the market on 127.0.0.1:8080. Exit codes: 0 when everything went well, 1
//! when starting, serving or ending failed, 2 when the command line or the configuration is wrong.

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

/// Why the program ends without having done its work.
#[derive(Debug)]
enum Failure {
    /// The command line or the configuration is wrong.
    Usage(String),
    /// What was asked for could not be done.
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
