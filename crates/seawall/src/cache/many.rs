//! Reading many keys at once: one trip to each server, one call of the loader.
//!
//! The steps are those of a single read, each for the whole batch: first level, entries, leases for
//! what is missing, one load for the leases that were granted, fills. Keys that another caller is
//! loading are then waited for one by one. What fails, fails for its own keys only.

use std::{collections::HashMap, error::Error as StdError, hash::Hash, sync::Arc};

use futures_util::{FutureExt, future::join_all};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Cache, CacheError, Freshness, LoadError, Loaded, Mode, Read, Source, Subject,
    level1::Ticket,
    level2::{Fill, Lease},
    load::{Claim, LoaderSlot, new_token},
    parted::is_in_parts,
    read::Admission,
    read_types::Entry,
};
use crate::{error::Error, key::KeyPart};

/// A loader of many keys, as the batch keeps it.
pub(super) type LoadMany<K, V> = Arc<
    dyn Fn(Vec<K>) -> futures_util::future::BoxFuture<'static, Result<HashMap<K, V>, LoadError>>
        + Send
        + Sync,
>;
type Answer<V> = Result<Read<V>, CacheError>;

/// A key that the levels did not have.
struct Missing {
    index: usize,
    stamp: u64,
    token: u64,
    /// Taken before anything was read.
    ticket: Option<Ticket>,
}

