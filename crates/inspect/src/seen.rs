//! Which keys a scan has returned already.
//!
//! `SCAN` may return a key more than once when the server's table changes its size. Keys are
//! remembered by a 64-bit hash: eight bytes each however long they are, and two of the ten million
//! that are remembered at most collide with a probability of about 1 in 370,000. Keys beyond
//! that bound are counted each time they are returned; the report says so.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Keys that are remembered: about 180 MB when all of them are there.
pub(super) const REMEMBERED: usize = 10_000_000;

/// A value that is a hash already.
#[derive(Debug, Default)]
struct Itself(u64);

impl Hasher for Itself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Keys that were returned.
#[derive(Debug, Default)]
pub(super) struct Seen {
    hashes: HashSet<u64, BuildHasherDefault<Itself>>,
    forgot: bool,
}

impl Seen {
    /// Notes a key; false when it was there before.
    pub(super) fn note(&mut self, key: &[u8]) -> bool {
        let hash = xxh3_64(key);
        if self.hashes.len() < REMEMBERED {
            return self.hashes.insert(hash);
        }
        self.forgot = true;
        !self.hashes.contains(&hash)
    }

    /// Whether there were more keys than it remembers.
    pub(super) fn forgot(&self) -> bool {
        self.forgot
    }
}
