//! Measures whether the cache is right: compares a small part of the hits with the source.
//!
//! A cache is wrong when a program writes past it. That goes unnoticed, because a hit does not ask the
//! source. An auditor takes a sample of the hits, loads their keys from the source in batches and
//! compares. A difference alone proves nothing: the source may have changed a moment after the read,
//! and its invalidation be under way. So a key counts as *different* only when the very same version of
//! its entry was wrong after [`SECOND_LOOK`] and still [`THIRD_LOOK`] later.
//!
//! ```text
//! hit ─ sample? ─► bounded queue ─► load in batches ─► equal
//!                   │ full: dropped       └ differs ─► 1 s ─► equal │ gone
//!                                                        └──► 5 s ─► equal │ gone
//!                                                               └──► different ─► repair()
//! ```
//!
//! Readers pay one branch without an auditor, and with one a random number; they never wait. Only
//! hits of either tier are sampled: answers that say of themselves that they are stale promise
//! nothing, and loads are the source.
//!
//! Deliberately absent: what other processes' local tiers hold. Each process audits its own reads.

pub(crate) mod work;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::BoxFuture;
use metrics::Counter;
use seawall_client::error::{Error, Result};
use seawall_resilience::random::Randomness;
use serde::Serialize;
use tokio::{sync::mpsc, task::JoinHandle};

use crate::{Cache, Read, Source, cache::LoadMany};

/// How long after a difference was found the entry is looked at again.
pub(crate) const SECOND_LOOK: Duration = Duration::from_secs(1);
/// How long after that it is looked at for the third time.
pub(crate) const THIRD_LOOK: Duration = Duration::from_secs(4);
/// Samples that wait for the source at most; more are dropped.
const MAX_WAITING: usize = 1024;
/// Keys that a report names.
const MAX_NAMED: usize = 20;

/// A hit that was sampled: the key, and what its reader was given.
pub(crate) struct Sample<K, V> {
    pub(crate) key: K,
    pub(crate) seen: Option<Arc<V>>,
}

/// Takes samples of the hits of one cache.
pub(crate) struct AuditSampler<K, V> {
    /// A hit is sampled when a random number is below this; 0 without an auditor.
    threshold: AtomicU64,
    randomness: Randomness,
    line: Mutex<Option<Line<K, V>>>,
}

struct Line<K, V> {
    samples: mpsc::Sender<Sample<K, V>>,
    findings: Arc<Findings<K>>,
}

impl<K: Clone, V> AuditSampler<K, V> {
    /// Samples a read that is about to be answered, by chance.
    pub(crate) fn see<Q: ToOwned<Owned = K> + ?Sized>(&self, key: &Q, read: &Read<V>) {
        let threshold = self.threshold.load(Ordering::Relaxed);
        if threshold != 0 && self.randomness.u64() <= threshold {
            self.sample(key.to_owned(), read);
        }
    }

    #[cold]
    fn sample(&self, key: K, read: &Read<V>) {
        if !matches!(read.source, Source::Local | Source::Remote) {
            return;
        }
        if let Some(line) = &*self.lock() {
            let sample = Sample { key, seen: read.value.clone() };
            match line.samples.try_send(sample) {
                Ok(()) => line.findings.change(|report| report.sampled += 1),
                Err(_) => line.findings.drop_one(),
            }
        }
    }
}

impl<K, V> AuditSampler<K, V> {
    pub(crate) fn new(randomness: Randomness) -> Self {
        AuditSampler { threshold: AtomicU64::new(0), randomness, line: Mutex::default() }
    }

