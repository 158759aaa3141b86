//! A cache in two levels whose strong reads never return what was invalidated.
//!
//! Every answer to penetration, breakdown, avalanche and inconsistency meets in one read path
//! ([`Cache::get_or_load`]) and one write path ([`Cache::write`], [`Cache::invalidate`]).
//!
//! The hole that caches leave is an invalidation racing a load: the loader read the row before the
//! write, the write invalidated, then the loader stored the old row. Here a miss hands out a *lease*,
//! an invalidation kills it, and a fill needs a live one; the same check, by tickets, guards the
//! first level. docs/cache.md tells what is promised and what is not.

mod audit;
mod backplane;
mod bounds;
mod builder;
mod explain;
mod filter;
mod hot;
pub mod hotkey;
mod life;
mod load;
mod metrics;
mod read;
mod recovery;
mod settings;
mod store;
mod tier;
mod types;

use std::{
    fmt,
    sync::{Arc, Weak, atomic::AtomicBool},
    time::Duration,
};

pub use audit::{AuditReport, Auditor, AuditorBuilder};
pub use bounds::{CacheKey, CacheValue, KeyRef};
pub use builder::{CacheBuilder, LocalKeeps, Mode, OnInvalidate, WhenBusy};
pub use explain::{Explanation, FilterOpinion, LocalCopy, RemoteEntry, RemoteState};
pub use filter::FilterStatus;
pub use filter::keys::{KeyFilter, KeySink};
pub use recovery::file::FileRecoveryLog;
pub use recovery::log::{LogFuture, RecoveryLog, RecoveryRow};
pub use store::big_values::BigValue;
pub use store::codec::Codec;
pub use store::put::PutOutcome;
pub use store::write::{Invalidation, WriteError};
pub use types::{CacheError, Freshness, LoadError, Loaded, Read, Source, Version};

use seawall_client::{
    Handle,
    client::Topology,
    error::Result,
    key::{KeyBuffer, KeyPart},
};
use seawall_resilience::clock::Clock;

use crate::{
    backplane::attention::Attention,
    backplane::counters::Counters,
    backplane::subscriber::Holds,
    filter::Filter,
    hot::heat::Heat,
    life::Alive,
    load::lease::Leases,
    load::single_flight::SingleFlight,
    metrics::Metrics,
    recovery::queue::RecoveryQueue,
    recovery::recent::Recent,
    recovery::sweep::Sweep,
    recovery::task::Carer,
    settings::Settings,
    store::codec::Format,
    store::keys::Names,
    tier::local::{LocalTier, Memory},
    tier::local_budget::Budget,
    tier::remote::RemoteTier,
    types::Tags,
};
use crate::{
    hotkey::{HotKeySink, HotKeys, Member, copies::Copies},
    store::big_values::Report,
    store::chunks::Parts,
};

/// How often counts of hot paths are handed to the metrics recorder.
const FLUSH: Duration = Duration::from_secs(1);

/// A cache of `V` by `K`; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use seawall::{Seawall, cache::{Cache, Loaded}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").ttl(Duration::from_secs(60)).build()?;
///
/// let load = || async { Ok::<_, std::io::Error>(Loaded::Found("tea house".to_owned())) };
/// let shop = shops.get_or_load(&42, load).await?;
/// assert_eq!(shop.value.as_deref().map(String::as_str), Some("tea house"));
///
/// // After the database was changed:
/// let _ = shops.invalidate(&42).await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct Cache<K, V> {
    inner: Arc<Inner<K, V>>,
}

struct Inner<K, V> {
    handle: Handle,
    clock: Clock,
    settings: Settings<K>,
    format: Format,
    local: Option<Arc<LocalTier<V>>>,
    remote: Arc<RemoteTier>,
    filter: Option<Arc<Filter>>,
    flights: Arc<SingleFlight<V>>,
    refreshes: Arc<SingleFlight<V>>,
    /// Loads that answer without Redis, and those through it that may do so too.
    past: Arc<SingleFlight<V>>,
    leases: Arc<Leases>,
    recovery: Arc<RecoveryQueue>,
    recent: Arc<Recent>,
    metrics: Arc<Metrics>,
    big: Report,
    sampler: audit::AuditSampler<K, V>,
    heat: Heat,
    /// Ends the tasks of the cache with its last handle.
    _alive: Alive,
}

/// One key, as the levels know it.
#[derive(Clone)]
struct EntryKey {
    entry: KeyBuffer,
    generations: Vec<Vec<u8>>,
    tags: Tags,
}

