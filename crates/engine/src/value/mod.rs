//! The data structures behind the types: pure, without clock or I/O.

pub(crate) mod elem;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod member;
mod order;
pub(crate) mod packed;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod zset;

/// What an allocation of `len` bytes costs, as the size classes of common allocators have it.
pub(crate) const fn alloc_bytes(len: usize) -> usize {
    len.next_multiple_of(16)
}