    /// Takes no more samples; the auditor's task ends when it notices.
    pub(crate) fn close(&self) {
        self.threshold.store(0, Ordering::Relaxed);
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Line<K, V>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an auditor found so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AuditReport<K> {
    /// Hits that were taken.
    pub sampled: u64,
    /// Hits that were not taken because too many waited.
    pub dropped: u64,
    /// Keys that differed at first and are to be looked at again.
    pub waiting: u64,
    /// Right at once.
    pub equal: u64,
    /// Different at first; right, or no longer cached, within a second.
    pub equal_within_1s: u64,
    /// The same within five seconds.
    pub equal_within_5s: u64,
    /// Wrong: one version of the entry differed from the source for four seconds.
    pub different: u64,
    /// Up to 20 keys of those.
    pub different_keys: Vec<K>,
    /// Changed too often to tell.
    pub unsettled: u64,
    /// The source or Redis could not be asked.
    pub failed: u64,
    /// Wrong entries that were invalidated (see [`AuditorBuilder::repair`]).
    pub repaired: u64,
}

/// The report as it grows, and its metrics.
pub(crate) struct Findings<K> {
    report: Mutex<AuditReport<K>>,
    name: String,
    dropped: Counter,
}

impl<K: Clone> Findings<K> {
    /// Counts a sample that is settled, in the report and under `result`.
    pub(crate) fn settle(
        &self,
        result: &'static str,
        count: u64,
        change: impl FnOnce(&mut AuditReport<K>),
    ) {
        metrics::counter!("seawall_cache_audited_total", "cache" => self.name.clone(), "result" => result)
            .increment(count);
        self.change(change);
    }

    /// Counts a key whose entry is wrong.
    pub(crate) fn blame(&self, key: &K) {
        tracing::warn!(cache = self.name, "an audit found an entry that differs from its source");
        self.settle("different", 1, |report| {
            report.different += 1;
            if report.different_keys.len() < MAX_NAMED {
                report.different_keys.push(key.clone());
            }
        });
    }

    pub(crate) fn drop_one(&self) {
        self.dropped.increment(1);
        self.change(|report| report.dropped += 1);
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut AuditReport<K>)) {
        change(&mut self.report.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The auditor's task: [`Work::audit`](work::Work::audit).
pub(crate) type Audit<K, V> = fn(
    Cache<K, V>,
    work::Plan<K, V>,
    mpsc::Receiver<Sample<K, V>>,
    Arc<Findings<K>>,
) -> BoxFuture<'static, ()>;

/// Builds an [`Auditor`]: see [`Cache::auditor`].
#[must_use = "a builder does nothing until `spawn`"]
pub struct AuditorBuilder<K, V> {
    cache: Cache<K, V>,
    load: LoadMany<K, V>,
    audit: Audit<K, V>,
    rate: f64,
    per_second: u32,
    repair: bool,
}

/// Compares hits with the source for as long as it lives: see [`Cache::auditor`].
#[must_use = "it ends when it is dropped"]
pub struct Auditor<K, V> {
    cache: Cache<K, V>,
    findings: Arc<Findings<K>>,
    task: JoinHandle<()>,
}

impl<K, V> AuditorBuilder<K, V> {
    /// Starts building an auditor. What it asks of keys and values is checked here, by `audit`.
    pub(crate) fn new(cache: Cache<K, V>, load: LoadMany<K, V>, audit: Audit<K, V>) -> Self {
        AuditorBuilder { cache, load, audit, rate: 0.001, per_second: 100, repair: false }
    }

    /// Sets the fraction of hits to sample. Default: 0.001.
    pub fn sample(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// Limits how many keys are loaded from the source per second. Default: 100.
    pub fn at_most(mut self, per_second: u32) -> Self {
        self.per_second = per_second;
        self
    }

    /// Invalidates entries that were found to be wrong. Default: off.
    pub fn repair(mut self) -> Self {
        self.repair = true;
        self
    }

    /// Starts the audit in the background. It ends with [`Auditor::shutdown`], when the auditor is dropped,
    /// or when the handle is shut down.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a rate or pace that makes no sense, or when this cache has an auditor.
    pub fn spawn(self) -> Result<Auditor<K, V>> {
        let AuditorBuilder { cache, load, audit, rate, per_second, repair } = self;
        let name = cache.name().to_owned();
        if !(rate > 0.0 && rate <= 1.0) || per_second == 0 {
            return Err(Error::Invalid(format!(
                "auditor of cache {name:?}: sample is {rate}, it must be above 0 and at most 1; at_most is {per_second}, it must be at least 1"
            )));
        }
        let (samples, taken) = mpsc::channel(MAX_WAITING);
        let findings = Arc::new(Findings {
            report: Mutex::new(AuditReport::default()),
            dropped: metrics::counter!("seawall_cache_audit_dropped_total", "cache" => name.clone()),
            name,
        });
        let mut line = cache.inner.sampler.lock();
        if line.is_some() {
            return Err(Error::Invalid(format!("cache {:?} has an auditor already", cache.name())));
        }
        *line = Some(Line { samples, findings: Arc::clone(&findings) });
        // Saturates: at 1.0 every number is below it.
        cache
            .inner
            .sampler
            .threshold
            .store((rate * u64::MAX as f64).max(1.0) as u64, Ordering::Relaxed);
        drop(line);
        let plan = work::Plan { load, per_second, repair };
        let work = audit(cache.clone(), plan, taken, Arc::clone(&findings));
        let task = cache.inner.handle.spawn_at_home(work);
        Ok(Auditor { cache, findings, task })
    }
}

impl<K: Clone, V> Auditor<K, V> {
    /// Returns what was found so far.
    #[must_use]
    pub fn report(&self) -> AuditReport<K> {
        self.findings.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the audit and returns what was found. It does not wait for samples that are not settled.
    pub async fn shutdown(mut self) -> AuditReport<K> {
        self.cache.inner.sampler.close();
        self.task.abort();
        // It was aborted, or had ended before.
        let _ = (&mut self.task).await;
        self.report()
    }
}

impl<K, V> Drop for Auditor<K, V> {
    fn drop(&mut self) {
        self.cache.inner.sampler.close();
    }
}

impl<K> Default for AuditReport<K> {
    fn default() -> Self {
        AuditReport {
            sampled: 0,
            dropped: 0,
            waiting: 0,
            equal: 0,
            equal_within_1s: 0,
            equal_within_5s: 0,
            different: 0,
            different_keys: Vec::new(),
            unsettled: 0,
            failed: 0,
            repaired: 0,
        }
    }
}

impl<K, V> fmt::Debug for AuditorBuilder<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditorBuilder").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for Auditor<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auditor").field("cache", &self.cache).finish_non_exhaustive()
    }
}
