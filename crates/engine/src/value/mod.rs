//! The data structures behind the types: pure, without clock or I/O.

pub(crate) mod member;
mod order;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod zset;
