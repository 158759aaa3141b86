//! The handle: who counts, who is told, who fetches.
//!
//! There is one for each `Seawall`, made when it is first asked for. Its tasks start with the first
//! cache. It knows caches as weak shelves: a cache that is dropped is forgotten.

use std::{
    fmt,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use seawall_client::{
    Handle,
    error::{Error, Result},
};
use serde::Serialize;

use super::{
    board::Hot,
    fleet,
    shared::{MAX_HOT_IN_SHARD, Member, Shared},
    wire::{HotKey, SHARDS},
};

/// The longest time that a key can be declared hot for.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// What happened to a key, for [`HotKeys::on_hot`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HotEvent {
    /// It is hot from now on.
    Hot(HotKey),
    /// It is not any more: the entry's key.
    Cool(Vec<u8>),
}

/// How hot keys stand in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HotStatus {
    /// Keys that are hot now.
    pub hot: usize,
    /// What the sketch holds.
    pub sketch_bytes: usize,
    /// Whether the last report reached Redis; without that only what is read here counts.
    pub fleet: bool,
}

/// The hot keys of a handle; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::Cache};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let goods: Cache<u64, String> = seawall.cache("goods").build()?;
///
/// // It will be hot at noon: every process holds it before.
/// goods.declare_hot(&42, Duration::from_secs(3600)).await?;
/// let hot = seawall.hot_keys().fleet().await?;
/// assert_eq!(hot[0].key, "goods:42");
///
/// goods.undeclare_hot(&42).await?;
/// assert!(seawall.hot_keys().fleet().await?.is_empty());
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct HotKeys {
    pub(super) shared: Arc<Shared>,
}

impl HotKeys {
    /// Takes a cache in; the first one starts the tasks.
    pub(crate) fn join(&self, handle: &Handle, member: Member) {
        let shared = &self.shared;
        let mut members = shared.members.write().unwrap_or_else(PoisonError::into_inner);
        members.retain(|member| member.sink.strong_count() > 0);
        members.push(member);
        let rules = members.iter().flat_map(|member| member.rules.each());
        shared.sketch.want(rules.map(fleet::floor).min().unwrap_or(u64::MAX));
        drop(members);
        shared.started.get_or_init(|| {
            handle.spawn_at_home(fleet::listen(Arc::clone(shared), handle.stopping()));
            handle.spawn_at_home(fleet::report(Arc::clone(shared), handle.stopping()));
        });
    }

    /// Counts a read of an entry, given by its whole key in Redis. Caches do this by themselves; it is
    /// for reads of a cache's entries that go past it.
    #[inline]
    pub fn count(&self, entry: &[u8]) {
        if self.wants_sample() {
            self.sample(entry);
        }
    }

    /// Returns whether the read that is going on is to be counted.
    #[inline]
    pub(crate) fn wants_sample(&self) -> bool {
        self.shared.sketch.wants_sample()
    }

    /// Counts a read that was wanted.
    pub(crate) fn sample(&self, entry: &[u8]) {
        self.shared.sketch.sample(entry);
    }

    pub(crate) fn wrote(&self, entry: &[u8]) {
        self.shared.board.wrote(entry);
    }

    pub(crate) fn get(&self, entry: &[u8]) -> Option<Arc<Hot>> {
        self.shared.board.get(entry)
    }

    pub(crate) fn is_hot(&self, entry: &[u8]) -> bool {
        self.shared.board.has(entry)
    }

    /// Returns the keys that this process knows to be hot now, the most read first.
    #[must_use]
    pub fn here(&self) -> Vec<HotKey> {
        sorted(self.shared.board.all().iter().map(|hot| hot.known.clone()).collect())
    }

    /// Returns what this process knows about an entry, if it is hot.
    #[must_use]
    pub fn find(&self, entry: &[u8]) -> Option<HotKey> {
        self.shared.board.get(entry).map(|hot| hot.known.clone())
    }

    /// Returns the keys that are hot in the whole fleet now, the most read first; asks Redis.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn fleet(&self) -> Result<Vec<HotKey>> {
        let shards: Vec<u64> = (0..SHARDS).collect();
        let lists: Result<Vec<Vec<HotKey>>> = self.shared.list(&shards).await.into_iter().collect();
        Ok(sorted(lists?.into_iter().flatten().collect()))
    }

    /// Declares an entry hot for this long from now, in every process:
    /// [`Cache::declare_hot`](crate::Cache::declare_hot) for its whole key in Redis.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a time of zero or more than a year, or when too many keys are hot; else
    /// as [`Client::send`](seawall_client::Client::send). Declaring twice is the same as once.
    pub async fn declare(&self, entry: &[u8], lasting: Duration) -> Result<()> {
        if lasting < Duration::from_millis(1) || lasting > LONGEST {
            return Err(Error::Invalid(format!(
                "a key cannot be declared hot for {lasting:?}: between 1 ms and a year"
            )));
        }
        if !self.shared.declare(entry, lasting).await? {
            return Err(Error::Invalid(format!(
                "more than {MAX_HOT_IN_SHARD} keys of one shard are hot already"
            )));
        }
        Ok(())
    }

    /// Takes a declaration back; whether there was one. A key that is read often enough becomes hot
    /// again by itself.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn undeclare(&self, entry: &[u8]) -> Result<bool> {
        self.shared.declare(entry, Duration::ZERO).await
    }

    /// Calls `listener` whenever a key becomes hot or cool in this process. It must not block. If it
    /// panics, that is logged, and it is called again for the next event.
    pub fn on_hot(&self, listener: impl Fn(&HotEvent) + Send + Sync + 'static) {
        let mut listeners = self.shared.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push(Arc::new(listener));
    }

    /// How hot keys stand in this process.
    #[must_use]
    pub fn status(&self) -> HotStatus {
        HotStatus {
            hot: self.shared.board.len(),
            sketch_bytes: self.shared.sketch.size_bytes(),
            fleet: self.shared.reachable.load(Ordering::Relaxed),
        }
    }
}

fn sorted(mut keys: Vec<HotKey>) -> Vec<HotKey> {
    keys.sort_by(|a, b| b.reads.cmp(&a.reads).then_with(|| a.bytes.cmp(&b.bytes)));
    keys
}

impl HotKeys {
    /// Returns the hot keys of this handle's caches.
    #[must_use]
    pub fn of(handle: &Handle) -> HotKeys {
        let shared = handle.slot(|| Arc::new(Shared::new(handle)));
        HotKeys { shared }
    }
}

impl fmt::Debug for HotKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HotKeys").field("status", &self.status()).finish_non_exhaustive()
    }
}
