//! Storing: what makes a value visible.

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