impl<K, V> Cache<K, V>
where
    K: KeyPart + Clone + Eq + Hash + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The values of many keys, in their order. `load` is called with the keys that no level has
    /// and nobody else is loading; what it leaves out is missing.
    ///
    /// # Errors
    /// Each key has an error of its own: see [`Cache::get_or_load`].
    pub async fn get_many<F, Fut, E>(&self, keys: &[K], load: F) -> Vec<Answer<V>>
    where
        F: Fn(Vec<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<HashMap<K, V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let load: LoadMany<K, V> = Arc::new(move |keys| {
            load(keys).map(|found| found.map_err(|error| LoadError::from(error.into()))).boxed()
        });
        let mut answers: Vec<Option<Answer<V>>> = Vec::with_capacity(keys.len());
        let mut subjects = Vec::with_capacity(keys.len());
        let now = self.inner.clock.now();
        for key in keys {
            match self.inner.subject(key) {
                Ok(subject) => {
                    let entry = subject.entry();
                    let (hit, older) = self.inner.look_level1(entry, Freshness::Cached, now);
                    let rationed = || self.inner.ration(entry, older.as_ref());
                    answers.push(hit.map(Ok).or_else(rationed));
                    subjects.push(Some(subject));
                }
                Err(error) => {
                    answers.push(Some(Err(error.into())));
                    subjects.push(None);
                }
            }
        }
        let missing = self.look_level2(keys, &subjects, &mut answers, &load).await;
        self.load_missing(keys, &subjects, missing, &mut answers, &load).await;
        for (key, answer) in keys.iter().zip(&answers) {
            if let Some(Ok(read)) = answer {
                self.inner.tap.see(key, read);
            }
        }
        self.wait_for_rest(keys, answers, &load).await
    }

    /// Fills in what Redis has; gives back what it does not have.
    async fn look_level2(
        &self,
        keys: &[K],
        subjects: &[Option<Subject>],
        answers: &mut [Option<Answer<V>>],
        load: &LoadMany<K, V>,
    ) -> Vec<Missing> {
        let inner = &self.inner;
        let open = |index: &usize| answers[*index].is_none();
        let wanted: Vec<(usize, &Subject)> = (0..keys.len())
            .filter(open)
            .filter_map(|index| subjects[index].as_ref().map(|subject| (index, subject)))
            .filter(|(_, subject)| !inner.repairs.concerns(subject.entry()))
            .collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let tickets: Vec<_> = wanted
            .iter()
            .map(|(_, subject)| inner.level1.as_ref().map(|level1| level1.ticket(subject.entry())))
            .collect();
        let asked: Vec<&Subject> = wanted.iter().map(|(_, subject)| *subject).collect();
        let found = inner.level2.get_many(&asked).await;
        let now = inner.clock.now();
        let mut missing = Vec::new();
        for (((index, subject), ticket), found) in wanted.into_iter().zip(tickets).zip(found) {
            // A key that failed is read by itself later, with all that a single read knows to do.
            let Ok((raw, stamp)) = found else { continue };
            // So is one whose value lies in parts.
            if raw.as_deref().is_some_and(is_in_parts) {
                continue;
            }
            let entry = raw.and_then(|raw| inner.decode(&raw, stamp, subject, now));
            match entry {
                Some(entry) if now < entry.fresh_until && entry.suits(Freshness::Cached, now) => {
                    inner.keep(subject, &entry, ticket);
                    if inner.is_tended() {
                        let loader = one_of_many(load, &keys[index]);
                        inner.tend(subject, &entry, stamp, now, Some(&loader));
                    }
                    answers[index] = Some(Ok(inner.hit(&entry, now)));
                }
                Some(entry)
                    if entry.suits(Freshness::Cached, now)
                        && inner.settings.mode != Mode::Mutex =>
                {
                    inner.refresh(subject, stamp, entry.version, one_of_many(load, &keys[index]));
                    inner.metrics.stale_hits.increment(1);
                    answers[index] = Some(Ok(entry.read(Source::Stale, now)));
                }
                _ => {
                    inner.metrics.misses.increment(1);
                    missing.push(Missing { index, stamp, token: new_token(), ticket });
                }
            }
        }
        missing
    }

    /// Takes the leases that are free, loads for them, stores. Runs to its end even if the caller
    /// goes away: leases are not to be left lying.
    async fn load_missing(
        &self,
        keys: &[K],
        subjects: &[Option<Subject>],
        missing: Vec<Missing>,
        answers: &mut [Option<Answer<V>>],
        load: &LoadMany<K, V>,
    ) {
        if missing.is_empty() {
            return;
        }
        let work: Vec<(Missing, K, Subject)> = missing
            .into_iter()
            .filter_map(|missing| {
                let subject = subjects[missing.index].clone()?;
                let key = keys[missing.index].clone();
                Some((missing, key, subject))
            })
            .collect();
        let (done, results) = tokio::sync::oneshot::channel();
        let (this, load) = (self.clone(), Arc::clone(load));
        self.inner.seawall.spawn(async move {
            // Nobody waits any more: everything is stored all the same.
            let _ = done.send(this.load_leased(work, load).await);
        });
        if let Ok(loaded) = results.await {
            for (index, answer) in loaded {
                answers[index] = Some(answer);
            }
        }
    }

    async fn load_leased(
        self,
        work: Vec<(Missing, K, Subject)>,
        load: LoadMany<K, V>,
    ) -> Vec<(usize, Answer<V>)> {
        let inner = &self.inner;
        let asked: Vec<(Vec<u8>, u64, u64)> = work
            .iter()
            .map(|(missing, _, subject)| (subject.entry().to_vec(), missing.token, missing.stamp))
            .collect();
        let leases = inner.level2.lease_many(&asked).await;
        let mut answers = Vec::new();
        let mut granted = Vec::new();
        for ((mut missing, key, subject), mut lease) in work.into_iter().zip(leases) {
            if lease.as_ref().is_err_and(Error::is_indeterminate) {
                // It may be ours: nobody else could load before it ends by itself.
                let mut claim = Claim::from(missing.token);
                claim.renew();
                lease = inner.ask(&subject, &mut claim, missing.stamp, None).await;
                missing.token = claim.token;
            }
            match lease {
                Ok(Lease::Granted) => granted.push((missing, key, subject)),
                Ok(Lease::Value(raw)) if !is_in_parts(&raw) => {
                    let now = inner.clock.now();
                    if let Some(entry) = inner.decode(&raw, missing.stamp, &subject, now) {
                        answers.push((missing.index, Ok(inner.hit(&entry, now))));
                    }
                }
                // Read one by one later.
                Ok(Lease::Value(_) | Lease::Busy(_) | Lease::Changed) | Err(_) => {}
            }
        }
        if granted.is_empty() {
            return answers;
        }
        let wanted: Vec<K> = granted.iter().map(|(_, key, _)| key.clone()).collect();
        let loaded = self.call_many(wanted, &load).await;
        match loaded {
            Err(error) => {
                let back = granted.iter().map(|(missing, _, subject)| {
                    inner.level2.release(subject.entry(), missing.token, None)
                });
                join_all(back).await;
                answers.extend(
                    granted.iter().map(|(missing, ..)| (missing.index, Err(error.clone()))),
                );
            }
            Ok((found, cost)) => answers.extend(self.store_many(granted, found, cost).await),
        }
        answers
    }

    /// What the source says about all of these, through the governor.
    pub(super) async fn call_many(
        &self,
        keys: Vec<K>,
        load: &LoadMany<K, V>,
    ) -> Result<(HashMap<K, V>, std::time::Duration), CacheError> {
        let began = self.inner.clock.now();
        let slot: LoaderSlot<HashMap<K, V>> = LoaderSlot::new(Box::new({
            let load = Arc::clone(load);
            move || async move { load(keys).await.map(Loaded::DontCache) }.boxed()
        }));
        let found = self.inner.call_any(&slot).await?;
        let cost = self.inner.clock.now().since(began);
        match found {
            Loaded::DontCache(found) => Ok((found, cost)),
            _ => Err(super::load::not_modified()),
        }
    }

    async fn store_many(
        &self,
        granted: Vec<(Missing, K, Subject)>,
        mut found: HashMap<K, V>,
        cost: std::time::Duration,
    ) -> Vec<(usize, Answer<V>)> {
        let inner = &self.inner;
        let mut answers = Vec::new();
        let mut fills = Vec::new();
        let mut stored = Vec::new();
        for (missing, key, subject) in granted {
            let value = found.remove(&key).map(Arc::new);
            let fill: Option<Fill> = match &value {
                Some(value) => inner.fill(value, inner.settings.fresh_for, cost, missing.stamp),
                None if inner.settings.missing_for.is_zero() => None,
                None => Some(inner.absent(cost, missing.stamp)),
            };
            let Some(fill) = fill else {
                let _ = inner.level2.release(subject.entry(), missing.token, None).await;
                let now = inner.clock.now();
                let entry = Entry::uncached(value, now, &subject.tags);
                answers.push((missing.index, Ok(entry.read(Source::Loaded, now))));
                continue;
            };
            let fill = match inner.cut(subject.entry(), fill).await {
                Ok(fill) => fill,
                Err(error) => {
                    tracing::debug!(%error, "a load could not be stored in parts");
                    let _ = inner.level2.release(subject.entry(), missing.token, None).await;
                    let now = inner.clock.now();
                    let entry = Entry::uncached(value, now, &subject.tags);
                    answers.push((missing.index, Ok(entry.read(Source::Loaded, now))));
                    continue;
                }
            };
            fills.push((subject.entry().to_vec(), missing.token, fill));
            stored.push((missing.index, value, subject, missing.ticket));
        }
        let results = inner.level2.fill_many(&fills).await;
        for (((index, value, subject, ticket), (_, _, fill)), result) in
            stored.into_iter().zip(&fills).zip(results)
        {
            let now = inner.clock.now();
            let entry = match result {
                Ok(Some(times)) => {
                    let entry = inner.entry(value, &times, fill, &subject);
                    inner.keep(&subject, &entry, ticket);
                    entry
                }
                // Overtaken by an invalidation, or nobody knows: right for this read, which began
                // before, and not kept.
                Ok(None) => {
                    inner.metrics.refused_fills.increment(1);
                    inner.discard(subject.entry(), fill).await;
                    Entry::uncached(value, now, &subject.tags)
                }
                Err(_) => {
                    inner.discard(subject.entry(), fill).await;
                    Entry::uncached(value, now, &subject.tags)
                }
            };
            answers.push((index, Ok(entry.read(Source::Loaded, now))));
        }
        answers
    }

    /// Whatever has no answer yet is read by itself.
    async fn wait_for_rest(
        &self,
        keys: &[K],
        answers: Vec<Option<Answer<V>>>,
        load: &LoadMany<K, V>,
    ) -> Vec<Answer<V>> {
        if answers.iter().all(Option::is_some) {
            return answers.into_iter().flatten().collect();
        }
        join_all(answers.into_iter().zip(keys).map(async |(answer, key)| match answer {
            Some(answer) => answer,
            None => {
                let (load, wanted) = (Arc::clone(load), key.clone());
                self.get_admitted(Freshness::Cached, key, Admission::Had, move || async move {
                    let found = load(vec![wanted.clone()]).await;
                    found.map(|mut found| Loaded::from(found.remove(&wanted))).map_err(Shared)
                })
                .await
            }
        }))
        .await
    }
}

/// A loader of many as a loader of one of them.
fn one_of_many<K, V>(load: &LoadMany<K, V>, key: &K) -> LoaderSlot<V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    let (load, key) = (Arc::clone(load), key.clone());
    LoaderSlot::new(Box::new(move || {
        async move { load(vec![key.clone()]).await.map(|mut found| Loaded::from(found.remove(&key))) }.boxed()
    }))
}

/// A shared error as an error.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Shared(LoadError);
