//! Reading many keys at once: one trip to each server, one call of the loader.
//!
//! The steps are those of a single read, each for the whole batch: first level, entries, leases for
//! what is missing, one load for the leases that were granted, fills. Keys for which Redis is away are
//! loaded past it together (`past`). Keys that another caller is loading are then waited for one by
//! one. What fails, fails for its own keys only.

use std::{collections::HashMap, error::Error as StdError, hash::Hash, sync::Arc};

use futures_util::{FutureExt, future::join_all};
use seawall_client::error::Error;

use crate::{
    Cache, CacheError, CacheKey, CacheValue, EntryKey, Freshness, LoadError, Loaded, Mode, Read,
    Source,
    load::coordinator::{Claim, LoaderSlot, new_token},
    load::lease::Holding,
    load::loader::Loader,
    load::single_flight::{Fault, Leader},
    read::reader::Admission,
    store::parted::is_in_parts,
    tier::local::Ticket,
    tier::remote::{Fill, Lease},
    types::Entry,
};

/// A loader of many keys, as the batch keeps it.
pub(crate) type LoadMany<K, V> = Arc<
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

/// A key whose lease this batch holds.
struct Granted<K, V> {
    missing: Missing,
    key: K,
    entry_key: EntryKey,
    /// Those who read past the cache meanwhile wait for this load, too.
    past: Option<Leader<V>>,
    /// The lease is renewed until this ends.
    _held: Holding,
}

impl<K, V: Send + Sync + 'static> Granted<K, V> {
    /// Ends with a value for those who began before the load did.
    fn land(self, entry: Entry<V>) {
        match self.past {
            Some(past) if entry.version == 0 => past.land_unstored(entry),
            Some(past) => {
                let started = past.started();
                past.land(started, Ok(entry));
            }
            None => {}
        }
    }
}

/// What looking into Redis leaves to do.
#[derive(Default)]
struct Open {
    /// To be loaded under leases.
    missing: Vec<Missing>,
    /// To be loaded past the cache.
    away: Vec<usize>,
}

