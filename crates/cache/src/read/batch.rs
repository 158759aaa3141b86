//! Reads many keys at once: one trip to each server, one call of the loader.
//!
//! The steps are those of a single read, each for the whole batch: local tier, entries, leases for what
//! is missing, one load for the leases that were granted, fills. Keys for which Redis is away are
//! loaded past it together. Keys that another caller is loading are then waited for one by one. What
//! fails, fails for its own keys only.

use futures_util::future::join_all;
use tracing::Instrument as _;

use super::{
    freshness::judge,
    lookup::Lookup,
    reader::{Admission, Reader},
};
use crate::{
    CacheError, CacheValue, Freshness, Source,
    load::{
        batch::{Answer, Missing},
        coordinator::Sought,
        loader::{BatchLoader, Loader, LoaderSlot, one_of_many},
    },
    spans::ReadSpan,
    store::{keys::EntryKey, parted::is_in_parts},
};

/// What looking into Redis leaves to do.
#[derive(Default)]
struct Open {
    /// To be loaded under leases.
    missing: Vec<Missing>,
    /// To be loaded past the cache.
    away: Vec<usize>,
}

/// Makes a loader for the keys at these positions of the batch. Called only if something has to be
/// loaded.
type MakeLoader<'a, V> = &'a (dyn Fn(&[usize]) -> BatchLoader<V> + Send + Sync);

impl<V: CacheValue> Reader<V> {
    /// Answers a batch of reads, in the order of the keys.
    pub(crate) async fn read_many(
        &self,
        entry_keys: Vec<seawall_client::error::Result<EntryKey>>,
        make: MakeLoader<'_, V>,
    ) -> Vec<Answer<V>> {
        let mut answers: Vec<Option<Answer<V>>> = Vec::with_capacity(entry_keys.len());
        let now = self.clock.now();
        let entry_keys: Vec<Option<EntryKey>> = entry_keys
            .into_iter()
            .map(|entry_key| match entry_key {
                Ok(entry_key) => {
                    let entry = entry_key.entry();
                    let (hit, older) = self.look_local(entry, Freshness::Cached, now);
                    let rationed = || self.ration(entry, older.as_ref());
                    answers.push(hit.map(Ok).or_else(rationed));
                    Some(entry_key)
                }
                Err(error) => {
                    answers.push(Some(Err(error.into())));
                    None
                }
            })
            .collect();
        if answers.iter().all(Option::is_some) {
            return answers.into_iter().flatten().collect();
        }
        let left = answers.iter().filter(|answer| answer.is_none()).count();
        let span = ReadSpan::batch(&self.metrics, now, left);
        let beyond = self.read_many_beyond(entry_keys, answers, make);
        let answers = beyond.instrument(span.span.clone()).await;
        span.end_batch(&answers, &self.clock);
        answers
    }

    /// Answers what memory could not answer.
    async fn read_many_beyond(
        &self,
        entry_keys: Vec<Option<EntryKey>>,
        mut answers: Vec<Option<Answer<V>>>,
        make: MakeLoader<'_, V>,
    ) -> Vec<Answer<V>> {
        let began = self.coordinator.number();
        let Open { missing, away } = self.look_many(&entry_keys, &mut answers, make).await;
        if !away.is_empty() {
            let load = make(&away);
            let wanted = away
                .into_iter()
                .filter_map(|position| Some((position, entry_keys[position].clone()?)));
            for (position, answer) in
                self.coordinator.load_past(wanted.collect(), began, &load).await
            {
                answers[position] = Some(answer);
            }
        }
        if !missing.is_empty() {
            let positions: Vec<usize> = missing.iter().map(|missing| missing.position).collect();
            let load = make(&positions);
            for (position, answer) in self.coordinator.load_missing(missing, load).await {
                answers[position] = Some(answer);
            }
        }
        self.read_rest(entry_keys, answers, make).await
    }

