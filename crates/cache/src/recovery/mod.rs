//! What Redis did not take, or may forget.

pub(crate) mod backlog;
pub(crate) mod file;
pub(crate) mod log;
pub(crate) mod queue;
pub(crate) mod recent;
pub(crate) mod sweep;
pub(crate) mod task;
