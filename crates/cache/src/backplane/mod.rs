//! Keeps the local tiers of all processes up to date: numbered messages, and noticing lost ones.

pub(crate) mod attention;
pub(crate) mod counters;
pub(crate) mod message;
pub(crate) mod subscriber;
