//! The connection on real servers: ways in, what errors mean, what is followed, messages, dedicated connections, the
//! end.

mod connection;
mod dedicated;
mod durations;
mod errors;
#[path = "../support/eventually.rs"]
mod eventually;
mod eviction;
mod guests;
mod lazy;
mod metered;
mod moves;
mod observed;
#[path = "../support/process.rs"]
#[expect(dead_code, reason = "processes of these tests get no signals")]
mod process;
mod processes;
mod pubsub;
mod runtimes;
mod seeded;
#[path = "../support/setup.rs"]
mod setup;
mod shutdown;
mod topologies;
mod transport;
mod ways_in;
