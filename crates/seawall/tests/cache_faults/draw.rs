//! Every option of a cache, drawn at random.
//!
//! Ranges reach from what makes sense to what is merely accepted: lifetimes of a millisecond, a first
//! level of a few entries, a repair queue of one. What `build` refuses is drawn again.

use std::{path::Path, sync::Arc, time::Duration};

use seawall::{
    Seawall,
    cache::{
        Cache, CacheBuilder, Codec, FileRecoveryLog, Json, KeyFilter, KeySink, LocalKeeps,
        MessagePack, Mode, OnInvalidate, WhenBusy,
    },
    guard::{Breaker, Bulkhead, Rate, ResiliencePipeline, TokenBucket},
    hotkey::{HotRule, HotRules},
};

use crate::{
    chance::Chance,
    ledger::{KEYS, Ledger, Row},
};

/// How loads are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guarded {
    Not,
    /// So wide that nothing is ever shed.
    Widely,
    Tightly,
}

/// One configuration.
#[derive(Debug, Clone)]
pub(crate) struct Draw {
    pub(crate) mode: Mode,
    pub(crate) ttl: Duration,
    pub(crate) max_stale: Duration,
    pub(crate) negative_ttl: Duration,
    pub(crate) jitter: f64,
    pub(crate) sliding: bool,
    pub(crate) early_refresh: Option<f64>,
    pub(crate) lease_ttl: Option<Duration>,
    pub(crate) loader_timeout: Option<Duration>,
    pub(crate) read_timeout: Duration,
    pub(crate) wait_budget: Duration,
    pub(crate) when_busy: WhenBusy,
    pub(crate) on_invalidate: OnInvalidate,
    pub(crate) second_after: Option<Duration>,
    pub(crate) local_max_bytes: u64,
    pub(crate) local_ttl: Duration,
    pub(crate) outage_ttl: Duration,
    pub(crate) tags: bool,
    pub(crate) value_tags: bool,
    pub(crate) clearable: bool,
    pub(crate) pipeline: Guarded,
    pub(crate) log: bool,
    pub(crate) recovery_limit: usize,
    pub(crate) filter: bool,
    /// Reads of all processes within a second that make a key hot; 0 for never.
    pub(crate) hot_at: u64,
    pub(crate) hot_only: bool,
    pub(crate) copies: usize,
    pub(crate) json: bool,
    pub(crate) compress_above: usize,
    pub(crate) split_above: usize,
    pub(crate) warn_above: usize,
    pub(crate) max_bytes: usize,
    pub(crate) schema: u32,
    /// How large values are beside their version.
    pub(crate) padding: usize,
    pub(crate) load_millis: u64,
    /// One of so many loads fails; 0 for none.
    pub(crate) fails_one_in: u64,
    /// One of so many loads panics; 0 for none.
    pub(crate) panics_one_in: u64,
    /// One of so many operations is given up in the middle.
    pub(crate) leaves_one_in: u64,
    /// The source's replica, which loaders read, is this far behind.
    pub(crate) lag: Duration,
    /// Nothing breaks: then nothing may fail either.
    pub(crate) calm: bool,
}

fn one<T: Copy>(chance: &mut Chance, of: &[T]) -> T {
    of[usize::try_from(chance.below(of.len() as u64)).expect("an index")]
}

fn some_millis(chance: &mut Chance, of: &[u64]) -> Duration {
    Duration::from_millis(one(chance, of))
}

fn rarely(chance: &mut Chance, one_in: u64) -> bool {
    chance.below(one_in) == 0
}

impl Draw {
    pub(crate) fn new(chance: &mut Chance) -> Self {
        let c = chance;
        let calm = rarely(c, 3);
        let second_after = rarely(c, 3).then(|| some_millis(c, &[100, 700]));
        Draw {
            mode: one(c, &[Mode::Lease, Mode::Lease, Mode::Mutex, Mode::LogicalExpiry]),
            ttl: some_millis(c, &[1, 50, 400, 2_000, 60_000, 60_000]),
            max_stale: some_millis(c, &[0, 200, 1_000, 60_000]),
            negative_ttl: some_millis(c, &[0, 5, 1_000, 10_000]),
            jitter: one(c, &[0.0, 0.1, 0.9]),
            sliding: rarely(c, 4),
            early_refresh: one(c, &[None, None, Some(1.0), Some(50.0)]),
            lease_ttl: one(c, &[None, Some(Duration::from_secs(4))]),
            loader_timeout: one(c, &[None, Some(Duration::from_secs(3))]),
            read_timeout: if calm {
                Duration::from_secs(10)
            } else {
                some_millis(c, &[3_000, 8_000])
            },
            wait_budget: some_millis(c, &[0, 5, 200, 3_000]),
            when_busy: one(c, &[WhenBusy::Wait, WhenBusy::Wait, WhenBusy::Refuse, WhenBusy::Load]),
            on_invalidate: one(c, &[OnInvalidate::Drop, OnInvalidate::KeepForStale]),
            second_after,
            local_max_bytes: one(c, &[0, 0, 4 << 10, 1 << 20]),
            local_ttl: some_millis(c, &[20, 1_000, 30_000]),
            outage_ttl: some_millis(c, &[0, 50, 1_000]),
            tags: rarely(c, 3),
            value_tags: rarely(c, 3),
            clearable: rarely(c, 3),
            pipeline: one(c, &[Guarded::Not, Guarded::Not, Guarded::Widely, Guarded::Tightly]),
            log: rarely(c, 3),
            recovery_limit: one(c, &[1, 5, 100_000, 100_000]),
            filter: rarely(c, 5),
            hot_at: one(c, &[0, 1_000, 20]),
            hot_only: rarely(c, 6),
            copies: one(c, &[0, 0, 2]),
            json: one(c, &[false, true]),
            compress_above: one(c, &[0, 100, 2_048]),
            split_above: one(c, &[1_024, 512 << 10]),
            warn_above: one(c, &[10, 64 << 10]),
            max_bytes: one(c, &[1, 32 << 20, 32 << 20, 32 << 20]),
            schema: one(c, &[0, 7]),
            padding: one(c, &[0, 0, 300, 3_000, 9_000]),
            load_millis: one(c, &[0, 3, 15]),
            fails_one_in: one(c, &[0, 0, 20]),
            panics_one_in: one(c, &[0, 0, 0, 60]),
            leaves_one_in: one(c, &[4, 10, 1_000_000]),
            lag: second_after.map_or(Duration::ZERO, |after| after * u32::from(rarely(c, 2)) / 2),
            calm,
        }
    }

