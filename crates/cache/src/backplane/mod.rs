//! What processes tell each other.

pub(crate) mod attention;
pub(crate) mod counters;
pub(crate) mod message;
pub(crate) mod subscriber;
