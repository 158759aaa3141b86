//! The auditor's task: compares samples with the source, and looks again at what differs.
//!
//! One task does everything in turn, so its memory is bounded by the queue of samples and
//! [`MAX_SUSPECTS`], and its load on the source by a pause after each batch.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use seawall_resilience::clock::Moment;
use tokio::sync::mpsc;

use crate::{
    Cache, CacheKey, CacheValue, Freshness,
    audit::{Findings, SECOND_LOOK, Sample, THIRD_LOOK},
    cache::LoadMany,
};

/// Keys that one load of the source is asked for.
const BATCH: usize = 64;
/// Keys that are to be looked at again, at most; further differences are dropped.
const MAX_SUSPECTS: usize = 1024;
/// How often an entry is looked at whose version changes from look to look.
const MAX_LOOKS: u32 = 5;

/// What the user asked for.
pub(crate) struct Plan<K, V> {
    pub(crate) load: LoadMany<K, V>,
    pub(crate) per_second: u32,
    pub(crate) repair: bool,
}

/// A key that differed from the source.
struct Suspect<K> {
    key: K,
    /// How often the entry was looked at after that was noticed.
    looks: u32,
    /// The version that was wrong at the last look.
    wrong: Option<u64>,
}

/// The state of one audit.
pub(crate) struct Work<K, V> {
    cache: Cache<K, V>,
    plan: Plan<K, V>,
    findings: Arc<Findings<K>>,
    /// By when they are due; the number keeps those of one moment apart.
    suspects: BTreeMap<(Moment, u64), Suspect<K>>,
    suspected: HashSet<K>,
    added: u64,
}

