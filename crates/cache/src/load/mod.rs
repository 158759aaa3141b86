//! Loading: decides who loads and who waits.

pub(crate) mod batch;
pub(crate) mod coordinator;
pub(crate) mod lease;
pub(crate) mod loader;
pub(crate) mod past;
pub(crate) mod refresh;
pub(crate) mod single_flight;
