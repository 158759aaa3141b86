//! The limiter's memory in this process: a meter for each recent subject.
//!
//! It has three uses: it is the whole limiter where there is no Redis, it replaces Redis while that
//! is unavailable, and it remembers refusals so that a subject far over its limit costs no round
//! trip. Costs that Redis admits are charged here, too, so that an outage does not begin with a
//! full burst.
//!
//! The memory is bounded and never fails open: a meter may only be removed when it is empty,
//! because an empty meter is equivalent to none. If there is no room and nothing can be removed,
//! the remaining subjects share one meter.
//!
//! Subjects are identified by a seeded 128-bit hash. Two subjects with the same hash would share a
//! meter, which is strict for both.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::{decision::Decision, gcra::Meter, policy::Algorithm, window::Counts};

/// Parts with separate locks.
const SHARDS: usize = 16;

/// The meters of one limiter.
#[derive(Debug)]
pub(super) struct Cells {
    algorithm: Algorithm,
    seed: u64,
    capacity_each: usize,
    shards: Vec<Mutex<Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    cells: HashMap<u128, Cell, BuildHasherDefault<Folded>>,
    /// Shared by all subjects that found no room.
    overflow: Cell,
    /// Before this time there is nothing to remove.
    sweep_at: u64,
}

#[derive(Debug, Default)]
struct Cell {
    state: State,
    /// Redis refused `refused_cost` until this time.
    refused_until: u64,
    refused_cost: u64,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Fresh,
    Meter(Meter),
    Counts(Box<Counts>),
}

