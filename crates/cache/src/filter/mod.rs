//! Stops reads of keys that cannot exist, before any tier is asked.
//!
//! A Bloom filter over all keys of the source, in this process. It is filled in the background from a
//! closure that streams the keys, and kept up by the namespace's messages: a writer that creates a row
//! and then invalidates, puts or writes its key tells every process of it.
//!
//! A filter that does not know a key which exists would be worse than none, so it answers only while
//! it is *certain*: built completely, no message missed since the build began, and the messages'
//! counter compared less than [`TRUST`] ago. In all other cases it lets everything pass and is built
//! again.
//!
//! ```text
//!            first look          source streamed            gap, reconnect, clear()
//! passing ───────────────► building ───────────► certain ───────────────────────► passing
//!                              ▲ both take inserts │ every `rebuild_every`, on demand
//!                              └───────────────────┘
//! ```
//!
//! Invariant: a key whose announcement was [`Applied`](crate::Invalidation::Applied) more than
//! [`TRUST`] ago is never said to be missing. An answer at time `u` needs a look that began after
//! `u - TRUST`; that look saw the announcement's number, so it was heard (and inserted) or found
//! missing (and the filter dropped).
//!
//! Deliberately absent: deletion. A deleted key passes until the next build, which costs what it
//! would have cost without a filter.

pub(crate) mod keys;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use metrics::{Counter, Gauge};
use seawall_client::{
    error::{Error, Result},
    key::KeyPart,
};
use seawall_resilience::{
    Backoff,
    clock::{Clock, Moment},
    random::Randomness,
};
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::{
    Cache,
    backplane::attention::Attention,
    filter::keys::{Bits, KeyFilter, KeySink},
    life::Life,
    load::loader::contained,
    store::keys::Names,
};

/// For how long after a look at the messages' counter the filter counts as complete.
const TRUST: Duration = Duration::from_secs(1);
/// How much larger than expected a filter may grow when the source has more keys than expected.
const MAX_GROWTH: usize = 16;
/// Pauses after a source that failed.
const PAUSES: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// How a filter stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FilterStatus {
    /// Whether it answers; else it lets everything pass.
    pub certain: bool,
    /// Counts the builds.
    pub version: u64,
    /// Keys that were inserted, some of them perhaps twice.
    pub keys: u64,
    /// Its size.
    pub bytes: usize,
    /// Which part of absent keys pass, estimated from the bits that are set.
    pub false_positives: f64,
}

/// One value, so that no reader sees the one being built leave before it arrives.
#[derive(Default, Clone)]
struct Slots {
    current: Option<Arc<Bits>>,
    next: Option<Arc<Bits>>,
    version: u64,
}

/// The filter of one cache, as the tiers and the subscriber know it.
pub(crate) struct Filter {
    slots: ArcSwap<Slots>,
    /// Until when what was heard counts as complete, in the local clock's nanoseconds.
    trusted_until: AtomicU64,
    attention: Arc<Attention>,
    losses: watch::Sender<u64>,
    version: watch::Sender<u64>,
    wanted: Notify,
    filtered: Counter,
    misjudged: Counter,
    ratio: Gauge,
    builds: Counter,
}

impl Filter {
    pub(crate) fn new(name: &str, attention: &Arc<Attention>) -> Arc<Self> {
        let counter = |metric: &'static str| metrics::counter!(metric, "cache" => name.to_owned());
        Arc::new(Filter {
            slots: ArcSwap::default(),
            trusted_until: AtomicU64::new(0),
            attention: Arc::clone(attention),
            losses: watch::Sender::new(0),
            version: watch::Sender::new(0),
            wanted: Notify::new(),
            filtered: counter("seawall_cache_filtered_total"),
            misjudged: counter("seawall_cache_filter_misjudged_total"),
            ratio: metrics::gauge!("seawall_cache_filter_false_positive_ratio", "cache" => name.to_owned()),
            builds: counter("seawall_cache_filter_builds_total"),
        })
    }

