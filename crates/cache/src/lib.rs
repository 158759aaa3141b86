//! A cache in two levels whose strong reads never return what was invalidated.
//!
//! Every answer to penetration, breakdown, avalanche and inconsistency meets in one read path
//! ([`Cache::get_or_load`]) and one write path ([`Cache::write`], [`Cache::invalidate`]).
//!
//! The hole that caches leave is an invalidation racing a load: the loader read the row before the
//! write, the write invalidated, then the loader stored the old row. Here a miss hands out a *lease*,
//! an invalidation kills it, and a fill needs a live one; the same check, by tickets, guards the
//! first level. docs/cache.md tells what is promised and what is not.

mod attention;
mod audit;
mod audit_work;
mod below;
mod big_values;
mod bounds;
mod breakers;
mod codec;
mod counters;
mod envelope;
mod explain;
mod filter;
mod filter_keys;
mod flight;
mod heat;
pub mod hotkey;
mod leases;
mod level1;
mod level1_budget;
mod level2;
mod level2_invalidate;
mod level2_replies;
mod life;
mod listener;
mod load;
mod loader;
mod many;
mod messages;
mod metrics;
mod names;
mod options;
mod parted;
mod parts;
mod past;
mod pending;
mod product;
mod put;
mod read;
mod read_types;
mod recent;
mod repair;
mod repair_file;
mod repair_log;
mod repair_queue;
mod repair_task;
mod settings;
mod shape;
mod sweep;
mod tend;
mod write;

use std::{
    fmt,
    sync::{Arc, Weak, atomic::AtomicBool},
    time::Duration,
};

pub use audit::{AuditReport, Auditor, AuditorBuilder};
pub use big_values::BigValue;
pub use bounds::{CacheKey, CacheValue, KeyRef};
pub use codec::Codec;
pub use explain::{Explanation, FilterOpinion, Level1Copy, Level2Entry, Level2State};
pub use filter::FilterStatus;
pub use filter_keys::{KeyFilter, KeySink};
pub use options::{CacheBuilder, LocalKeeps, Mode, OnInvalidate, WhenBusy};
pub use put::PutOutcome;
pub use read_types::{CacheError, Freshness, LoadError, Loaded, Read, Source, Version};
pub use repair_file::FileRepairLog;
pub use repair_log::{LogFuture, RepairLog, RepairRow};
pub use write::{Invalidation, WriteError};

use seawall_client::{
    Handle,
    error::Result,
    key::{KeyBuffer, KeyPart},
    link::Topology,
};
use seawall_resilience::clock::Clock;

use self::{
    attention::Attention,
    codec::Format,
    counters::Counters,
    filter::Filter,
    flight::Flights,
    heat::Heat,
    leases::Leases,
    level1::{Level1, Memory},
    level1_budget::Budget,
    level2::Level2,
    life::Alive,
    listener::Holds,
    metrics::Metrics,
    names::Names,
    read_types::Tags,
    recent::Recent,
    repair::Repairs,
    repair_task::Carer,
    settings::Settings,
    sweep::Sweep,
};
use crate::{
    big_values::Report,
    hotkey::{HotKeys, Member, Shelf, copies::Copies},
    parts::Parts,
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
    level1: Option<Arc<Level1<V>>>,
    level2: Arc<Level2>,
    filter: Option<Arc<Filter>>,
    flights: Arc<Flights<V>>,
    refreshes: Arc<Flights<V>>,
    /// Loads that answer without Redis, and those through it that may do so too.
    past: Arc<Flights<V>>,
    leases: Arc<Leases>,
    repairs: Arc<Repairs>,
    recent: Arc<Recent>,
    metrics: Arc<Metrics>,
    big: Report,
    tap: audit::Tap<K, V>,
    heat: Heat,
    /// Ends the tasks of the cache with its last handle.
    _alive: Alive,
}

/// One key, as the levels know it.
#[derive(Clone)]
struct Subject {
    entry: KeyBuffer,
    generations: Vec<Vec<u8>>,
    tags: Tags,
}

