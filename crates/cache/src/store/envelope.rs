//! The bytes of one cache entry in Redis: a header of 72 bytes, then the value.
//!
//! Everything about one entry is in one string: value, version, lease, lifetimes. So it lies in one
//! slot by nature, a hit is one GET, and the scripts change what they must in place. Numbers are
//! big-endian, times are milliseconds of the server's clock.
//!
//! ```text
//!  0  u8   0xC5                       32  u64  fresh until
//!  1  u8   format, 1                  40  u64  stale until
//!  2  u8   kind: 0 vacant             48  u32  what loading cost, in microseconds
//!               1 value  2 absent     52  u32  the value's shape (`shape.rs`)
//!  3  u8   codec, +0x80 compressed,   56  u64  stamp of the tags' generations
//!          +0x40 in parts
//!  4  u8   1 invalidated, 2 awaited   64  u64  the source's own version, 0 without one
//!  5  u8×3 spare                      72  …    value
//!  8  u64  version: microseconds of the server's clock when it was written, and always rising
//! 16  u64  lease: token of the process that may fill it, 0 for none
//! 24  u64  lease until
//! ```
//!
//! A value that is too large for one command lies in parts; the entry then holds their manifest.
//!
//! The scripts in `tier/script/` know these offsets; a test compares what they write with what this
//! reads.

/// Length of the header.
pub(crate) const HEADER_BYTES: usize = 72;
const MAGIC: u8 = 0xC5;
const FORMAT: u8 = 1;
const FLAG_INVALIDATED: u8 = 1;
const FLAG_AWAITED: u8 = 2;

/// What an entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing; a process holds the lease to fill it.
    Vacant,
    /// A value.
    Value,
    /// The knowledge that there is no value.
    Absent,
}

/// The header of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) codec: u8,
    pub(crate) invalidated: bool,
    /// Whether a reader waits for the holder of the lease.
    pub(crate) awaited: bool,
    pub(crate) version: u64,
    pub(crate) lease: u64,
    pub(crate) lease_until: u64,
    pub(crate) fresh_until: u64,
    pub(crate) stale_until: u64,
    pub(crate) cost_micros: u32,
    pub(crate) shape: u32,
    pub(crate) stamp: u64,
    pub(crate) source_version: u64,
}

impl Header {
    /// Reads an entry. Returns `None` if no cache wrote it.
    pub(crate) fn read(entry: &[u8]) -> Option<(Header, &[u8])> {
        let (head, value) = entry.split_at_checked(HEADER_BYTES)?;
        if head[0] != MAGIC || head[1] != FORMAT {
            return None;
        }
        let kind = match head[2] {
            0 => Kind::Vacant,
            1 => Kind::Value,
            2 => Kind::Absent,
            _ => return None,
        };
        let long =
            |at: usize| head[at..at + 8].try_into().map(u64::from_be_bytes).unwrap_or_default();
        let short =
            |at: usize| head[at..at + 4].try_into().map(u32::from_be_bytes).unwrap_or_default();
        let header = Header {
            kind,
            codec: head[3],
            invalidated: head[4] & FLAG_INVALIDATED != 0,
            awaited: head[4] & FLAG_AWAITED != 0,
            version: long(8),
            lease: long(16),
            lease_until: long(24),
            fresh_until: long(32),
            stale_until: long(40),
            cost_micros: short(48),
            shape: short(52),
            stamp: long(56),
            source_version: long(64),
        };
        Some((header, value))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_not_ours_is_not_read() {
        for entry in [&b""[..], b"plain", &[0; 72], &[MAGIC; 72], &[MAGIC; 71]] {
            assert_eq!(Header::read(entry), None, "{entry:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Header::read(&bytes);
            let mut ours = bytes;
            ours.resize(HEADER_BYTES.max(ours.len()), 0);
            (ours[0], ours[1], ours[2]) = (MAGIC, FORMAT, 1);
            prop_assert!(Header::read(&ours).is_some());
        }
    }
}
