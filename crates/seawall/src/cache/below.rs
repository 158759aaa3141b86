//! Below the first level: what Redis has, and who loads what it has not.
//!
//! A reader looks, and where there is nothing fresh it joins the load of its entry, or makes it happen.
//! What it waited for may turn out to be too old for it: then it looks again, a bounded number of times.
//! Without Redis the source answers, behind its governor.

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    CacheError, Freshness, Inner, Loaded, Mode, Read, Source, Subject, WhenBusy,
    flight::{Fault, Flight, Landing},
    load::{LoaderSlot, Purpose},
    read::Looked,
    read_types::Entry,
};
use crate::{clock::Moment, error::Error, key::KeyPart};

/// How often a reader looks again because what it waited for was not for it.
const MAX_LOOKS: u32 = 16;

impl<K, V> Inner<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// Everything below the first level. `None` only without a loader.
    pub(super) async fn read_below(
        this: &Arc<Self>,
        subject: Subject,
        freshness: Freshness,
        mut older: Option<Entry<V>>,
        first: Looked<V>,
        loader: Option<LoaderSlot<V>>,
    ) -> Result<Option<Read<V>>, CacheError> {
        let deadline = this.clock.now() + this.settings.deadline;
        let mut first = Some(first);
        for _ in 0..MAX_LOOKS {
            // What is in Redis under a key whose invalidation it did not take is not to be trusted.
            if this.repairs.concerns(subject.entry()) {
                return this.without_redis(&subject, freshness, None, loader, deadline).await;
            }
            let Looked { began, ticket, at: now, found, lost } = match first.take() {
                Some(looked) => looked,
                None => this.look_level2(&subject, freshness).await,
            };
            let (found, stamp) = match found {
                Ok(found) => found,
                Err(error) if error.is_outage() => {
                    this.metrics.outages.increment(1);
                    let answer =
                        this.without_redis(&subject, freshness, older, loader, deadline).await;
                    return answer.and_then(|read| read.map(Some).ok_or(CacheError::Redis(error)));
                }
                // Not a string, or not for us: the key is somebody else's.
                Err(Error::Refused { .. } | Error::Unexpected(_)) => {
                    this.metrics.unreadable.increment(1);
                    return this.load_alone(&subject, loader).await;
                }
                Err(error) => return Err(error.into()),
            };
            let mut replaces = lost;
            if let Some(entry) = found {
                let fresh = now < entry.fresh_until && !entry.invalidated;
                if fresh && entry.suits(freshness, now) {
                    this.keep(&subject, &entry, ticket);
                    this.tend(&subject, &entry, stamp, now, loader.as_ref());
                    return Ok(Some(this.hit(&entry, now)));
                }
                let suits = entry.suits(freshness, now);
                if suits && !entry.invalidated && this.settings.mode != Mode::Mutex {
                    if let Some(loader) = loader {
                        this.refresh(&subject, stamp, entry.version, loader);
                    }
                    this.metrics.stale_hits.increment(1);
                    return Ok(Some(entry.read(Source::Stale, now)));
                }
                if fresh {
                    // Fresh, but not new enough for this reader: it is to be replaced.
                    replaces = Some(entry.version);
                }
                older = if suits { Some(entry) } else { older };
            }
            this.metrics.misses.increment(1);
            let Some(slot) = &loader else {
                return Ok(older.map(|entry| entry.read(Source::Stale, now)));
            };
            let landing =
                this.load(&subject, stamp, replaces, slot, older.as_ref(), deadline).await;
            let answer = match landing {
                Waited::Landed(landing) if landing.covers > began => landing.result,
                // Not for us: it began before we did. Look again.
                Waited::Landed(_) => continue,
                Waited::Instead(entry) => {
                    this.metrics.stale_hits.increment(1);
                    return Ok(Some(entry.read(Source::Stale, this.clock.now())));
                }
                Waited::Busy => return Err(CacheError::Busy),
                Waited::Alone => return this.load_alone(&subject, loader).await,
                Waited::TooLong => Err(Fault::Error(CacheError::Deadline(this.settings.deadline))),
            };
            match answer {
                Ok(entry) if entry.version == 0 || entry.suits(freshness, this.clock.now()) => {
                    return Ok(Some(entry.read(Source::Loaded, this.clock.now())));
                }
                Ok(_) | Err(Fault::Changed) => {}
                Err(Fault::Outage) => {
                    this.metrics.outages.increment(1);
                    return this.without_redis(&subject, freshness, older, loader, deadline).await;
                }
                Err(Fault::Error(error)) => return this.stand_in(older, error).map(Some),
            }
        }
        // Invalidations keep coming faster than loads end. A load of one's own that began after this
        // read did is right by itself, and costs the source no more than the reader would have.
        this.load_alone(&subject, loader).await
    }

    /// Joins the load of this key, or makes it happen, and waits for it as the settings say.
    async fn load(
        self: &Arc<Self>,
        subject: &Subject,
        stamp: u64,
        replaces: Option<u64>,
        loader: &LoaderSlot<V>,
        older: Option<&Entry<V>>,
        deadline: Moment,
    ) -> Waited<V> {
        let (flight, pilot) = self.flights.join(&flight_key(subject, stamp));
        let leads = pilot.is_some();
        if let Some(pilot) = pilot {
            let purpose = Purpose::Answer(replaces);
            self.seawall.spawn(Arc::clone(self).fly(
                pilot,
                subject.clone(),
                stamp,
                purpose,
                loader.clone(),
            ));
        }
        self.wait(&flight, leads, older, deadline).await
    }

    async fn wait(
        &self,
        flight: &Flight<V>,
        leads: bool,
        older: Option<&Entry<V>>,
        deadline: Moment,
    ) -> Waited<V> {
        let patient = older.is_none() && self.settings.when_busy == WhenBusy::Wait;
        if !patient {
            let budget = self.settings.wait_budget.min(deadline.since(self.clock.now()));
            if let Some(landing) = self.clock.timeout(budget, flight.landed()).await {
                return Waited::Landed(landing);
            }
            let loads_itself = leads && flight.is_loading();
            match (older, self.settings.when_busy) {
                (Some(older), _) => return Waited::Instead(older.clone()),
                (None, WhenBusy::Refuse) if !loads_itself => return Waited::Busy,
                (None, WhenBusy::Load) if !loads_itself => return Waited::Alone,
                _ => {}
            }
        }
        let left = deadline.since(self.clock.now());
        match self.clock.timeout(left, flight.landed()).await {
            Some(landing) => Waited::Landed(landing),
            None => Waited::TooLong,
        }
    }

    /// One load of one's own, not stored.
    async fn load_alone(
        self: &Arc<Self>,
        subject: &Subject,
        loader: Option<LoaderSlot<V>>,
    ) -> Result<Option<Read<V>>, CacheError> {
        let Some(loader) = loader else { return Err(CacheError::Deadline(self.settings.deadline)) };
        let value = match self.call(&loader).await?.loaded {
            Loaded::Found(value) | Loaded::FoundFor(value, _) | Loaded::DontCache(value) => {
                Some(Arc::new(value))
            }
            Loaded::Missing => None,
            Loaded::NotModified => return Err(super::load::not_modified()),
        };
        let now = self.clock.now();
        Ok(Some(Entry::uncached(value, now, &subject.tags).read(Source::Loaded, now)))
    }

    /// Redis is away: a copy that may stand in, else the source behind its governor.
    async fn without_redis(
        self: &Arc<Self>,
        subject: &Subject,
        freshness: Freshness,
        older: Option<Entry<V>>,
        loader: Option<LoaderSlot<V>>,
        deadline: Moment,
    ) -> Result<Option<Read<V>>, CacheError> {
        let now = self.clock.now();
        if let Some(older) = older
            && older.suits(freshness, now)
        {
            self.metrics.stale_hits.increment(1);
            return Ok(Some(older.read(Source::Stale, now)));
        }
        for _ in 0..MAX_LOOKS {
            let Some(slot) = &loader else { return Ok(None) };
            let began = self.flights.next();
            let (flight, pilot) = self.flights.join(subject.entry());
            if let Some(pilot) = pilot {
                self.seawall.spawn(Arc::clone(self).fly_alone(
                    pilot,
                    subject.clone(),
                    slot.clone(),
                ));
            }
            let left = deadline.since(self.clock.now());
            match self.clock.timeout(left, flight.landed()).await {
                None => return Err(CacheError::Deadline(self.settings.deadline)),
                Some(Landing { covers, .. }) if covers <= began => {}
                Some(Landing { result: Ok(entry), .. }) => {
                    return Ok(Some(entry.read(Source::Loaded, self.clock.now())));
                }
                Some(Landing { result: Err(Fault::Error(error)), .. }) => return Err(error),
                Some(Landing { result: Err(Fault::Outage | Fault::Changed), .. }) => {}
            }
        }
        self.load_alone(subject, loader).await
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
pub(super) fn flight_key(subject: &Subject, stamp: u64) -> Cow<'_, [u8]> {
    if subject.generations.is_empty() {
        return Cow::Borrowed(subject.entry());
    }
    Cow::Owned([subject.entry(), &stamp.to_be_bytes()].concat())
}

/// What came of waiting for a load.
enum Waited<V> {
    Landed(Landing<V>),
    /// An older value, because it took too long.
    Instead(Entry<V>),
    Busy,
    /// The reader is to load by itself.
    Alone,
    TooLong,
}
