//! Storing: the only place that makes a value visible, and the formats it uses.
//!
//! `pending.rs` and `put.rs` are here, not in `recovery/` and beside `Cache`: both are parts of the
//! [`Publisher`](publisher::Publisher), which makes values visible and invisible.

pub(crate) mod big_values;
pub(crate) mod chunks;
pub(crate) mod codec;
pub(crate) mod decoder;
pub(crate) mod encoder;
pub(crate) mod entry;
pub(crate) mod envelope;
pub(crate) mod keys;
pub(crate) mod parted;
pub(crate) mod pending;
pub(crate) mod publisher;
pub(crate) mod put;
pub(crate) mod shape;
pub(crate) mod spread;
pub(crate) mod value_tags;
