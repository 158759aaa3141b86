//! Sends random commands to two servers and compares the replies.
//!
//! `redis-server` is one of the two, and right by definition. A seed determines episodes of
//! commands over a few keys, so that types collide: right and wrong arguments, transactions,
//! scripts, streams with groups, blocking commands, pub/sub and both protocols; `commands.txt` is
//! the list. After each episode the whole data set is compared as well, encodings and lifetimes
//! included.
//!
//! [`damaged_bytes`] does the same one layer below, with malformed requests.
//!
//! A difference is shrunk to the few commands that cause it. Unavoidable differences (random picks,
//! hash order, clocks) are named per command in `commands.txt`; intended differences are listed
//! with their reasons in `accepted.txt`.
//!
//! ```no_run
//! use seawall_testkit::ServerBuilder;
//! use seawall_testkit::differential::{Differential, Limits};
//!
//! let ours = ServerBuilder::seawall("target/debug/seawall");
//! let mut test = Differential::new(ServerBuilder::redis(), ours)?;
//! let report = test.run(Limits { seed: 7, commands: 50_000, differences: 10 }, |_| {})?;
//! assert!(report.found.is_empty(), "{report}");
//! # Ok::<(), std::io::Error>(())
//! ```

mod accepted;
mod compare;
mod generate;
mod grammar;
mod judge;
mod report;
mod run;
mod scripts;
mod shrink;
mod side;
mod slots;
mod wire;

pub use report::{Found, Report};
pub use run::{Differential, Limits, draws};
pub use wire::damaged_bytes;
