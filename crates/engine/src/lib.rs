//! A Redis-compatible engine as a deterministic function: no I/O, no threads; time is passed in.
//!
//! Hosts hold a [`Core`], open sessions, feed them bytes and drain output and log; `seawall-server`
//! is the host with sockets.
//!
//! ```
//! use std::sync::Arc;
//! use seawall_engine::{Core, ManualClock, Options, Peer, Transport};
//!
//! let core = Core::new(Options::default(), Arc::new(ManualClock::at_millis(1_700_000_000_000)));
//! let peer = Peer { addr: "local".into(), local_addr: "local".into(), transport: Transport::Local };
//! let session = core.open(peer);
//! core.feed(session, b"SET greeting hello\r\nGET greeting\r\n");
//! let output = core.engine().take_output(session).unwrap();
//! assert_eq!(output, b"+OK\r\n$5\r\nhello\r\n");
//! ```

mod args;
mod bits;
mod clock;
mod command;
mod config;
pub mod crc;
mod ctx;
mod drive;
#[cfg(test)]
mod drive_tests;
mod dump;
pub mod effects;
mod engine;
mod error;
mod evict;
mod garbage;
mod geo;
mod glob;
mod hll;
mod keyspace;
mod notify;
mod number;
mod pubsub;
mod resp;
mod rng;
mod script;
mod session;
mod slowlog;
mod stats;
mod tracking;
mod value;
mod wait;

pub use clock::{Clock, ManualClock};
pub use command::compatibility::compatibility_page;
pub use config::{OutputLimit, Settings};
pub use drive::Core;
pub use dump::{Cursor, Frozen, Part, Reach, Slice, Touch};
pub use engine::{Engine, HostInfo, HostRequest, Logging, Options, Replay};
pub use garbage::Garbage;
pub use resp::Output;
pub use session::{Ack, Peer, SessionId, Transport};
