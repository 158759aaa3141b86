//! Hosts the engine: sockets, event loop, clock, append-only log, in-process connections.
//!
//! [`Server::start`] returns a [`Handle`]. Clients connect over TCP, over a unix socket, or from
//! inside the process through [`Handle::connect`], which needs no socket and no other thread. There
//! are no statics: a process may run any number of servers. A [`Host`] has no thread at all: its caller
//! gives it time.
//!
//! ```text
//! LocalStream (caller's thread) ──┐
//!                                 ├─▶ Core: the engine under a short lock ─▶ Journal: the log
//! EventLoop (one thread, mio) ────┘            Hub: who must be woken
//! ```

mod acks;
pub mod aof;
mod cleaner;
mod clock;
mod config;
mod connection;
mod error;
mod event_loop;
mod flush;
mod give_back;
mod host;
mod hub;
mod journal;
mod limits;
mod listener;
mod local;
mod notice;
mod process;
mod requests;
mod server;
mod sockets;
mod turns;

pub use clock::SystemClock;
pub use config::Config;
pub use error::{StartError, StopError};
pub use host::Host;
pub use journal::{Begun, Journal, JournalError, Listener, OpenJournal};
pub use local::LocalStream;
pub use notice::{Level, Notices};
pub use server::{Handle, Server, Stopper};