impl<K, V> Cache<K, V>
where
    K: CacheKey + Eq + Hash,
    V: CacheValue,
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
        let mut entry_keys = Vec::with_capacity(keys.len());
        let now = self.inner.clock.now();
        for key in keys {
            match self.inner.entry_key(key) {
                Ok(entry_key) => {
                    let entry = entry_key.entry();
                    let (hit, older) = self.inner.look_local(entry, Freshness::Cached, now);
                    let rationed = || self.inner.ration(entry, older.as_ref());
                    answers.push(hit.map(Ok).or_else(rationed));
                    entry_keys.push(Some(entry_key));
                }
                Err(error) => {
                    answers.push(Some(Err(error.into())));
                    entry_keys.push(None);
                }
            }
        }
        let began = self.inner.flights.next();
        let Open { missing, away } = self.look_remote(keys, &entry_keys, &mut answers, &load).await;
        if !away.is_empty() {
            let wanted = away
                .into_iter()
                .filter_map(|index| Some((index, keys[index].clone(), entry_keys[index].clone()?)));
            for (index, answer) in self.load_past(wanted.collect(), began, &load).await {
                answers[index] = Some(answer);
            }
        }
        self.load_missing(keys, &entry_keys, missing, &mut answers, &load).await;
        for (key, answer) in keys.iter().zip(&answers) {
            if let Some(Ok(read)) = answer {
                self.inner.sampler.see(key, read);
            }
        }
        self.wait_for_rest(keys, answers, &load).await
    }

    /// Fills in what Redis has; gives back what it does not have.
    async fn look_remote(
        &self,
        keys: &[K],
        entry_keys: &[Option<EntryKey>],
        answers: &mut [Option<Answer<V>>],
        load: &LoadMany<K, V>,
    ) -> Open {
        let inner = &self.inner;
        let mut open = Open::default();
        let (waiting, wanted): (Vec<_>, Vec<_>) = (0..keys.len())
            .filter(|index| answers[*index].is_none())
            .filter_map(|index| entry_keys[index].as_ref().map(|entry_key| (index, entry_key)))
            .partition(|(_, entry_key)| inner.recovery.concerns(entry_key.entry()));
        open.away.extend(waiting.into_iter().map(|(index, _)| index));
        if wanted.is_empty() {
            return open;
        }
        let tickets: Vec<_> = wanted
            .iter()
            .map(|(_, entry_key)| inner.local.as_ref().map(|local| local.ticket(entry_key.entry())))
            .collect();
        let asked: Vec<&EntryKey> = wanted.iter().map(|(_, entry_key)| *entry_key).collect();
        let found = inner.remote.get_many(&asked).await;
        let now = inner.clock.now();
        for (((index, entry_key), ticket), found) in wanted.into_iter().zip(tickets).zip(found) {
            let (raw, stamp) = match found {
                Ok(found) => found,
                Err(error) if error.is_away() => {
                    inner.metrics.outages.increment(1);
                    open.away.push(index);
                    continue;
                }
                // Read by itself later, with all that a single read knows to do.
                Err(_) => continue,
            };
            if raw.as_deref().is_some_and(|raw| inner.is_newer(raw)) {
                open.away.push(index);
                continue;
            }
            // Read by itself, too.
            if raw.as_deref().is_some_and(is_in_parts) {
                continue;
            }
            let entry = raw.and_then(|raw| inner.decode(&raw, stamp, entry_key, now));
            match entry {
                Some(entry) if now < entry.fresh_until && entry.suits(Freshness::Cached, now) => {
                    inner.keep(entry_key, &entry, ticket);
                    if inner.is_tended() {
                        let loader = LoaderSlot::new(one_of_many(load, &keys[index]));
                        inner.refresh_if_due(entry_key, &entry, stamp, now, Some(&loader));
                    }
                    answers[index] = Some(Ok(inner.hit(&entry, now)));
                }
                Some(entry)
                    if entry.suits(Freshness::Cached, now)
                        && inner.settings.mode != Mode::Mutex =>
                {
                    let loader = LoaderSlot::new(one_of_many(load, &keys[index]));
                    inner.refresh(entry_key, stamp, &entry, loader);
                    inner.metrics.stale_hits.increment(1);
                    answers[index] = Some(Ok(entry.read(Source::Stale, now)));
                }
                _ => {
                    inner.metrics.misses.increment(1);
                    open.missing.push(Missing { index, stamp, token: new_token(), ticket });
                }
            }
        }
        open
    }

    /// Takes the leases that are free, loads for them, stores. Runs to its end even if the caller
    /// goes away: leases are not to be left lying.
    async fn load_missing(
        &self,
        keys: &[K],
        entry_keys: &[Option<EntryKey>],
        missing: Vec<Missing>,
        answers: &mut [Option<Answer<V>>],
        load: &LoadMany<K, V>,
    ) {
        if missing.is_empty() {
            return;
        }
        let work: Vec<(Missing, K, EntryKey)> = missing
            .into_iter()
            .filter_map(|missing| {
                let entry_key = entry_keys[missing.index].clone()?;
                let key = keys[missing.index].clone();
                Some((missing, key, entry_key))
            })
            .collect();
        let (done, results) = tokio::sync::oneshot::channel();
        let (this, load) = (self.clone(), Arc::clone(load));
        self.inner.handle.spawn(async move {
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
        work: Vec<(Missing, K, EntryKey)>,
        load: LoadMany<K, V>,
    ) -> Vec<(usize, Answer<V>)> {
        let inner = &self.inner;
        let asked: Vec<(Vec<u8>, u64, u64)> = work
            .iter()
            .map(|(missing, _, entry_key)| {
                (entry_key.entry().to_vec(), missing.token, missing.stamp)
            })
            .collect();
        let sent = tokio::time::Instant::now();
        let leases = inner.remote.lease_many(&asked).await;
        let mut answers = Vec::new();
        let mut granted = Vec::new();
        for ((mut missing, key, entry_key), mut lease) in work.into_iter().zip(leases) {
            let mut claim = Claim::sent(missing.token, sent);
            if lease.as_ref().is_err_and(Error::is_indeterminate) {
                // It may be ours: nobody else could load before it ends by itself.
                claim.renew();
                lease = inner.ask(&entry_key, &mut claim, missing.stamp, None).await;
                missing.token = claim.token;
            }
            match lease {
                Ok(Lease::Granted) => {
                    let (_, past) = inner.past.join(entry_key.entry());
                    if let Some(past) = &past {
                        past.start();
                    }
                    let _held = inner.hold(&entry_key, &claim);
                    granted.push(Granted { missing, key, entry_key, past, _held });
                }
                Ok(Lease::Value(raw)) if !is_in_parts(&raw) => {
                    let now = inner.clock.now();
                    if let Some(entry) = inner.decode(&raw, missing.stamp, &entry_key, now) {
                        answers.push((missing.index, Ok(inner.hit(&entry, now))));
                    }
                }
                // Read one by one later.
                Ok(Lease::Value(_) | Lease::Busy(_) | Lease::Changed | Lease::Newer) | Err(_) => {}
            }
        }
        if granted.is_empty() {
            return answers;
        }
        let wanted: Vec<K> = granted.iter().map(|granted| granted.key.clone()).collect();
        let loaded = self.call_many(wanted, &load).await;
        match loaded {
            Err(error) => {
                let back = granted.iter().map(|Granted { missing, entry_key, .. }| {
                    inner.remote.release(entry_key.entry(), missing.token)
                });
                join_all(back).await;
                for Granted { missing, past, .. } in granted {
                    if let Some(past) = past {
                        past.land(u64::MAX, Err(Fault::Error(error.clone())));
                    }
                    answers.push((missing.index, Err(error.clone())));
                }
            }
            Ok((found, cost)) => {
                answers.extend(self.store_many(granted, found, cost).await);
            }
        }
        answers
    }

    /// What the source says about all of these, through the pipeline.
    pub(crate) async fn call_many(
        &self,
        keys: Vec<K>,
        load: &LoadMany<K, V>,
    ) -> Result<(HashMap<K, V>, std::time::Duration), CacheError> {
        let began = self.inner.clock.now();
        let load = Arc::clone(load);
        let found = self.inner.call_any(move || load(keys)).await?;
        Ok((found, self.inner.clock.now().since(began)))
    }

    async fn store_many(
        &self,
        granted: Vec<Granted<K, V>>,
        mut found: HashMap<K, V>,
        cost: std::time::Duration,
    ) -> Vec<(usize, Answer<V>)> {
        let inner = &self.inner;
        let mut answers = Vec::new();
        let mut fills = Vec::new();
        let mut stored = Vec::new();
        for granted in granted {
            let value = found.remove(&granted.key).map(Arc::new);
            let Granted { missing, entry_key, .. } = &granted;
            match self.fill_of(&granted, value.as_ref(), cost).await {
                Some(fill) => {
                    fills.push((entry_key.entry().to_vec(), missing.token, fill));
                    stored.push((granted, value));
                }
                None => {
                    let _ = inner.remote.release(entry_key.entry(), missing.token).await;
                    let now = inner.clock.now();
                    let entry = Entry::uncached(value, now, &entry_key.tags);
                    answers.push((missing.index, Ok(entry.read(Source::Loaded, now))));
                    granted.land(entry);
                }
            }
        }
        let results = inner.remote.fill_many(&fills).await;
        let mut unknown = Vec::new();
        for (((granted, value), (_, _, fill)), result) in
            stored.into_iter().zip(&fills).zip(results)
        {
            let now = inner.clock.now();
            let Granted { missing, entry_key, .. } = &granted;
            let uncached = Entry::uncached(value.clone(), now, &entry_key.tags);
            let entry = match result {
                Ok(Some(times)) => {
                    let entry = inner.entry(value, &times, fill, entry_key);
                    inner.keep(entry_key, &entry, missing.ticket);
                    entry
                }
                // Overtaken by an invalidation: right for this read, which began before, and not kept.
                Ok(None) => {
                    inner.metrics.refused_fills.increment(1);
                    inner.discard(entry_key.entry(), fill).await;
                    uncached
                }
                Err(_) => {
                    inner.keep_past(entry_key, &uncached, missing.ticket);
                    unknown.push((entry_key.clone(), missing.token, fill.clone()));
                    uncached
                }
            };
            answers.push((missing.index, Ok(entry.read(Source::Loaded, now))));
            granted.land(entry);
        }
        if !unknown.is_empty() {
            // Nobody waits for this: Redis may take its time to fail once more.
            let inner = Arc::clone(inner);
            self.inner.handle.spawn(async move {
                for (entry_key, token, fill) in unknown {
                    inner.give_back(&entry_key, token).await;
                    inner.discard(entry_key.entry(), &fill).await;
                }
            });
        }
        answers
    }

    /// What is stored for a key; `None` when nothing is.
    async fn fill_of(
        &self,
        granted: &Granted<K, V>,
        value: Option<&Arc<V>>,
        cost: std::time::Duration,
    ) -> Option<Fill> {
        let (inner, Granted { missing, entry_key, .. }) = (&self.inner, granted);
        // Redis does not know of an invalidation that waits here, and would take an older value.
        if inner.recovery.concerns(entry_key.entry()) {
            return None;
        }
        let fill = match value {
            Some(value) => inner.fill(value, inner.settings.ttl, cost, missing.stamp)?,
            None if inner.settings.negative_ttl.is_zero() => return None,
            None => inner.absent(cost, missing.stamp),
        };
        let cut = inner.cut(entry_key.entry(), fill).await;
        cut.inspect_err(|error| tracing::debug!(%error, "a load could not be stored in parts")).ok()
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
                let loader = || one_of_many(load, key);
                self.get_admitted(Freshness::Cached, key, Admission::Had, loader).await
            }
        }))
        .await
    }
}

/// A loader of many as a loader of one of them.
pub(crate) fn one_of_many<K, V>(load: &LoadMany<K, V>, key: &K) -> Loader<V>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    let (load, key) = (Arc::clone(load), key.clone());
    Box::new(move |_| {
        async move {
            let found = load(vec![key.clone()]).await;
            found.map(|mut found| Loaded::from(found.remove(&key)))
        }
        .boxed()
    })
}
