//! Checks the settings of a cache, puts it together from the bottom up, and starts its tasks.

use std::{
    sync::{Arc, Weak, atomic::AtomicBool},
    time::Duration,
};

use seawall_client::{
    Handle,
    client::Topology,
    error::{Error, Result},
};
use seawall_resilience::clock::Clock;

use crate::{
    Cache, CacheBuilder, CacheKey, CacheValue, Codec, LocalKeeps, Mode,
    audit::AuditSampler,
    backplane::{
        attention::Attention,
        counters::Counters,
        subscriber::{Holds, listen},
    },
    cache::Inner,
    filter::{self, Filter, keys::KeyFilter},
    hot::{heat::Heat, warmer::Warmer},
    hotkey::{HotKeySink, HotKeys, Member, copies::Copies},
    life::{Alive, Life},
    load::coordinator::LoadCoordinator,
    metrics::Metrics,
    read::reader::Reader,
    recovery::{
        queue::RecoveryQueue,
        recent::Recent,
        sweep::Sweep,
        task::{Carer, write_log},
    },
    settings::{LONGEST, Settings},
    store::{
        big_values::Report,
        chunks::Parts,
        codec::{Format, check_id},
        decoder::Decoder,
        encoder::Encoder,
        keys::{KeySpace, Names, TagsOf},
        publisher::Publisher,
        shape::{MAX_SCHEMA, shape},
        value_tags::sealed,
    },
    tier::{
        local::{LocalTier, Memory},
        local_budget::Budget,
        remote::RemoteTier,
        remote_tags::TagClears,
    },
};

/// How often counts of hot paths are handed to the metrics recorder.
const FLUSH: Duration = Duration::from_secs(1);

/// The settings of a cache, checked.
struct Plan<K, V> {
    name: String,
    settings: Settings,
    format: Format<V>,
    tags: Option<TagsOf<K>>,
    filter: Option<KeyFilter<K>>,
}

impl<K: CacheKey, V: CacheValue, C: Codec<V>> CacheBuilder<K, V, C> {
    /// Builds the cache.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the settings that contradict each other, or says that there is no Tokio
    /// runtime here; [`Error::Closed`] after the handle was shut down.
    pub fn build(mut self) -> Result<Cache<K, V>> {
        let refuse =
            |sentence: String| Error::Invalid(format!("cache {:?}: {sentence}", self.name));
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(refuse("build() must be called within a Tokio runtime".into()));
        }
        if self.name.is_empty() || self.name.contains(['{', '}', ':', '%']) {
            return Err(refuse("its name must not be empty nor have any of { } : %".into()));
        }
        if self.max_value_bytes == 0 {
            return Err(refuse("max_value_bytes is 0: nothing could be cached".into()));
        }
        if self.schema > MAX_SCHEMA {
            return Err(refuse(format!("schema is {}, the most is {MAX_SCHEMA}", self.schema)));
        }
        check_id(self.codec.id()).map_err(refuse)?;
        self.settings.check().map_err(refuse)?;
        self.filter.as_ref().map_or(Ok(()), KeyFilter::check).map_err(refuse)?;
        if self.settings.mode == Mode::LogicalExpiry {
            self.settings.max_stale = LONGEST;
        }
        let fingerprint = match self.value_tags {
            Some(_) => sealed(self.codec.fingerprint()),
            None => self.codec.fingerprint(),
        };
        let format = Format {
            shape: shape(self.schema, fingerprint),
            codec: Arc::new(self.codec),
            compress_above_bytes: self.compress_above_bytes,
            max_value_bytes: self.max_value_bytes,
            value_tags: self.value_tags,
        };
        let Self { handle, name, settings, tags, filter, .. } = self;
        Ok(open(handle, Plan { name, settings, format, tags, filter }))
    }
}

