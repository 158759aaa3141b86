//! The connection on real servers: ways in, what errors mean, what is followed, messages, lanes, the
//! end.

mod errors;
mod hub;
mod lanes;
mod moves;
#[path = "../support/setup.rs"]
mod setup;
mod shutdown;
mod topologies;
mod ways_in;
