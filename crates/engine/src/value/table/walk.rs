//! Walking a table in parts: SCAN, random picks, expiry and samples for eviction.
//!
//! A cursor is a position: the lowest 52 bits of the hash, reversed (52, so that a cursor is exact
//! in clients that read it as a signed integer or as a double). A scan emits items in the order of
//! positions and returns the position where it should go on. An item keeps its position for life,
//! whatever is split or merged around it, so everything present during a whole scan is
//! returned at least once, and twice only if it was removed and added in between.

use smallvec::SmallVec;

use super::{Item, Table, hash, tag_with};
use crate::rng::Rng;

/// Bits of a position.
const POSITION_BITS: u32 = 52;
/// A segment counts as this long when a random item is sought; longer ones are rare enough not to
/// matter.
const NOMINAL_SEGMENT: usize = 64;
/// How many segments a scan looks at for each item asked for, at most.
const SCAN_PATIENCE: usize = 10;

/// What one slice of expiry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpireStep {
    /// Where to go on; 0 after the last segment.
    pub(crate) next_segment: usize,
    /// How many items were taken out.
    pub(crate) removed: usize,
}

impl<T: Item> Table<T> {
    /// Shows about `count` items from a cursor on; returns the next cursor, 0 at the end.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&T)) -> u64 {
        let count = count.max(1);
        let mut from = cursor;
        let mut shown = 0;
        for _ in 0..count.saturating_mul(SCAN_PATIENCE) {
            if from >> POSITION_BITS != 0 {
                return 0;
            }
            let index = self.segments.index_of((from << (64 - POSITION_BITS)).reverse_bits());
            let mut items: SmallVec<[(u64, &T); 64]> = self
                .segments
                .get(index)
                .items
                .iter()
                .map(|item| (position(hash(self.seed, item.key())), item))
                .filter(|&(position, _)| position >= from)
                .collect();
            items.sort_unstable_by_key(|&(position, _)| position);
            let mut last = None;
            for (position, item) in items {
                // Items at one position are shown together, as the cursor cannot tell them apart.
                if shown >= count && last != Some(position) {
                    return position;
                }
                f(item);
                shown += 1;
                last = Some(position);
            }
            let range = POSITION_BITS - self.segments.bits_of(index);
            from = ((from >> range) + 1) << range;
            if shown >= count {
                break;
            }
        }
        if from >> POSITION_BITS != 0 { 0 } else { from }
    }

    /// Where in the order of a scan a key stands, or would stand.
    pub(crate) fn position_of(&self, key: &[u8]) -> u64 {
        position(hash(self.seed, key))
    }

    /// An item chosen at random, each with the same chance.
    pub(crate) fn random(&self, rng: &mut Rng) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        loop {
            // Every pair of segment and place is as likely; places that are not taken are drawn
            // again. The mean load is bounded from below, so this ends soon.
            let segment = self.segments.get(rng.index(self.segments.len()));
            let len = segment.items.len();
            let places = if self.segments.len() == 1 { len } else { len.max(NOMINAL_SEGMENT) };
            let place = rng.index(places);
            if place < len {
                return segment.items.get(place);
            }
        }
    }

    /// Takes out items that are due, looking at `max_segments` segments.
    ///
    /// Only segments whose earliest deadline has passed are looked into, so the cost is that of
    /// reading one number a segment unless there is something to do.
    pub(crate) fn expire_step(
        &mut self,
        now: i64,
        from_segment: usize,
        max_segments: usize,
        mut on_expired: impl FnMut(T),
    ) -> ExpireStep {
        let total = self.segments.len();
        let from = if from_segment < total { from_segment } else { 0 };
        let to = from.saturating_add(max_segments).min(total);
        let mut removed = 0;
        for index in from..to {
            let segment = self.segments.get_mut(index);
            if segment.min_deadline > now {
                continue;
            }
            let mut earliest = i64::MAX;
            let mut bytes = 0;
            segment.items.extract(
                |item| {
                    let deadline = item.deadline();
                    if deadline > now {
                        earliest = earliest.min(deadline);
                    }
                    deadline <= now
                },
                tag_with(self.seed),
                |item| {
                    bytes += item.heap_bytes();
                    removed += 1;
                    on_expired(item);
                },
            );
            segment.min_deadline = earliest;
            self.heap_bytes -= bytes;
        }
        self.len -= removed;
        self.timed -= removed;
        (0..removed).for_each(|_| self.shrink());
        let next_segment = if to < self.segments.len() && to < total { to } else { 0 };
        ExpireStep { next_segment, removed }
    }

    /// Shows the items of one segment chosen at random, or only those with a deadline; returns how
    /// many it showed, 0 only if there are none in the whole table.
    pub(crate) fn sample_segment(
        &self,
        rng: &mut Rng,
        want_deadline: bool,
        mut f: impl FnMut(&T),
    ) -> usize {
        let candidates = if want_deadline { self.timed } else { self.len };
        if candidates == 0 {
            return 0;
        }
        let start = rng.index(self.segments.len());
        for index in (start..self.segments.len()).chain(0..start) {
            let segment = self.segments.get(index);
            if want_deadline && segment.min_deadline == i64::MAX {
                continue;
            }
            let mut shown = 0;
            for item in segment.items.iter() {
                if !want_deadline || item.deadline() != i64::MAX {
                    f(item);
                    shown += 1;
                }
            }
            if shown > 0 {
                return shown;
            }
        }
        0
    }
}

/// Where in the order of a scan a hash stands.
const fn position(hash: u64) -> u64 {
    hash.reverse_bits() >> (64 - POSITION_BITS)
}