    /// Adds a key that exists as of now.
    pub(crate) fn insert(&self, entry: &[u8]) {
        let slots = self.slots.load();
        for bits in [&slots.current, &slots.next].into_iter().flatten() {
            bits.insert(entry);
        }
    }

    /// Counts a key that the filter let pass although the source has none.
    pub(crate) fn misjudged(&self) {
        if self.slots.load().current.is_some() {
            self.misjudged.increment(1);
        }
    }

    /// Lets everything pass until the next build, because a message may have been missed.
    pub(crate) fn lost_track(&self) {
        self.trusted_until.store(0, Ordering::SeqCst);
        self.slots.rcu(|slots| Slots { current: None, next: None, version: slots.version });
        self.losses.send_modify(|losses| *losses += 1);
    }

    /// Notes that everything announced before this look began was received.
    pub(crate) fn complete_at(&self, look: Moment) {
        self.trusted_until.store((look + TRUST).as_nanos(), Ordering::SeqCst);
        let slots = self.slots.load();
        if slots.current.is_none() && slots.next.is_none() {
            self.wanted.notify_one();
        }
    }

    /// Returns whether this key certainly does not exist.
    pub(crate) fn excludes(&self, entry: &[u8], now: Moment) -> bool {
        self.attention.serves()
            && now.as_nanos() < self.trusted_until.load(Ordering::SeqCst)
            && self.slots.load().current.as_ref().is_some_and(|bits| !bits.contains(entry))
    }

    /// Returns whether to stop a read of this key, and counts it.
    pub(crate) fn stops(&self, entry: &[u8], now: Moment) -> bool {
        let stops = self.excludes(entry, now);
        if stops {
            self.filtered.increment(1);
        }
        stops
    }

    /// Returns whether it was ever complete.
    pub(crate) fn is_built(&self) -> bool {
        *self.version.borrow() > 0
    }

    fn begin(&self, bits: &Arc<Bits>) {
        self.slots.rcu(|slots| Slots {
            current: slots.current.clone(),
            next: Some(Arc::clone(bits)),
            version: slots.version,
        });
    }

    /// Puts a complete filter to use, unless track was lost since it began.
    fn finish(&self, bits: &Arc<Bits>) -> bool {
        let ours = |slots: &Slots| slots.next.as_ref().is_some_and(|next| Arc::ptr_eq(next, bits));
        let before = self.slots.rcu(|slots| match ours(slots) {
            true => Slots { current: slots.next.clone(), next: None, version: slots.version + 1 },
            false => Slots::clone(slots),
        });
        let used = ours(&before);
        if used {
            self.builds.increment(1);
            self.ratio.set(bits.false_positives());
            self.version.send_replace(before.version + 1);
        }
        used
    }

    pub(crate) fn status(&self, now: Moment) -> FilterStatus {
        // A caller that asks wants an answer.
        self.attention.serves();
        let slots = self.slots.load();
        let bits = slots.current.as_ref();
        FilterStatus {
            certain: bits.is_some() && now.as_nanos() < self.trusted_until.load(Ordering::SeqCst),
            version: slots.version,
            keys: bits.map_or(0, |bits| bits.keys()),
            bytes: bits.map_or(0, |bits| bits.bytes()),
            false_positives: bits.map_or(1.0, |bits| bits.false_positives()),
        }
    }
}

