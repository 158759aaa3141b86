//! The connection on real servers: ways in, what errors mean, and what is followed.

mod errors;
mod topologies;
mod ways_in;