impl<K, V> Work<K, V>
where
    K: CacheKey + Eq + Hash,
    V: CacheValue + PartialEq,
{
    /// Audits until the samples end or the handle is shut down.
    pub(crate) fn audit(
        cache: Cache<K, V>,
        plan: Plan<K, V>,
        samples: mpsc::Receiver<Sample<K, V>>,
        findings: Arc<Findings<K>>,
    ) -> BoxFuture<'static, ()> {
        let mut stop = cache.inner.handle.stopping();
        let sampled = Arc::clone(&cache.inner);
        let (suspects, suspected) = (BTreeMap::new(), HashSet::new());
        let work = Work { cache, plan, findings, suspects, suspected, added: 0 };
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => sampled.sampler.close(),
                () = work.run(samples) => {}
            }
        })
    }

    async fn run(mut self, mut samples: mpsc::Receiver<Sample<K, V>>) {
        let clock = self.cache.inner.reader.clock.clone();
        let batch = BATCH.min(self.plan.per_second as usize);
        loop {
            let due = self.suspects.first_key_value().map(|((due, _), _)| *due);
            let next_look = async {
                match due {
                    Some(due) => clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let mut taken = Vec::new();
            let asked = tokio::select! {
                biased;
                () = next_look => self.look_again(batch).await,
                count = samples.recv_many(&mut taken, batch) => {
                    if count == 0 {
                        return;
                    }
                    self.compare(taken).await
                }
            };
            let waiting = self.suspects.len() as u64;
            self.findings.change(|report| report.waiting = waiting);
            // The pace: what was asked for is paid for before more is. A dropped auditor does not
            // wait for it, since nothing is held meanwhile.
            clock
                .sleep(Duration::from_secs_f64(asked as f64 / f64::from(self.plan.per_second)))
                .await;
        }
    }

    /// Returns what the source says about these keys; `None` when it could not be asked.
    async fn ask(&self, keys: Vec<K>) -> Option<HashMap<K, V>> {
        let (runner, load) = (&self.cache.inner.reader.coordinator.runner, &self.plan.load);
        match runner.call_any(|| load(keys)).await {
            Ok((found, _)) => Some(found),
            Err(error) => {
                tracing::debug!(%error, "an audit could not ask the source");
                None
            }
        }
    }

    /// Compares what readers were given with the source. Returns how many keys it asked for.
    async fn compare(&mut self, samples: Vec<Sample<K, V>>) -> usize {
        let keys = distinct(samples.iter().map(|sample| &sample.key));
        let asked = keys.len();
        let Some(found) = self.ask(keys).await else {
            let count = samples.len() as u64;
            self.findings.settle("failed", count, |report| report.failed += count);
            return asked;
        };
        for Sample { key, seen } in samples {
            if seen.as_deref() == found.get(&key) {
                self.findings.settle("equal", 1, |report| report.equal += 1);
            } else if self.suspects.len() >= MAX_SUSPECTS || !self.suspected.insert(key.clone()) {
                // One look for all readers of a key.
                self.findings.drop_one();
            } else {
                self.watch(SECOND_LOOK, Suspect { key, looks: 0, wrong: None });
            }
        }
        asked
    }

    fn watch(&mut self, after: Duration, suspect: Suspect<K>) {
        self.added += 1;
        let due = self.cache.inner.reader.clock.now() + after;
        self.suspects.insert((due, self.added), suspect);
    }

    /// Compares what the cache would give now with the source. Returns how many keys it asked for.
    async fn look_again(&mut self, batch: usize) -> usize {
        let now = self.cache.inner.reader.clock.now();
        let mut due = Vec::new();
        while due.len() < batch
            && let Some(first) = self.suspects.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        let keys = distinct(due.iter().map(|suspect| &suspect.key));
        let asked = keys.len();
        // The source first: what the cache is given meanwhile can only be newer.
        let found = self.ask(keys).await;
        for suspect in due {
            let verdict = match &found {
                Some(found) => self.verdict(&suspect.key, found.get(&suspect.key)).await,
                None => Verdict::Unknown,
            };
            self.judge(suspect, verdict).await;
        }
        asked
    }

    /// Compares what either tier would give with the source.
    async fn verdict(&self, key: &K, source: Option<&V>) -> Verdict {
        let reader = &self.cache.inner.reader;
        let Ok(entry_key) = self.cache.inner.keys.entry_key(key) else { return Verdict::Unknown };
        let now = reader.clock.now();
        let copy = reader.local.as_ref().and_then(|local| local.peek(entry_key.entry()));
        if let Some(copy) = copy
            && copy.suits(Freshness::Strong, now)
            && !reader.recovery.concerns(entry_key.entry())
            && copy.value.as_deref() != source
        {
            return Verdict::Wrong(copy.version);
        }
        match self.cache.get_unsampled(Freshness::Strong, key).await {
            Ok(Some(read)) if read.value.as_deref() != source => Verdict::Wrong(read.version.0),
            Ok(_) => Verdict::Right,
            Err(_) => Verdict::Unknown,
        }
    }

    async fn judge(&mut self, mut suspect: Suspect<K>, verdict: Verdict) {
        let first = suspect.looks == 0;
        suspect.looks += 1;
        let version = match verdict {
            Verdict::Right if first => {
                self.findings.settle("within_1s", 1, |report| report.equal_within_1s += 1);
                self.suspected.remove(&suspect.key);
                return;
            }
            Verdict::Right => {
                self.findings.settle("within_5s", 1, |report| report.equal_within_5s += 1);
                self.suspected.remove(&suspect.key);
                return;
            }
            Verdict::Unknown => {
                self.findings.settle("failed", 1, |report| report.failed += 1);
                self.suspected.remove(&suspect.key);
                return;
            }
            Verdict::Wrong(version) => version,
        };
        if suspect.wrong == Some(version) {
            self.suspected.remove(&suspect.key);
            self.findings.blame(&suspect.key);
            if self.plan.repair && self.cache.invalidate(&suspect.key).await.is_ok() {
                self.findings.change(|report| report.repaired += 1);
            }
        } else if suspect.looks >= MAX_LOOKS {
            self.suspected.remove(&suspect.key);
            self.findings.settle("unsettled", 1, |report| report.unsettled += 1);
        } else {
            suspect.wrong = Some(version);
            self.watch(THIRD_LOOK, suspect);
        }
    }
}

/// What a later look found.
enum Verdict {
    /// Equal, or no longer cached.
    Right,
    /// This version differs.
    Wrong(u64),
    /// Redis or the source could not be asked.
    Unknown,
}

/// Returns each key once, in the order in which they came.
fn distinct<'a, K: Clone + Eq + Hash + 'a>(keys: impl Iterator<Item = &'a K>) -> Vec<K> {
    let mut seen = HashSet::new();
    keys.filter(|key| seen.insert(*key)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::distinct;

    #[test]
    fn keys_are_asked_once_and_in_the_order_of_their_samples() {
        let keys: Vec<u32> = (0..100).map(|n| n * 7_919 % 50).collect();
        assert_eq!(distinct(keys.iter()), keys[..50]);
    }
}
