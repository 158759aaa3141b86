//! Random commands to two servers, replies compared.
//!
//! `redis-server` is one of the two, and right by definition. From a seed come episodes of commands
//! over a few keys, so that types collide: right and wrong arguments, transactions, scripts,
//! streams with groups, blocking commands, pub/sub and both protocols; `commands.txt` is the list.
//! After each episode the whole data set is compared as well, encodings and lifetimes included.
//!
//! [`damaged_bytes`] does the same one layer below, with broken requests.
//!
//! A difference is shrunk to the few commands that are needed for it. What must differ (random
//! picks, hash order, clocks) is named per command in `commands.txt`; what is meant to differ is
//! listed with its reason in `accepted.txt`.
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
