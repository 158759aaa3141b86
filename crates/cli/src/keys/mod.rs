//! `seawall keys`: shows what a Redis holds, and deletes keys without blocking it.
//!
//! | Command | |
//! | --- | --- |
//! | `keys big` | big keys of a running server (`SCAN`) or of an RDB file |
//! | `keys hot` | hot keys: by the server's counters, by `MONITOR`, by its tracker |
//! | `keys skew` | data and accesses by slot and node |
//! | `keys delete` | deletion in slices |
//!
//! Findings go to stdout or `--out`; everything about the work itself goes to stderr, so that the
//! output can be piped. Exit codes as everywhere: 2 for a wrong command line, 1 if a server could
//! not be reached or the work was not finished (findings so far are printed first).

pub(crate) mod args;
mod big;
mod connect;
mod csv;
mod delete;
mod hot;
mod json;
mod log;
mod progress;
mod skew;
mod table;
mod text;

use std::{fs, path::Path};

use seawall::survey::End;
use tokio::runtime::Runtime;

use self::args::{KeysArgs, KeysCommand};
use crate::{Failure, terminal};

/// Runs the requested command.
pub(crate) fn run(args: &KeysArgs) -> Result<(), Failure> {
    let runtime =
        Runtime::new().map_err(|error| Failure::Work(format!("cannot start threads: {error}")))?;
    match &args.command {
        KeysCommand::Big(args) => runtime.block_on(big::run(args)),
        KeysCommand::Hot(args) => runtime.block_on(hot::run(args)),
        KeysCommand::Skew(args) => runtime.block_on(skew::run(args)),
        KeysCommand::Delete(args) => runtime.block_on(delete::run(args)),
    }
}

/// Writes the findings to the file or to stdout.
fn deliver(text: &str, out: Option<&Path>) -> Result<(), Failure> {
    match out {
        None => {
            terminal::announce(text.trim_end());
            Ok(())
        }
        Some(path) => {
            fs::write(path, text).map_err(|error| {
                Failure::Work(format!("cannot write {}: {error}", path.display()))
            })?;
            terminal::remark(&format!("written to {}", path.display()));
            Ok(())
        }
    }
}

/// Turns unfinished work into a failure, after its findings were printed.
fn ended(end: End) -> Result<(), Failure> {
    match end {
        End::Complete => Ok(()),
        End::Interrupted => Err(Failure::Work("interrupted; this is what was found so far".into())),
        End::Failed(error) => Err(Failure::Work(format!("{error}; this is what was found before"))),
    }
}

/// Completes when the user presses Ctrl-C; never if the signal cannot be caught.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