/// Builds the filter when it is wanted, until the cache or the handle ends.
pub(crate) async fn keep<K: KeyPart + Send + Sync + 'static>(
    filter: Arc<Filter>,
    plan: KeyFilter<K>,
    names: Names,
    (clock, randomness): (Clock, Randomness),
    mut life: Life,
) {
    let names = Arc::new(names);
    let work = async {
        let mut expected = plan.expected;
        let mut pauses = PAUSES;
        loop {
            clock.timeout(plan.rebuild_every, filter.wanted.notified()).await;
            let seed = randomness.u64();
            let bits = Arc::new(Bits::new(expected, plan.false_positives, seed));
            let mut losses = filter.losses.subscribe();
            filter.begin(&bits);
            let sink = KeySink::new(&bits, &names);
            let stream = Arc::clone(&plan.stream);
            let streamed = tokio::select! {
                biased;
                streamed = contained(move || stream(sink)) => streamed,
                _ = losses.changed() => {
                    tracing::debug!(cache = names.name(), "a filter's build was interrupted");
                    continue;
                }
            };
            match streamed {
                Ok(()) => {
                    let found = bits.keys();
                    let roomy = usize::try_from(found / 4 * 5).unwrap_or(usize::MAX);
                    let most = plan.expected.saturating_mul(MAX_GROWTH).min(plan.most_keys());
                    expected = roomy.clamp(plan.expected, most);
                    let used = filter.finish(&bits);
                    tracing::debug!(cache = names.name(), found, used, "a filter was built");
                    pauses.reset();
                }
                Err(error) => {
                    tracing::warn!(cache = names.name(), %error, "a filter could not be built");
                    // What is there stays; what was begun takes no more inserts.
                    filter.slots.rcu(|slots| Slots { next: None, ..Slots::clone(slots) });
                    clock.sleep(pauses.pause()).await;
                    filter.wanted.notify_one();
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = life.over() => {}
        () = work => {}
    }
}

impl<K, V> Cache<K, V> {
    /// Waits until the filter was built for the first time. Returns at once if there is no filter.
    pub async fn filter_ready(&self) {
        if let Some(filter) = &self.inner.reader.filter {
            // The sender lives in `self`: waiting cannot fail.
            let _ = filter.version.subscribe().wait_for(|version| *version > 0).await;
        }
    }

    /// Rebuilds the filter in the background; the old one is in use meanwhile.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the cache has no filter.
    pub fn rebuild_filter(&self) -> Result<()> {
        let filter = self.inner.reader.filter.as_ref().ok_or_else(|| {
            Error::Invalid(format!("cache {:?} was built without `filter`", self.name()))
        })?;
        filter.wanted.notify_one();
        Ok(())
    }

    /// Returns the state of the filter; `None` if there is no filter.
    #[must_use]
    pub fn filter_status(&self) -> Option<FilterStatus> {
        let now = self.inner.reader.clock.now();
        self.inner.reader.filter.as_ref().map(|filter| filter.status(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(keys: std::ops::Range<u64>) -> Arc<Filter> {
        let filter = Filter::new("f", &Arc::new(Attention::new()));
        let bits = Arc::new(Bits::new(1000, 0.01, 7));
        filter.begin(&bits);
        keys.for_each(|key| bits.insert(&key.to_be_bytes()));
        assert!(filter.finish(&bits));
        filter
    }

    #[test]
    fn it_answers_only_while_it_is_certain() {
        let start = Moment::from_nanos(1);
        let filter = Filter::new("f", &Arc::new(Attention::new()));
        filter.complete_at(start);
        assert!(!filter.excludes(b"x", start), "not built");
        let filter = built(0..10);
        assert!(!filter.excludes(b"x", start), "messages were not looked at");
        filter.complete_at(start);
        assert!(filter.excludes(b"x", start));
        assert!(!filter.excludes(&3_u64.to_be_bytes(), start));
        assert!(!filter.excludes(b"x", start + TRUST), "the look is too long ago");
        filter.complete_at(start);
        filter.lost_track();
        filter.complete_at(start);
        assert!(!filter.excludes(b"x", start), "something was missed");
    }

    #[test]
    fn inserts_during_a_build_go_to_both_and_a_loss_ends_it() {
        let start = Moment::from_nanos(1);
        let filter = built(0..10);
        filter.complete_at(start);
        let next = Arc::new(Bits::new(1000, 0.01, 7));
        filter.begin(&next);
        filter.insert(b"new");
        assert!(!filter.excludes(b"new", start), "in the old one");
        assert!(filter.finish(&next));
        assert!(!filter.excludes(b"new", start), "in the new one");
        assert!(filter.excludes(&3_u64.to_be_bytes(), start), "the source no longer had it");
        assert_eq!(filter.status(start).version, 2);
        let late = Arc::new(Bits::new(1000, 0.01, 7));
        filter.begin(&late);
        filter.lost_track();
        assert!(!filter.finish(&late), "it may lack what was missed");
    }
}
