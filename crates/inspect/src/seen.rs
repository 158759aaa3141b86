//! Remembers which keys a scan has already returned.
//!
//! `SCAN` may return a key more than once when the server's table changes its size. Keys are
//! remembered by a 64-bit hash: eight bytes each however long they are. At most ten million are
//! remembered, and the probability that any two of them collide is about 1 in 370,000. Keys beyond
//! that bound are counted each time they are returned; the report says so.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// Most keys that are remembered: about 180 MB when it is full.
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
    /// Adds a key. Returns `false` if it was there before.
    pub(super) fn note(&mut self, key: &[u8]) -> bool {
        let hash = xxh3_64(key);
        if self.hashes.len() < REMEMBERED {
            return self.hashes.insert(hash);
        }
        self.forgot = true;
        !self.hashes.contains(&hash)
    }

    /// Returns `true` if there were more keys than it remembers.
    pub(super) fn forgot(&self) -> bool {
        self.forgot
    }
}
