//! Sessions, on every backend and on a clock held by the test.

mod behaviour;
#[path = "../support/setup.rs"]
mod setup;
