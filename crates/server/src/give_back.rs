//! Lets the allocator return memory to the system while there is no traffic.
//!
//! Data is allocated by the loop's thread and freed by another. The program's allocator collects
//! such memory, and returns pages to the system, only occasionally while the owning thread
//! allocates: without traffic it keeps gigabytes. So when much more memory is resident than in use,
//! the loop makes a few allocations once a second, enough to trigger that collection. Other
//! allocators are not affected.

use std::hint::black_box;

/// Excess resident memory that is not worth the effort.
const SLACK_BYTES: u64 = 64 << 20;
/// Above the size up to which allocators serve from a list without collecting.
const PIECE_BYTES: usize = 2048;
/// Allocations after which the program's allocator collects; it takes under a millisecond.
const PIECES: usize = 12_000;

/// Returns `true` if so much memory is resident beyond what is in use that it should be returned.
pub(crate) fn is_due(resident_bytes: u64, used_bytes: u64) -> bool {
    resident_bytes > used_bytes + used_bytes / 2 + SLACK_BYTES
}

/// Makes the allocator collect memory that other threads freed.
pub(crate) fn nudge() {
    for _ in 0..PIECES {
        drop(black_box(Vec::<u8>::with_capacity(black_box(PIECE_BYTES))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_is_not_worth_it() {
        assert!(!is_due(50 << 20, 1 << 20));
        assert!(is_due(600 << 20, 1 << 20));
        assert!(!is_due(1400 << 20, 1 << 30), "fragmentation is no reason");
    }
}
