//! Reading: what is there.

pub(crate) mod batch;
pub(crate) mod load_or_wait;
pub(crate) mod reader;