    /// Fills in what Redis has. Returns what it does not have.
    async fn look_many(
        &self,
        entry_keys: &[Option<EntryKey>],
        answers: &mut [Option<Answer<V>>],
        make: MakeLoader<'_, V>,
    ) -> Open {
        let mut open = Open::default();
        let (waiting, wanted): (Vec<_>, Vec<_>) = (0..entry_keys.len())
            .filter(|position| answers[*position].is_none())
            .filter_map(|at| entry_keys[at].as_ref().map(|entry_key| (at, entry_key)))
            .partition(|(_, entry_key)| self.recovery.concerns(entry_key.entry()));
        open.away.extend(waiting.into_iter().map(|(position, _)| position));
        if wanted.is_empty() {
            return open;
        }
        let tickets: Vec<_> =
            wanted.iter().map(|(_, entry_key)| self.publisher.ticket(entry_key)).collect();
        let asked: Vec<&EntryKey> = wanted.iter().map(|(_, entry_key)| *entry_key).collect();
        let found = self.remote.get_many(&asked).await;
        let now = self.clock.now();
        for (((position, entry_key), ticket), found) in wanted.into_iter().zip(tickets).zip(found) {
            let (raw, stamp) = match found {
                Ok(found) => found,
                Err(error) if error.is_away() => {
                    self.metrics.outages.increment(1);
                    open.away.push(position);
                    continue;
                }
                // Read by itself later, with all that a single read knows to do.
                Err(_) => continue,
            };
            if raw.as_deref().is_some_and(|raw| self.decoder.is_newer(raw)) {
                open.away.push(position);
                continue;
            }
            // Read by itself, too.
            if raw.as_deref().is_some_and(is_in_parts) {
                continue;
            }
            let entry = raw.and_then(|raw| self.decoder.decode(&raw, stamp, entry_key, now));
            let sought = Sought { stamp, replaces: None, stale: None };
            let loader = || LoaderSlot::new(self.one(make, position));
            match judge(entry, sought, None, (Freshness::Cached, now), self.settings.mode) {
                Lookup::Hit(entry) => {
                    self.publisher.keep(entry_key, &entry, ticket);
                    if self.coordinator.tends_hits() {
                        let (of, loader) = (&self.coordinator, loader());
                        of.refresh_if_due(entry_key, &entry, stamp, now, Some(&loader));
                    }
                    self.metrics.remote_hit(entry.value.is_none());
                    answers[position] = Some(Ok(entry.read(Source::Remote, now)));
                }
                Lookup::Stale(entry) => {
                    self.coordinator.refresh(entry_key, stamp, &entry, loader());
                    answers[position] = Some(Ok(self.stale(&entry)));
                }
                _ => {
                    self.metrics.misses.increment(1);
                    let (token, entry_key) = (self.remote.new_token(), entry_key.clone());
                    open.missing.push(Missing { position, stamp, token, entry_key, ticket });
                }
            }
        }
        open
    }

    fn one(&self, make: MakeLoader<'_, V>, position: usize) -> Loader<V> {
        one_of_many(&make(&[position]), position)
    }

    /// Reads by itself what has no answer yet.
    async fn read_rest(
        &self,
        entry_keys: Vec<Option<EntryKey>>,
        answers: Vec<Option<Answer<V>>>,
        make: MakeLoader<'_, V>,
    ) -> Vec<Answer<V>> {
        if answers.iter().all(Option::is_some) {
            return answers.into_iter().flatten().collect();
        }
        let rest = answers.into_iter().zip(entry_keys).enumerate();
        join_all(rest.map(async |(position, (answer, entry_key))| match (answer, entry_key) {
            (Some(answer), _) => answer,
            (None, Some(entry_key)) => {
                let loader = || self.one(make, position);
                self.read_or_load(entry_key, Freshness::Cached, Admission::Had, loader).await
            }
            // Unreachable: a key without an entry has its error as the answer.
            (None, None) => Err(CacheError::ReadTimeout(self.settings.read_timeout)),
        }))
        .await
    }
}
