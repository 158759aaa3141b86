//! Which keys are hot now, as this process knows it.
//!
//! Readers that miss the local tier look here, so it is a map that is replaced, not changed, and
//! they ask for its size first: as long as nothing is hot, a look is one load.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use seawall_resilience::{
    Refusal, TokenBucket,
    clock::{Clock, Moment},
};

use super::{rule::HotRule, wire::HotKey};

/// How many keys a process knows to be hot at most; as many as Redis may name.
pub(super) const MAX_HOT: usize = 512;

type Keys = HashMap<Box<[u8]>, Arc<Hot>>;

/// A hot key in this process.
pub(crate) struct Hot {
    pub(super) known: HotKey,
    /// Until when it is hot unless a later message says more.
    pub(super) until: Moment,
    /// When a message last said so.
    pub(super) learned: Moment,
    /// What Redis and the source may be asked for it.
    bucket: Option<TokenBucket>,
    /// Writes that are not reported yet.
    writes: Arc<AtomicU64>,
}

impl Hot {
    /// Takes one of the reads that the rule allows; else says when there is one again.
    pub(crate) fn admit(&self) -> Result<(), Duration> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        bucket.try_take(1).map_err(|refusal| match refusal {
            Refusal::RetryAfter(time) => time,
            // One token always fits.
            _ => Duration::from_secs(1),
        })
    }

    /// Returns whether it is read from copies too.
    pub(crate) fn is_spread(&self) -> bool {
        self.known.spread
    }
}

/// The hot keys.
#[derive(Default)]
pub(super) struct Board {
    keys: ArcSwap<Keys>,
    count: AtomicUsize,
    /// Held while the map is replaced.
    changing: Mutex<()>,
}

/// What a change did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is hot from now on.
    Promoted,
    /// It was hot already.
    Renewed,
    /// There is no room.
    Full,
}

impl Board {
    pub(super) fn get(&self, key: &[u8]) -> Option<Arc<Hot>> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.keys.load().get(key).cloned()
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.keys.load().contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn all(&self) -> Vec<Arc<Hot>> {
        let mut all: Vec<Arc<Hot>> = self.keys.load().values().cloned().collect();
        all.sort_unstable_by(|one, other| one.known.bytes.cmp(&other.known.bytes));
        all
    }

    /// Notes a write to a key, if it is hot.
    pub(super) fn wrote(&self, key: &[u8]) {
        if let Some(hot) = self.get(key) {
            hot.writes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes that were not taken yet.
    pub(super) fn take_writes(&self, key: &[u8]) -> u64 {
        self.get(key).map_or(0, |hot| hot.writes.swap(0, Ordering::Relaxed))
    }

    /// Makes a key hot, or hot for longer.
    pub(super) fn put(
        &self,
        known: HotKey,
        grace: Duration,
        rule: Option<&HotRule>,
        clock: &Clock,
    ) -> Change {
        let learned = clock.now();
        let until = learned + known.left + grace;
        let _one_by_one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.keys.load_full();
        let before = old.get(known.bytes.as_slice());
        if before.is_none() && old.len() >= MAX_HOT {
            return Change::Full;
        }
        let change = if before.is_some() { Change::Renewed } else { Change::Promoted };
        let (bucket, writes) = match before {
            // The same bucket, or renewing would fill it.
            Some(before) => (before.bucket.clone(), Arc::clone(&before.writes)),
            None => (rule.and_then(|rule| bucket(rule, clock)), Arc::default()),
        };
        let mut keys = Keys::clone(&old);
        let key = known.bytes.clone().into_boxed_slice();
        keys.insert(key, Arc::new(Hot { known, until, learned, bucket, writes }));
        self.replace(keys);
        change
    }

    /// Takes a key out; whether it was there.
    pub(super) fn remove(&self, key: &[u8]) -> bool {
        let _one_by_one = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut keys = Keys::clone(&self.keys.load());
        let was_there = keys.remove(key).is_some();
        if was_there {
            self.replace(keys);
        }
        was_there
    }

    fn replace(&self, keys: Keys) {
        // Readers see the size first: never a size without its keys.
        let count = keys.len();
        self.keys.store(Arc::new(keys));
        self.count.store(count, Ordering::Release);
    }
}

fn bucket(rule: &HotRule, clock: &Clock) -> Option<TokenBucket> {
    let builder = TokenBucket::builder("hot key", rule.limit?).clock(clock.clone());
    builder
        .build()
        .inspect_err(|error| tracing::warn!(%error, "a hot rule's limit is not applied"))
        .ok()
}
