//! Below the first level: what Redis has, and who loads what it has not.
//!
//! A reader looks, and where there is nothing fresh it joins the load of its entry, or makes it happen.
//! What it waited for may turn out to be too old for it: then it looks again, a bounded number of times.
//! Without Redis the source answers (`past`).

use std::{borrow::Cow, sync::Arc};

use seawall_client::error::Error;
use seawall_resilience::clock::Moment;

use crate::{
    CacheError, CacheKey, CacheValue, EntryKey, Freshness, Inner, Mode, Read, Source, WhenBusy,
    load::coordinator::{LoaderSlot, Order, Purpose},
    load::single_flight::{Fault, Flight, Landing},
    read::reader::Looked,
    store::entry::Stale,
    types::Entry,
};

/// How often a reader looks again because what it waited for was not for it.
const MAX_LOOKS: u32 = 16;

/// A reader below the first level.
pub(crate) struct Reader<V> {
    pub(crate) entry_key: EntryKey,
    pub(crate) freshness: Freshness,
    /// What the first level has, if it may stand in.
    pub(crate) older: Option<Entry<V>>,
    pub(crate) loader: Option<LoaderSlot<V>>,
    pub(crate) deadline: Moment,
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// Everything below the first level. `None` only without a loader.
    pub(crate) async fn load_or_wait(
        this: &Arc<Self>,
        mut reader: Reader<V>,
        first: Looked<V>,
    ) -> Result<Option<Read<V>>, CacheError> {
        // One number for the whole read: whatever begins after its first look is new enough for it.
        let began = first.began;
        let mut first = Some(first);
        for _ in 0..MAX_LOOKS {
            let looked = match first.take() {
                Some(looked) => looked,
                None => this.look_remote(&reader.entry_key, reader.freshness).await,
            };
            let sought = match this.judge(&mut reader, looked) {
                Judged::Answer(read) => return Ok(read),
                Judged::Failed(error) => return Err(error),
                Judged::Past(error) => return this.past_or(reader, began, error).await,
                Judged::Load(sought) => sought,
            };
            this.metrics.misses.increment(1);
            let Some(loader) = reader.loader.clone() else {
                let now = this.clock.now();
                return Ok(reader.older.map(|entry| entry.read(Source::Stale, now)));
            };
            let landing = match this.load(&reader, sought, &loader).await {
                Waited::Landed(landing) if landing.covers > began => landing,
                // Not for us: it began before we did. Look again.
                Waited::Landed(_) => continue,
                Waited::Instead(entry) => {
                    this.metrics.stale_hits.increment(1);
                    return Ok(Some(entry.read(Source::Stale, this.clock.now())));
                }
                Waited::Busy => return Err(CacheError::Busy),
                Waited::Alone(own) => {
                    reader.loader = Some(own);
                    return this.past_or(reader, began, None).await;
                }
                Waited::TooLong => {
                    let error = CacheError::ReadTimeout(this.settings.read_timeout);
                    return this.stand_in(reader.older, error).map(Some);
                }
            };
            let now = this.clock.now();
            match landing.result {
                // What the source said after this read began answers it, however short it lives and
                // whatever its version.
                Ok(entry) if landing.loaded => {
                    return Ok(Some(entry.read(Source::Loaded, now)));
                }
                // It was stored while this read was on its way to the lease.
                Ok(entry) if entry.is_current(reader.freshness, now) => {
                    return Ok(Some(entry.read(Source::Remote, now)));
                }
                Ok(_) | Err(Fault::Changed) => {}
                Err(Fault::Outage) => {
                    this.metrics.outages.increment(1);
                    return this.past_or(reader, began, None).await;
                }
                Err(Fault::Error(error)) => return this.stand_in(reader.older, error).map(Some),
            }
        }
        // Invalidations keep coming faster than loads end. A load that began after this read did is
        // right by itself.
        reader.older = None;
        this.past_or(reader, began, None).await
    }

    /// What a look into Redis means for this reader.
    fn judge(self: &Arc<Self>, reader: &mut Reader<V>, looked: Looked<V>) -> Judged<V> {
        let Looked { ticket, at: now, found, lost, past, .. } = looked;
        if past {
            reader.older = None;
            return Judged::Past(None);
        }
        let (found, stamp) = match found {
            Ok(found) => found,
            Err(error) if error.is_away() => {
                self.metrics.outages.increment(1);
                return Judged::Past(Some(error));
            }
            // Not a string, or not for us: the key is somebody else's.
            Err(error @ (Error::Refused { .. } | Error::Unexpected(_))) => {
                self.metrics.unreadable.increment(1);
                reader.older = None;
                return Judged::Past(Some(error));
            }
            Err(error) => return Judged::Failed(error.into()),
        };
        let Reader { entry_key, freshness, older, loader, .. } = reader;
        let mut sought = Sought { stamp, replaces: lost, stale: None };
        if let Some(entry) = found {
            let fresh = now < entry.fresh_until && !entry.invalidated;
            let suits = entry.suits(*freshness, now);
            if fresh && suits {
                self.keep(entry_key, &entry, ticket);
                self.refresh_if_due(entry_key, &entry, stamp, now, loader.as_ref());
                return Judged::Answer(Some(self.hit(&entry, now)));
            }
            if suits && !entry.invalidated && self.settings.mode != Mode::Mutex {
                if let Some(loader) = loader.take() {
                    self.refresh(entry_key, stamp, &entry, loader);
                }
                self.metrics.stale_hits.increment(1);
                return Judged::Answer(Some(entry.read(Source::Stale, now)));
            }
            if fresh {
                // Fresh, but not new enough for this reader: it is to be replaced.
                sought.replaces = Some(entry.version);
            }
            sought.stale = Some(Stale { entry: entry.clone(), stored: !entry.invalidated });
            *older = if suits { Some(entry) } else { older.take() };
        } else {
            let kept = older.as_ref().map(|entry| Stale { entry: entry.clone(), stored: false });
            sought.stale = kept;
        }
        Judged::Load(sought)
    }