/// Puts the cache together.
fn open<K: CacheKey, V: CacheValue>(handle: Handle, plan: Plan<K, V>) -> Cache<K, V> {
    let Plan { name, settings, format, tags, filter } = plan;
    let settings = Arc::new(settings);
    let (clock, alive) = (handle.clock().clone(), Alive::new());
    let metrics = Arc::new(Metrics::new(&name));
    let attention = Arc::new(Attention::new());
    let remote = open_remote(&handle, &name, &settings, &format);
    let local = open_local(&handle, &settings, &remote, &attention);
    let filter = filter.map(|plan| {
        let filter = Filter::new(&name, &attention);
        let (names, life) = (remote.names.clone(), alive.life(&handle));
        handle.spawn_at_home(filter::keep(
            Arc::clone(&filter),
            plan,
            names,
            (clock.clone(), handle.randomness().clone()),
            life,
        ));
        filter
    });
    if local.is_some() || filter.is_some() {
        let (local, filter) = (local.clone(), filter.clone());
        handle.spawn_at_home(listen(
            Arc::clone(&remote),
            Holds { local, filter, attention },
            Counters::of(&handle),
            Arc::clone(&metrics),
            clock.clone(),
            alive.life(&handle),
        ));
    }
    let (recovery, recent) = open_recovery(&handle, &settings, &remote, alive.life(&handle));
    let network_clock = handle.client().network_clock().clone();
    handle.spawn_at_home(flush(Arc::clone(&metrics), network_clock, alive.life(&handle)));
    let heat = Heat {
        keys: HotKeys::of(&handle),
        counts: settings.hot_rules.count_reads(),
        hot_only: settings.local_keeps == LocalKeeps::HotOnly,
        asked: Arc::new(AtomicBool::new(false)),
    };
    let decoder = Decoder {
        format: format.clone(),
        remote: Arc::clone(&remote),
        metrics: Arc::clone(&metrics),
    };
    let encoder = Arc::new(Encoder {
        cache: name.clone(),
        format,
        settings: Arc::clone(&settings),
        metrics: Arc::clone(&metrics),
        randomness: handle.randomness().clone(),
    });
    let keys = KeySpace { names: remote.names.clone(), tags, clearable: settings.clearable };
    let publisher = Arc::new(Publisher {
        clock,
        encoder,
        local,
        remote,
        filter,
        recovery,
        recent,
        metrics,
        heat,
        big: Report::new(&name, settings.big.warn_above_bytes),
        settings,
    });
    let coordinator =
        LoadCoordinator::new(handle.clone(), Arc::clone(&publisher), decoder.clone(), alive);
    let reader = || Reader::new(Arc::clone(&coordinator), Arc::clone(&publisher), decoder.clone());
    let is_tagged = keys.tags.is_some();
    let warmer = Arc::new(Warmer { handle: handle.clone(), reader: reader(), is_tagged });
    let sink: Weak<dyn HotKeySink> = Arc::<Warmer<V>>::downgrade(&warmer);
    let member = Member {
        entry_prefix: keys.names.entry_prefix().to_vec(),
        rules: publisher.settings.hot_rules.clone(),
        sink,
    };
    publisher.heat.keys.join(&handle, member);
    let (reader, sampler) = (reader(), AuditSampler::new(handle.randomness().clone()));
    Cache { inner: Arc::new(Inner { reader, keys, sampler, handle, _warmer: warmer }) }
}

fn open_remote<V>(
    handle: &Handle,
    name: &str,
    settings: &Settings,
    format: &Format<V>,
) -> Arc<RemoteTier> {
    let names = Names::new(handle.prefix(), name);
    let client = handle.client().clone();
    let part_prefix = Names::part_prefix(handle.prefix(), name);
    let parts = Parts::new(client.clone(), part_prefix, settings.big.split_above_bytes);
    let mut remote = RemoteTier::new(client, names, parts, format.shape, settings.lease_ttl);
    remote.tag_clears = format.value_tags.is_some().then(TagClears::default);
    // One server has nothing to spread over.
    if settings.copies > 0 && handle.client().topology() == Topology::Cluster {
        remote.copies = Some(Copies::new(handle.prefix(), settings.copies));
    }
    Arc::new(remote)
}

fn open_local<V: CacheValue>(
    handle: &Handle,
    settings: &Settings,
    remote: &RemoteTier,
    attention: &Arc<Attention>,
) -> Option<Arc<LocalTier<V>>> {
    let budget = Budget::of(handle);
    (settings.local_max_bytes.min(budget.total()) > 0).then(|| {
        let most = settings.local_max_bytes;
        let memory = Memory { budget, weight: settings.local_weight, most };
        let prefix_bytes = remote.names.entry_prefix().len();
        LocalTier::open(prefix_bytes, &memory, Arc::clone(attention), handle.randomness())
    })
}

fn open_recovery(
    handle: &Handle,
    settings: &Settings,
    remote: &Arc<RemoteTier>,
    life: Life,
) -> (Arc<RecoveryQueue>, Arc<Recent>) {
    let clock = handle.clock();
    let log = settings.recovery_log.clone();
    let clocks = (clock, handle.client().network_clock());
    let recovery = RecoveryQueue::open(&remote.names, settings.recovery_limit, log, clocks);
    if recovery.log.is_some() {
        handle.spawn_at_home(write_log(Arc::clone(&recovery), clock.clone()));
    }
    let recent: Arc<Recent> = Arc::default();
    let carer = Carer {
        recovery: Arc::clone(&recovery),
        recent: Arc::clone(&recent),
        remote: Arc::clone(remote),
        way: if settings.clearable { Sweep::Generation } else { Sweep::Search },
        clock: clock.clone(),
        opened: handle.client().connections(),
        life,
    };
    handle.spawn_at_home(carer.work());
    (recovery, recent)
}

/// Hands over what was counted on hot paths, until the cache ends.
async fn flush(metrics: Arc<Metrics>, clock: Clock, mut life: Life) {
    let mut over = false;
    while !over {
        over = clock.timeout(FLUSH, life.over()).await.is_some();
        metrics.flush();
    }
}
