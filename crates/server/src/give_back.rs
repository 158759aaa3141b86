//! Lets the allocator give memory back although nobody asks for anything.
//!
//! Data is allocated by the loop's thread and freed by another. The allocator of the program looks
//! after such memory, and returns pages to the system, only now and then while the owning thread
//! allocates: without traffic it keeps gigabytes. So when much more is resident than is in use, the
//! loop allocates a little once a second, enough for that look. Other allocators do not mind.

use std::hint::black_box;

/// Resident memory that is not worth the effort.
const SLACK_BYTES: u64 = 64 << 20;
/// Above the size up to which allocators serve from a list without a look around.
const PIECE_BYTES: usize = 2048;
/// Allocations after which the allocator of the program looks around; it takes under a millisecond.
const PIECES: usize = 12_000;

/// Whether so much is resident beyond what is in use that it should go back.
pub(crate) fn is_due(resident_bytes: u64, used_bytes: u64) -> bool {
    resident_bytes > used_bytes + used_bytes / 2 + SLACK_BYTES
}

/// Makes the allocator look after memory that other threads freed.
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