impl Subject {
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
        let link = handle.link().clone();
        let plan = settings.big;
        let part_prefix = Names::part_prefix(handle.prefix(), name);
        let parts = Parts::new(link.clone(), part_prefix, plan.split_above_bytes);
        let mut level2 = Level2::new(link, names, parts, format.shape, settings.lease_ttl);
        // One server has nothing to spread over.
        if settings.copies > 0 && handle.link().topology() == Topology::Cluster {
            level2.copies = Some(Copies::new(handle.prefix(), settings.copies));
        }
        let level2 = Arc::new(level2);
        let attention = Arc::new(Attention::new());
        let budget = Budget::of(&handle);
        let level1 = (settings.local_max_bytes.min(budget.total()) > 0).then(|| {
            let most = settings.local_max_bytes;
            let memory = Memory { budget, weight: settings.local_weight, most };
            let prefix_bytes = level2.names.entry_prefix().len();
            Level1::open(prefix_bytes, &memory, Arc::clone(&attention))
        });
        let metrics = Arc::new(Metrics::new(name));
        let alive = Alive::new();
        let filter = settings.filter.take().map(|plan| {
            let filter = Filter::new(name, &attention);
            handle.spawn_at_home(filter::keep(
                Arc::clone(&filter),
                plan,
                level2.names.clone(),
                handle.clock().clone(),
                alive.life(&handle),
            ));
            filter
        });
        if level1.is_some() || filter.is_some() {
            let (level1, filter) = (level1.clone(), filter.clone());
            let listener = listener::listen(
                Arc::clone(&level2),
                Holds { level1, filter, attention },
                Counters::of(&handle),
                Arc::clone(&metrics),
                handle.clock().clone(),
                alive.life(&handle),
            );
            handle.spawn_at_home(listener);
        }
        let repairs = Repairs::open(
            &level2.names,
            settings.repair_limit,
            settings.repair_log.clone(),
            handle.clock(),
        );
        if repairs.log.is_some() {
            let clock = handle.clock().clone();
            handle.spawn_at_home(repair_task::write_log(Arc::clone(&repairs), clock));
        }
        let carer = Carer {
            repairs: Arc::clone(&repairs),
            recent: Arc::default(),
            level2: Arc::clone(&level2),
            way: if settings.clearable { Sweep::Generation } else { Sweep::Search },
            clock: handle.clock().clone(),
            opened: handle.link().connections(),
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
        let flights: Arc<Flights<V>> = Arc::default();
        let inner = Inner {
            clock: handle.clock().clone(),
            handle,
            settings,
            format,
            level1,
            level2,
            filter,
            past: Arc::new(flights.beside()),
            flights,
            refreshes: Arc::default(),
            leases: Arc::default(),
            repairs,
            recent,
            metrics,
            big: Report::new(name, plan.warn_above_bytes),
            tap: audit::Tap::default(),
            heat,
            _alive: alive,
        };
        let inner = Arc::new(inner);
        let shelf: Weak<dyn Shelf> = Arc::<Inner<K, V>>::downgrade(&inner);
        let member = Member {
            entry_prefix: inner.level2.names.entry_prefix().to_vec(),
            rules: inner.settings.hot_rules.clone(),
            shelf,
        };
        inner.heat.keys.join(&inner.handle, member);
        Ok(Cache { inner })
    }

    /// The cache's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.inner.level2.names.name()
    }
}

impl<K: KeyPart, V> Inner<K, V> {
    fn subject(&self, key: &(impl KeyRef<K> + ?Sized)) -> Result<Subject> {
        Ok(self.subject_of(self.level2.names.entry(key)?, key))
    }

    fn subject_of(&self, entry: KeyBuffer, key: &(impl KeyRef<K> + ?Sized)) -> Subject {
        if self.settings.tags.is_none() && !self.settings.clearable {
            return Subject { entry, generations: Vec::new(), tags: None };
        }
        let names = &self.level2.names;
        let tags =
            self.settings.tags.as_ref().map(|tags| tags(&key.to_owned())).unwrap_or_default();
        let mut generations: Vec<Vec<u8>> = tags.iter().map(|tag| names.tag(tag)).collect();
        if self.settings.clearable {
            generations.push(names.generation().to_vec());
        }
        let tags = tags.iter().map(|tag| messages::tag_hash(tag)).collect();
        Subject { entry, generations, tags: Some(tags) }
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
            .field("name", &self.inner.level2.names.name())
            .finish_non_exhaustive()
    }
}