    /// Past the cache: a copy that may stand in, else the source. Without a loader the error.
    async fn past_or(
        self: &Arc<Self>,
        reader: Reader<V>,
        began: u64,
        error: Option<Error>,
    ) -> Result<Option<Read<V>>, CacheError> {
        let Reader { entry_key, freshness, older, loader, deadline } = reader;
        let now = self.clock.now();
        if let Some(older) = older.filter(|older| older.suits(freshness, now)) {
            self.metrics.stale_hits.increment(1);
            return Ok(Some(older.read(Source::Stale, now)));
        }
        match (loader, error) {
            (Some(loader), _) => {
                self.read_past(&entry_key, freshness, began, &loader, deadline).await.map(Some)
            }
            (None, Some(error)) => Err(error.into()),
            (None, None) => Ok(self.past_copy(entry_key.entry(), freshness)),
        }
    }

    /// Joins the load of this key, or makes it happen, and waits for it as the settings say.
    async fn load(
        self: &Arc<Self>,
        reader: &Reader<V>,
        sought: Sought<V>,
        loader: &LoaderSlot<V>,
    ) -> Waited<V> {
        let Sought { stamp, replaces, stale } = sought;
        let (flight, leader) = self.flights.join(&flight_key(&reader.entry_key, stamp));
        let leads = leader.is_some();
        if let Some(leader) = leader {
            let (entry_key, loader) = (reader.entry_key.clone(), loader.clone());
            let purpose = Purpose::Answer(replaces);
            let order = Order { entry_key, stamp, purpose, stale, loader };
            self.handle.spawn(Arc::clone(self).fly(leader, order));
        }
        self.wait(&flight, leads, reader, loader).await
    }

    async fn wait(
        &self,
        flight: &Flight<V>,
        leads: bool,
        reader: &Reader<V>,
        loader: &LoaderSlot<V>,
    ) -> Waited<V> {
        let Reader { older, deadline, .. } = reader;
        let patient = older.is_none() && self.settings.when_busy == WhenBusy::Wait;
        if !patient {
            let budget = self.settings.wait_budget.min(deadline.since(self.clock.now()));
            if let Some(landing) = self.clock.timeout(budget, flight.landed()).await {
                return Waited::Landed(landing);
            }
            // Who leads loads, or is about to, unless another process holds the lease.
            let loads_itself = loader.is_spent() || leads && !flight.is_elsewhere();
            match (older, self.settings.when_busy) {
                (Some(older), _) => return Waited::Instead(older.clone()),
                (None, WhenBusy::Refuse) if !loads_itself => return Waited::Busy,
                // Taken here, so that the load through Redis, which may be granted its lease at this
                // very moment, does not take it first: nobody would be left to load.
                (None, WhenBusy::Load) if !loads_itself => {
                    if let Some(own) = loader.take() {
                        return Waited::Alone(LoaderSlot::new(own));
                    }
                }
                _ => {}
            }
        }
        let left = deadline.since(self.clock.now());
        match self.clock.timeout(left, flight.landed()).await {
            Some(landing) => Waited::Landed(landing),
            None => Waited::TooLong,
        }
    }

    /// Loading failed: a value past its lifetime may stand in.
    fn stand_in(&self, older: Option<Entry<V>>, error: CacheError) -> Result<Read<V>, CacheError> {
        match older {
            Some(entry) => {
                self.metrics.stale_hits.increment(1);
                tracing::debug!(%error, "an older value stands in");
                Ok(entry.read(Source::Stale, self.clock.now()))
            }
            None => Err(error),
        }
    }
}

/// Who shares a load: those who want the same entry and saw the same generations. A load that began
/// under an older generation must not answer those who came after a clear.
pub(crate) fn flight_key(entry_key: &EntryKey, stamp: u64) -> Cow<'_, [u8]> {
    if entry_key.generations.is_empty() {
        return Cow::Borrowed(entry_key.entry());
    }
    Cow::Owned([entry_key.entry(), &stamp.to_be_bytes()].concat())
}

/// What a look into Redis means.
enum Judged<V> {
    Answer(Option<Read<V>>),
    Failed(CacheError),
    /// Redis is not to be asked; without a loader this is the answer.
    Past(Option<Error>),
    Load(Sought<V>),
}

/// What is to be loaded.
struct Sought<V> {
    stamp: u64,
    /// A fresh entry that is to be replaced all the same.
    replaces: Option<u64>,
    stale: Option<Stale<V>>,
}

/// What came of waiting for a load.
enum Waited<V> {
    Landed(Landing<V>),
    /// An older value, because it took too long.
    Instead(Entry<V>),
    Busy,
    /// The reader is to load by itself.
    Alone(LoaderSlot<V>),
    TooLong,
}