    /// Whether a read may be shed, or refused a share of a hot key.
    pub(crate) fn sheds(&self) -> bool {
        self.pipeline == Guarded::Tightly
    }

    pub(crate) fn local(&self) -> bool {
        self.local_max_bytes > 0
    }

    /// Builds the cache of one process.
    pub(crate) fn build(
        &self,
        seawall: &Seawall,
        ledger: &Arc<Ledger>,
        log: &Path,
    ) -> seawall::Result<Cache<u64, Row>> {
        let codec: Box<dyn Codec<Row>> =
            if self.json { Box::new(Json) } else { Box::new(MessagePack) };
        let mut builder: CacheBuilder<u64, Row, _> = seawall
            .cache("random")
            .mode(self.mode)
            .ttl(self.ttl)
            .max_stale(self.max_stale)
            .negative_ttl(self.negative_ttl)
            .jitter(self.jitter)
            .read_timeout(self.read_timeout)
            .wait_budget(self.wait_budget)
            .when_busy(self.when_busy)
            .on_invalidate(self.on_invalidate)
            .local_max_bytes(self.local_max_bytes)
            .local_ttl(self.local_ttl)
            .outage_ttl(self.outage_ttl)
            .recovery_limit(self.recovery_limit)
            .copies(self.copies)
            .hot_keys(self.hot_rules())
            .codec(codec)
            .compress_above_bytes(self.compress_above)
            .split_above_bytes(self.split_above)
            .warn_above_bytes(self.warn_above)
            .max_value_bytes(self.max_bytes)
            .schema(self.schema);
        builder = if self.sliding { builder.sliding() } else { builder };
        builder = if self.clearable { builder.clearable() } else { builder };
        builder = if self.tags { builder.tags(|key| vec![tag_of(*key)]) } else { builder };
        if self.value_tags {
            builder = builder.value_tags(|row: &Row| vec![value_tag(row.tag())]);
        }
        if let Some(factor) = self.early_refresh {
            builder = builder.early_refresh(factor);
        }
        if let Some(time) = self.lease_ttl {
            builder = builder.lease_ttl(time);
        }
        if let Some(time) = self.loader_timeout {
            builder = builder.loader_timeout(time);
        }
        if let Some(time) = self.second_after {
            builder = builder.second_invalidation_after(time);
        }
        if let Some(pipeline) = self.pipeline() {
            builder = builder.pipeline(pipeline);
        }
        if self.hot_only {
            builder = builder.local_keeps(LocalKeeps::HotOnly);
        }
        if self.filter {
            builder = builder.filter(filter(Arc::clone(ledger)));
        }
        if self.log {
            let log =
                FileRecoveryLog::open(log).map_err(|e| seawall::Error::Invalid(e.to_string()))?;
            builder = builder.recovery_log(Arc::new(log));
        }
        builder.build()
    }

    fn hot_rules(&self) -> HotRules {
        if self.hot_at == 0 {
            return HotRules::off();
        }
        let rule = HotRule::new(self.hot_at, Duration::from_secs(1));
        HotRules::all(if self.copies > 0 { rule.copies_at(self.hot_at * 2) } else { rule })
    }

    fn pipeline(&self) -> Option<ResiliencePipeline> {
        let (limit, rate) = match self.pipeline {
            Guarded::Not => return None,
            Guarded::Widely => (10_000, 1_000_000),
            Guarded::Tightly => (2, 200),
        };
        let bulkhead = Bulkhead::builder("loads", limit).max_queue(limit).build().expect("agree");
        let bucket = TokenBucket::builder("loads", Rate::per_second(rate)).burst(rate);
        let mut pipeline = ResiliencePipeline::builder("loads").bulkhead(bulkhead);
        pipeline = pipeline.bucket(bucket.build().expect("agree"));
        if self.pipeline == Guarded::Tightly {
            pipeline = pipeline.breaker(Breaker::new("loads"));
        }
        Some(pipeline.build().expect("agree"))
    }
}

/// The tag of a key, where there are tags.
pub(crate) fn tag_of(key: u64) -> String {
    format!("t{}", key % 3)
}

/// A tag that rows carry, where values have tags.
pub(crate) fn value_tag(tag: usize) -> String {
    format!("v{tag}")
}

fn filter(ledger: Arc<Ledger>) -> KeyFilter<u64> {
    let stream = move |sink: KeySink<u64>| {
        let ledger = Arc::clone(&ledger);
        async move {
            for key in 0..KEYS {
                if ledger.exists(key) {
                    sink.add(&key);
                }
            }
            Ok::<_, std::io::Error>(())
        }
    };
    KeyFilter::new(1_000, stream).rebuild_every(Duration::from_secs(1))
}