impl EntryKey {
    fn entry(&self) -> &[u8] {
        self.entry.as_bytes()
    }
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Begins a cache. Caches of one name share their entries, in all processes; give all of them
    /// the same settings.
    pub fn builder(handle: &Handle, name: &str) -> CacheBuilder<K, V> {
        CacheBuilder::new(handle.clone(), name)
    }
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    fn open(handle: Handle, name: &str, mut settings: Settings<K>, format: Format) -> Result<Self> {
        let names = Names::new(handle.prefix(), name);
        let client = handle.client().clone();
        let plan = settings.big;
        let part_prefix = Names::part_prefix(handle.prefix(), name);
        let parts = Parts::new(client.clone(), part_prefix, plan.split_above_bytes);
        let mut remote = RemoteTier::new(client, names, parts, format.shape, settings.lease_ttl);
        // One server has nothing to spread over.
        if settings.copies > 0 && handle.client().topology() == Topology::Cluster {
            remote.copies = Some(Copies::new(handle.prefix(), settings.copies));
        }
        let remote = Arc::new(remote);
        let attention = Arc::new(Attention::new());
        let budget = Budget::of(&handle);
        let local = (settings.local_max_bytes.min(budget.total()) > 0).then(|| {
            let most = settings.local_max_bytes;
            let memory = Memory { budget, weight: settings.local_weight, most };
            let prefix_bytes = remote.names.entry_prefix().len();
            LocalTier::open(prefix_bytes, &memory, Arc::clone(&attention))
        });
        let metrics = Arc::new(Metrics::new(name));
        let alive = Alive::new();
        let filter = settings.filter.take().map(|plan| {
            let filter = Filter::new(name, &attention);
            handle.spawn_at_home(filter::keep(
                Arc::clone(&filter),
                plan,
                remote.names.clone(),
                handle.clock().clone(),
                alive.life(&handle),
            ));
            filter
        });
        if local.is_some() || filter.is_some() {
            let (local, filter) = (local.clone(), filter.clone());
            let listener = backplane::subscriber::listen(
                Arc::clone(&remote),
                Holds { local, filter, attention },
                Counters::of(&handle),
                Arc::clone(&metrics),
                handle.clock().clone(),
                alive.life(&handle),
            );
            handle.spawn_at_home(listener);
        }
        let recovery = RecoveryQueue::open(
            &remote.names,
            settings.recovery_limit,
            settings.recovery_log.clone(),
            handle.clock(),
        );
        if recovery.log.is_some() {
            let clock = handle.clock().clone();
            handle.spawn_at_home(recovery::task::write_log(Arc::clone(&recovery), clock));
        }
        let carer = Carer {
            recovery: Arc::clone(&recovery),
            recent: Arc::default(),
            remote: Arc::clone(&remote),
            way: if settings.clearable { Sweep::Generation } else { Sweep::Search },
            clock: handle.clock().clone(),
            opened: handle.client().connections(),
            life: alive.life(&handle),
        };
        let recent = Arc::clone(&carer.recent);
        handle.spawn_at_home(carer.work());
        let (counted, mut life) = (Arc::clone(&metrics), alive.life(&handle));
        handle.spawn_at_home(async move {
            let mut over = false;
            while !over {
                over = tokio::time::timeout(FLUSH, life.over()).await.is_ok();
                counted.flush();
            }
        });
        let heat = Heat {
            keys: HotKeys::of(&handle),
            counts: settings.hot_rules.count_reads(),
            hot_only: settings.local_keeps == LocalKeeps::HotOnly,
            asked: AtomicBool::new(false),
        };
        let flights: Arc<SingleFlight<V>> = Arc::default();
        let inner = Inner {
            clock: handle.clock().clone(),
            handle,
            settings,
            format,
            local,
            remote,
            filter,
            past: Arc::new(flights.beside()),
            flights,
            refreshes: Arc::default(),
            leases: Arc::default(),
            recovery,
            recent,
            metrics,
            big: Report::new(name, plan.warn_above_bytes),
            sampler: audit::AuditSampler::default(),
            heat,
            _alive: alive,
        };
        let inner = Arc::new(inner);
        let sink: Weak<dyn HotKeySink> = Arc::<Inner<K, V>>::downgrade(&inner);
        let member = Member {
            entry_prefix: inner.remote.names.entry_prefix().to_vec(),
            rules: inner.settings.hot_rules.clone(),
            sink,
        };
        inner.heat.keys.join(&inner.handle, member);
        Ok(Cache { inner })
    }

    /// The cache's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.remote.names.name()
    }
}

impl<K: KeyPart, V> Inner<K, V> {
    fn entry_key(&self, key: &(impl KeyRef<K> + ?Sized)) -> Result<EntryKey> {
        Ok(self.entry_key_of(self.remote.names.entry(key)?, key))
    }

    fn entry_key_of(&self, entry: KeyBuffer, key: &(impl KeyRef<K> + ?Sized)) -> EntryKey {
        if self.settings.tags.is_none() && !self.settings.clearable {
            return EntryKey { entry, generations: Vec::new(), tags: None };
        }
        let names = &self.remote.names;
        let tags =
            self.settings.tags.as_ref().map(|tags| tags(&key.to_owned())).unwrap_or_default();
        let mut generations: Vec<Vec<u8>> = tags.iter().map(|tag| names.tag(tag)).collect();
        if self.settings.clearable {
            generations.push(names.generation().to_vec());
        }
        let tags = tags.iter().map(|tag| backplane::message::tag_hash(tag)).collect();
        EntryKey { entry, generations, tags: Some(tags) }
    }
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache { inner: Arc::clone(&self.inner) }
    }
}

impl<K, V> fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("name", &self.inner.remote.names.name())
            .finish_non_exhaustive()
    }
}
