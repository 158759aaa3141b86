//! The binary from outside: what it answers, compared with redis-server, and whether the clients
//! that people use are content with it.

mod clients;
mod conformance;
mod differential;
mod durability;
mod keys;
mod lifecycle;
mod syncs;

use seawall_testkit::{ServerBuilder, ServerProcess};

/// The binary under test.
const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");

/// A private engine in memory.
fn seawall() -> ServerProcess {
    ServerProcess::seawall(SEAWALL).expect("the engine starts")
}

/// How to start a private engine in memory.
fn seawall_builder() -> ServerBuilder {
    ServerBuilder::seawall(SEAWALL).args(["--appendonly", "no"])
}

/// A private redis-server: what passes here and fails on the engine is the engine's mistake.
fn redis() -> ServerProcess {
    ServerProcess::redis().expect("redis-server starts; `cargo xtask test` installs it")
}
