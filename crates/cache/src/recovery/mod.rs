//! Carries out invalidations that Redis did not take, and repeats those that it may have forgotten.

pub(crate) mod backlog;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod queue;
pub(crate) mod recent;
pub(crate) mod sweep;
pub(crate) mod task;
