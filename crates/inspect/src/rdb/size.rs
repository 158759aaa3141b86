//! Estimates the memory of a value in a server from its encoding in the file.
//!
//! The figures are those of a 64-bit redis-server 7.0 with jemalloc, as `MEMORY USAGE` adds them
//! up: exact for strings and packed values, within a few percent for tables, whose number of
//! buckets depends on how they grew. The server itself only estimates a stream's indexes by their
//! nodes, which `index.rs` counts. The spare space of a running server in a stream's last piece, up
//! to 4 KiB, is not in a file.

use super::index::Index;

/// Header of a value.
const OBJECT: u64 = 16;
/// An entry of a hash table.
const ENTRY: u64 = 24;
const TABLE: u64 = 56;
const SORTED_SET: u64 = 16;
const SKIP_LIST: u64 = 32;
/// The skip list's head with its 32 levels.
const SKIP_HEAD: u64 = 640;
/// A node of a skip list, on average over its levels.
const SKIP_NODE: u64 = 53;
const QUICK_LIST: u64 = 40;
const QUICK_NODE: u64 = 32;
const STREAM: u64 = 80;
/// A node of a stream's index, as the server estimates it.
const INDEX_NODE: u64 = 244;
const STREAM_ID: u64 = 16;
const GROUP: u64 = 40;
const CONSUMER: u64 = 24;
const PENDING: u64 = 24;
/// The longest string that shares one allocation with its header.
const EMBEDDED: u64 = 44;

/// Returns what the allocator uses for this number of bytes.
pub(super) fn allocated(bytes: u64) -> u64 {
    match bytes {
        0..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => {
            // Four classes in each doubling.
            let step = bytes.checked_next_power_of_two().map_or(bytes, |power| power / 8);
            bytes.checked_next_multiple_of(step.max(1)).unwrap_or(bytes)
        }
    }
}

/// Returns the size of a string as a key, a field or a member.
pub(super) fn text(length: u64) -> u64 {
    let head = match length {
        0..32 => 1,
        32..256 => 3,
        256..65_536 => 5,
        _ => 9,
    };
    allocated(length.saturating_add(head + 1))
}

/// Returns the size of a key and its entry in the keyspace.
pub(super) fn key(length: u64) -> u64 {
    ENTRY + text(length)
}

/// Returns the size of a value that is one string.
pub(super) fn string(length: u64, integer: bool) -> u64 {
    match length {
        _ if integer => OBJECT,
        0..=EMBEDDED => allocated(OBJECT + 3 + length + 1),
        _ => text(length).saturating_add(OBJECT),
    }
}

/// Returns the size of a value in one packed piece.
pub(super) fn packed(length: u64) -> u64 {
    OBJECT + allocated(length)
}

fn buckets(entries: u64) -> u64 {
    8 * entries.max(4).checked_next_power_of_two().unwrap_or(entries)
}

/// Returns the size of a set or hash with `entries` entries and texts of this size.
pub(super) fn table(entries: u64, texts: u64) -> u64 {
    OBJECT + TABLE + buckets(entries) + entries * ENTRY + texts
}

/// Returns the size of a sorted set with `members` members and texts of this size.
pub(super) fn sorted(members: u64, texts: u64) -> u64 {
    table(members, texts) + SORTED_SET + SKIP_LIST + SKIP_HEAD + members * SKIP_NODE
}

/// Returns the size of a list with `pieces` pieces of this total size.
pub(super) fn list(pieces: u64, packs: u64) -> u64 {
    OBJECT + QUICK_LIST + pieces * QUICK_NODE + packs
}

/// Returns the size of a radix tree over stream ids.
fn tree(index: Index) -> u64 {
    index.ids() * STREAM_ID + index.nodes() * INDEX_NODE
}

/// Returns the size of a stream without its groups: its pieces of this total size, and their index.
pub(super) fn stream(pieces: Index, packs: u64) -> u64 {
    OBJECT + STREAM + tree(pieces) + packs
}

/// Returns the size of a consumer group with its pending entries. The server does not count its
/// name.
pub(super) fn group(pending: Index) -> u64 {
    GROUP + pending.ids() * PENDING + tree(pending)
}

/// Returns the size of a consumer with its own pending entries.
pub(super) fn consumer(name: u64, pending: Index) -> u64 {
    CONSUMER + name + tree(pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_server() {
        // MEMORY USAGE … SAMPLES 0 of redis-server 7.0.15.
        assert_eq!(key(3) + string(100_000, false), 114_736);
        assert_eq!(key(3) + string(5, false), 64);
        assert_eq!(key(3) + string(5, true), 48);
        assert_eq!(key(7) + table(3_000, 3_000 * 2 * text(5)), 152_880);
        let sorted = key(7) + sorted(3_000, 3_000 * text(5));
        assert!(sorted.abs_diff(288_688) < 288_688 / 50, "{sorted}");
    }

    #[test]
    fn no_length_is_too_long() {
        assert!(string(u64::MAX, false) > 0);
        assert!(allocated(u64::MAX) > 0);
    }
}
