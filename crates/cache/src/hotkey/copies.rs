//! Copies of very hot entries on other nodes of a Cluster, for caches that ask for them.
//!
//! One slot lies on one node, however many nodes there are: a key that all processes read at once has
//! the throughput of a single server. So a cache built with
//! [`copies`](crate::CacheBuilder::copies) may keep its very hot entries under further names,
//! whose slots are spread evenly from the entry's own on:
//!
//! ```text
//! PREFIX 'hot-copy:{' TAG '}:' KEY     the entry's bytes without its lease, for a few seconds
//! ```
//!
//! *A copy is never older than an invalidation that was applied.* Which names an entry's copies have
//! follows from the entry and the cache's settings alone, so a writer that invalidates needs to know
//! nothing: the entry first, then every name that a copy could have, and only then it is `Applied`. A
//! copy is made in the order lease on the copy's name, entry read, copy stored if the lease lives. If
//! the entry was read before it was invalidated, the lease was there before the copies were, and died
//! with them; the late copy is refused. If a node with a copy does not answer, the invalidation is not
//! applied but queued, and repeated until it is; until then that copy lives for [`COPY_FOR`] at most.
//!
//! Strong reads, and reads after an own write, go to the entry itself. Between two invalidations a
//! copy may be older than a refreshed entry, by `COPY_FOR` at most.

use std::{sync::OnceLock, time::Duration};

use seawall_client::client::{Script, slot};

pub(crate) static COPY: Script = Script::new(include_str!("script/copy.lua"));

/// The most copies that a cache may ask for.
pub(crate) const MAX_COPIES: usize = 8;
/// How long a copy lives.
pub(crate) const COPY_FOR: Duration = Duration::from_secs(3);
/// Places that the slots are cut into; each has a tag that lies in it.
const PLACES: usize = 16;
const SLOTS_OF_PLACE: u16 = 1024;

/// Where copies of a cache's entries lie.
#[derive(Debug, Clone)]
pub(crate) struct Copies {
    prefix: String,
    count: usize,
}

impl Copies {
    pub(crate) fn new(prefix: &str, count: usize) -> Self {
        Copies { prefix: prefix.to_owned(), count: count.min(MAX_COPIES) }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Returns the name of one of an entry's copies.
    pub(crate) fn name(&self, entry: &[u8], number: usize) -> Vec<u8> {
        let home = usize::from(slot(entry) / SLOTS_OF_PLACE);
        let place = (home + (number + 1) * PLACES / (self.count + 1)) % PLACES;
        let start = format!("{}hot-copy:{{{}}}:", self.prefix, tags()[place]);
        [start.as_bytes(), entry].concat()
    }

    /// Returns the names of all copies that these entries could have.
    pub(crate) fn names(&self, entries: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let each = |entry: &Vec<u8>| {
            (0..self.count).map(|number| self.name(entry, number)).collect::<Vec<_>>()
        };
        entries.iter().flat_map(each).collect()
    }
}

/// Returns a number for each place whose slot lies there.
fn tags() -> &'static [u32; PLACES] {
    static TAGS: OnceLock<[u32; PLACES]> = OnceLock::new();
    TAGS.get_or_init(|| {
        std::array::from_fn(|place| {
            let lies_there = |number: &u32| {
                usize::from(slot(number.to_string().as_bytes()) / SLOTS_OF_PLACE) == place
            };
            // CRC16 of short numbers reaches every place long before a thousand.
            (0..1000).find(lies_there).unwrap_or(0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_lie_far_from_each_other_and_from_the_entry() {
        for count in 1..=MAX_COPIES {
            let copies = Copies::new("p:", count);
            for number in 0..100_u32 {
                let entry = format!("p:shop:{number}").into_bytes();
                let names = copies.names(std::slice::from_ref(&entry));
                let mut places: Vec<u16> =
                    names.iter().chain([&entry]).map(|key| slot(key) / SLOTS_OF_PLACE).collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), count + 1, "{names:?}");
            }
        }
    }

    #[test]
    fn braces_in_a_key_do_not_move_its_copies() {
        let copies = Copies::new("", 2);
        let name = copies.name(b"shop:%7Bx%7D", 0);
        assert!(name.starts_with(b"hot-copy:{") && name.ends_with(b"shop:%7Bx%7D"));
    }
}
