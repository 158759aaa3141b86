//! Reads many keys at once: one trip to each server, one call of the loader.
//!
//! The steps are those of a single read, each for the whole batch: local tier, entries, leases for what
//! is missing, one load for the leases that were granted, fills. Keys for which Redis is away are
//! loaded past it together. Keys that another caller is loading are then waited for one by one. What
//! fails, fails for its own keys only.

use std::collections::{HashMap, hash_map};

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
    store::{entry::Entry, keys::EntryKey, parted::is_in_parts},
    tier::{local::Ticket, remote_tags::Stamp},
};

/// What looking into Redis leaves to do.
#[derive(Default)]
struct Open {
    /// To be loaded under leases.
    missing: Vec<Missing>,
    /// To be loaded past the cache.
    away: Vec<usize>,
}

/// An entry of a batch as Redis has it.
struct Looked<'a, V> {
    position: usize,
    entry_key: &'a EntryKey,
    ticket: Option<Ticket>,
    stamp: Stamp,
    entry: Option<Entry<V>>,
    /// The version of an entry that no longer counts.
    replaces: Option<u64>,
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
        let mut entry_keys: Vec<Option<EntryKey>> = entry_keys
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
        let repeated = set_aside(&mut entry_keys, &answers);
        let span = ReadSpan::batch(&self.metrics, now, left - repeated.len());
        let beyond = self.read_many_beyond(entry_keys, answers, make);
        let mut answers = beyond.instrument(span.span.clone()).await;
        for (position, first) in repeated {
            answers[position] = answers[first].clone();
        }
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
        let mut looked = Vec::with_capacity(wanted.len());
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
            looked.push(Looked { position, entry_key, ticket, stamp, entry, replaces: None });
        }
        self.drop_cleared(&mut looked, &mut open).await;
        for Looked { position, entry_key, ticket, stamp, entry, replaces } in looked {
            let sought = Sought { stamp, replaces, stale: None };
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
                    let missing = Missing { position, stamp, replaces, token, entry_key, ticket };
                    open.missing.push(missing);
                }
            }
        }
        open
    }

    /// Drops the entries whose values carry a tag that was cleared since they were loaded.
    async fn drop_cleared(&self, looked: &mut Vec<Looked<'_, V>>, open: &mut Open) {
        let is_older = |looked: &Looked<'_, V>| {
            looked.entry.as_ref().is_some_and(|entry| entry.clears != looked.stamp.clears)
        };
        let older: Vec<_> = looked.iter().filter(|looked| is_older(looked)).collect();
        if older.is_empty() {
            return;
        }
        let found: Vec<_> =
            older.iter().filter_map(|of| Some((of.entry.as_ref()?, of.stamp))).collect();
        match self.remote.spares_each(&found).await {
            Ok(spared) => {
                let mut spared = spared.into_iter();
                for looked in looked.iter_mut().filter(|looked| is_older(looked)) {
                    let entry = looked.entry.take_if(|_| spared.next() != Some(true));
                    looked.replaces = entry.map(|entry| entry.version);
                }
            }
            Err(error) => {
                if error.is_away() {
                    self.metrics.outages.increment(older.len() as u64);
                    open.away.extend(older.iter().map(|looked| looked.position));
                }
                // Otherwise they are read by themselves.
                looked.retain(|looked| !is_older(looked));
            }
        }
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
            // A repeated key, whose answer is that of the first. Others without an entry have their
            // error as the answer.
            (None, None) => Err(CacheError::ReadTimeout(self.settings.read_timeout)),
        }))
        .await
    }
}

/// Sets keys aside that are there already and have no answer yet: they would wait for the lease of the
/// first, and load once more if its load fails. Returns their positions, each with that of the first.
fn set_aside<V>(
    entry_keys: &mut [Option<EntryKey>],
    answers: &[Option<Answer<V>>],
) -> Vec<(usize, usize)> {
    let mut firsts = HashMap::with_capacity(entry_keys.len());
    let mut repeated = Vec::new();
    for (position, entry_key) in entry_keys.iter().enumerate() {
        if let (Some(entry_key), None) = (entry_key, &answers[position]) {
            match firsts.entry(entry_key.entry()) {
                hash_map::Entry::Occupied(first) => repeated.push((position, *first.get())),
                hash_map::Entry::Vacant(first) => _ = first.insert(position),
            }
        }
    }
    repeated.iter().for_each(|(position, _)| entry_keys[*position] = None);
    repeated
}
