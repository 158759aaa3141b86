//! `seawall keys`: what is in a Redis, and getting rid of it gently.
//!
//! | Command | |
//! | --- | --- |
//! | `keys big` | big keys of a running server (`SCAN`) or of an RDB file |
//! | `keys hot` | hot keys: by the server's counters, by `MONITOR`, by its tracker |
//! | `keys skew` | data and accesses by slot and node |
//! | `keys delete` | deletion in slices |
//!
//! Findings go to stdout or `--out`; everything about the work itself goes to stderr, so that the
//! output can be piped. Exit codes as everywhere: 2 for a wrong command line, 1 when a server could
//! not be reached or the work did not come to its end (what was found so far is printed first).

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

/// Does what the command line asks for.
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

/// Hands over what was found.
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

/// What did not come to its end is a failure, after its findings.
fn ended(end: End) -> Result<(), Failure> {
    match end {
        End::Complete => Ok(()),
        End::Interrupted => Err(Failure::Work("interrupted; this is what was found so far".into())),
        End::Failed(error) => Err(Failure::Work(format!("{error}; this is what was found before"))),
    }
}

/// Ready when somebody presses Ctrl-C; never when that cannot be heard.
async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