impl Cells {
    /// Creates room for about `capacity` subjects.
    pub(super) fn new(algorithm: Algorithm, capacity: usize, seed: u64) -> Self {
        Cells {
            algorithm,
            seed,
            capacity_each: capacity.div_ceil(SHARDS).max(1),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Decides locally.
    pub(super) fn check(&self, subject: &[u8], now: u64, cost: u64) -> Decision {
        let hash = self.hash(subject);
        let mut shard = self.shard(hash);
        let shard = &mut *shard;
        let cell = match shard.cell(hash, self.capacity_each, &self.algorithm, now) {
            Some(cell) => cell,
            None => &mut shard.overflow,
        };
        cell.state.check(&self.algorithm, now, cost)
    }

    /// Records a cost that Redis admitted.
    pub(super) fn charge(&self, subject: &[u8], now: u64, cost: u64) {
        let hash = self.hash(subject);
        let mut shard = self.shard(hash);
        if let Some(cell) = shard.cell(hash, self.capacity_each, &self.algorithm, now) {
            cell.state.charge(&self.algorithm, now, cost);
        }
    }

    /// Records that Redis refused this cost for this long.
    pub(super) fn refuse(&self, subject: &[u8], now: u64, cost: u64, micros: u64) {
        let hash = self.hash(subject);
        let mut shard = self.shard(hash);
        if let Some(cell) = shard.cell(hash, self.capacity_each, &self.algorithm, now) {
            cell.refused_until = now.saturating_add(micros);
            cell.refused_cost = cost;
        }
    }

    /// Returns how long Redis is known to refuse this cost; usage by others can only make it
    /// longer.
    pub(super) fn known_refusal(&self, subject: &[u8], now: u64, cost: u64) -> Option<u64> {
        let hash = self.hash(subject);
        let shard = self.shard(hash);
        let cell = shard.cells.get(&hash)?;
        let known = cell.refused_until > now && cell.refused_cost > 0 && cost >= cell.refused_cost;
        known.then(|| cell.refused_until - now)
    }

    /// Removes a subject.
    pub(super) fn forget(&self, subject: &[u8]) {
        let hash = self.hash(subject);
        self.shard(hash).cells.remove(&hash);
    }

    fn hash(&self, subject: &[u8]) -> u128 {
        xxh3_128_with_seed(subject, self.seed)
    }

    fn shard(&self, hash: u128) -> MutexGuard<'_, Shard> {
        // The hash map below uses the low half of the hash.
        let index = (hash >> 64) as usize % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    /// Returns the subject's cell, if it exists or there is room for it.
    fn cell(
        &mut self,
        hash: u128,
        capacity: usize,
        algorithm: &Algorithm,
        now: u64,
    ) -> Option<&mut Cell> {
        if self.cells.len() >= capacity && !self.cells.contains_key(&hash) {
            if now < self.sweep_at {
                return None;
            }
            // One pass; the next one is due when the first of the remaining cells is empty.
            self.cells.retain(|_, cell| cell.idle_at(algorithm) > now);
            let first = self.cells.values().map(|cell| cell.idle_at(algorithm)).min();
            self.sweep_at = first.unwrap_or(now);
            if self.cells.len() >= capacity {
                return None;
            }
            self.sweep_at = now;
        }
        Some(self.cells.entry(hash).or_default())
    }
}

impl Cell {
    fn idle_at(&self, algorithm: &Algorithm) -> u64 {
        let empty = match (&self.state, algorithm) {
            (State::Meter(meter), Algorithm::Gcra(rate)) => rate.idle_at(meter),
            (State::Counts(counts), Algorithm::Window(window)) => window.idle_at(counts),
            _ => 0,
        };
        empty.max(self.refused_until)
    }
}

impl State {
    fn check(&mut self, algorithm: &Algorithm, now: u64, cost: u64) -> Decision {
        match algorithm {
            Algorithm::Gcra(rate) => rate.check(self.meter(), now, cost),
            Algorithm::Window(window) => window.check(self.counts(), now, cost),
        }
    }

    fn charge(&mut self, algorithm: &Algorithm, now: u64, cost: u64) {
        match algorithm {
            Algorithm::Gcra(rate) => rate.charge(self.meter(), now, cost),
            Algorithm::Window(window) => window.charge(self.counts(), now, cost),
        }
    }

    fn meter(&mut self) -> &mut Meter {
        if !matches!(self, State::Meter(_)) {
            *self = State::Meter(Meter::default());
        }
        let State::Meter(meter) = self else { unreachable!("it was made one above") };
        meter
    }

    fn counts(&mut self) -> &mut Counts {
        if !matches!(self, State::Counts(_)) {
            *self = State::Counts(Box::default());
        }
        let State::Counts(counts) = self else { unreachable!("it was made one above") };
        counts
    }
}

/// The keys are hashes already.
#[derive(Debug, Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::limit::{Policy, Rate};

    fn cells(capacity: usize) -> Cells {
        let policy = Policy::from(Rate::per_second(1).burst(2));
        Cells::new(policy.algorithm(1).expect("valid"), capacity, 7)
    }

    #[test]
    fn a_full_memory_is_strict_and_opens_again_when_meters_are_empty() {
        let cells = cells(1);
        let subjects: Vec<_> = (0..1_000u32).map(u32::to_be_bytes).collect();
        let admitted = |now| {
            let allowed = |s: &&[u8; 4]| cells.check(&s[..], now, 1).is_allowed();
            subjects.iter().filter(allowed).count()
        };
        // One subject per shard, and two for those that share.
        assert_eq!(admitted(0), SHARDS * 3);
        assert_eq!(admitted(1), SHARDS);
        let held: usize = (0..SHARDS).map(|i| cells.shard((i as u128) << 64).cells.len()).sum();
        assert_eq!(held, SHARDS);
        assert!(admitted(10_000_000) >= SHARDS * 3);
    }

    #[test]
    fn a_refusal_is_known_for_its_cost_and_time() {
        let cells = cells(64);
        let second = Duration::from_secs(1).as_micros() as u64;
        cells.refuse(b"a", 0, 3, second);
        assert_eq!(cells.known_refusal(b"a", 1, 3), Some(second - 1));
        assert_eq!(cells.known_refusal(b"a", 1, 2), None, "less might still fit");
        assert_eq!(cells.known_refusal(b"a", second, 3), None);
        assert_eq!(cells.known_refusal(b"b", 1, 3), None);
        cells.refuse(b"a", 0, 3, second);
        cells.forget(b"a");
        assert_eq!(cells.known_refusal(b"a", 1, 3), None);
    }
}
