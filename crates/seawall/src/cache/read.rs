//! The read path: first level, second level, load.

use std::{borrow::Cow, error::Error as StdError, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Cache, CacheError, Freshness, Inner, Loaded, Mode, Read, Source, Subject, WhenBusy,
    envelope::{Header, Kind},
    flight::{Fault, Flight, Landing},
    level1::Ticket,
    load::{LoaderSlot, Purpose, moment},
    parted::{Whole, is_in_parts},
    read_types::Entry,
};
use crate::{
    clock::Moment,
    error::Error,
    key::{KeyBuffer, KeyPart},
};

/// How often a reader looks again because what it waited for was not for it.
const MAX_LOOKS: u32 = 16;

impl<K, V> Cache<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The value, from the first level that has it; loaded when none has.
    ///
    /// However many callers in however many processes ask for an absent key at once, the loader of
    /// exactly one of them runs.
    ///
    /// # Errors
    /// [`CacheError`], when there is no value and nothing older that may stand in for it.
    ///
    /// # Cancel safety
    /// A load that began goes on and is stored; others who wait for it are not affected.
    pub async fn get_or_load<F, Fut, E>(&self, key: &K, load: F) -> Result<Read<V>, CacheError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_level1(key, Freshness::Cached) {
            return Ok(read);
        }
        self.get_below(Freshness::Cached, key, load).await
    }

    /// The same for a reader with wishes of its own.
    ///
    /// # Errors
    /// As [`Cache::get_or_load`].
    pub async fn get_or_load_as<F, Fut, E>(
        &self,
        freshness: Freshness,
        key: &K,
        load: F,
    ) -> Result<Read<V>, CacheError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        if let Some(read) = self.inner.hit_level1(key, freshness) {
            return Ok(read);
        }
        self.get_below(freshness, key, load).await
    }

    /// Everything that is not a fresh copy in memory; boxed, so that such a hit does not carry what
    /// only the others need.
    fn get_below<'a, F, Fut, E>(
        &'a self,
        freshness: Freshness,
        key: &'a K,
        load: F,
    ) -> BoxFuture<'a, Result<Read<V>, CacheError>>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<Loaded<V>, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let inner = &self.inner;
        Box::pin(async move {
            let subject = inner.subject(key)?;
            let (hit, older) = inner.look_level1(subject.entry(), freshness, inner.clock.now());
            if let Some(read) = hit {
                inner.tap.see(key, &read);
                return Ok(read);
            }
            if let Some(rationed) = inner.ration(subject.entry(), older.as_ref()) {
                return rationed;
            }
            let looked = inner.look_level2(&subject, freshness).await;
            if let Some(read) = inner.plain_hit(&subject, &looked, freshness) {
                inner.tap.see(key, &read);
                return Ok(read);
            }
            let loader = LoaderSlot::new(Box::new(move || {
                load().map(|loaded| loaded.map_err(|error| Arc::from(error.into()))).boxed()
            }));
            let below = Inner::read_below(inner, subject, freshness, older, looked, Some(loader));
            let read = below.boxed().await?;
            read.inspect(|read| inner.tap.see(key, read))
                .ok_or(CacheError::Deadline(inner.settings.deadline))
        })
    }

    /// The value if a level has it; nothing is loaded. `None` means that nobody knows, not that
    /// there is none: that is a [`Read`] without a value.
    ///
    /// # Errors
    /// [`CacheError::Redis`] when Redis failed and the first level has nothing.
    pub async fn get(&self, key: &K) -> Result<Option<Read<V>>, CacheError> {
        self.get_as(Freshness::Cached, key).await
    }

    /// The same for a reader with wishes of its own.
    ///
    /// # Errors
    /// As [`Cache::get`].
    pub async fn get_as(
        &self,
        freshness: Freshness,
        key: &K,
    ) -> Result<Option<Read<V>>, CacheError> {
        let read = self.get_untapped(freshness, key).await?;
        Ok(read.inspect(|read| self.inner.tap.see(key, read)))
    }

    /// The same for the auditor, whose own reads are not to be audited.
    pub(super) async fn get_untapped(
        &self,
        freshness: Freshness,
        key: &K,
    ) -> Result<Option<Read<V>>, CacheError> {
        let inner = &self.inner;
        let subject = inner.subject(key)?;
        let (hit, older) = inner.look_level1(subject.entry(), freshness, inner.clock.now());
        if let Some(read) = hit {
            return Ok(Some(read));
        }
        if let Some(rationed) = inner.ration(subject.entry(), older.as_ref()) {
            return rationed.map(Some);
        }
        let looked = inner.look_level2(&subject, freshness).await;
        Inner::read_below(inner, subject, freshness, older, looked, None).await
    }
}

impl<K, V> Inner<K, V>
where
    K: KeyPart + Clone + Send + Sync + 'static,
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    /// The usual case: a fresh copy in memory. The key's bytes stay where they are written, nothing
    /// is prepared for the other cases, and the clock may be a few milliseconds behind: moving things
    /// around took longer than finding the copy.
    #[inline]
    fn hit_level1(&self, key: &K, freshness: Freshness) -> Option<Read<V>> {
        let level1 = self.level1.as_ref()?;
        // The filter and the repair queue know whole entries.
        if freshness == Freshness::Strong || self.filter.is_some() || !self.repairs.is_empty() {
            return None;
        }
        let mut id = KeyBuffer::default();
        key.write(&mut id);
        let read = level1.fresh(id.as_bytes(), freshness, self.clock.coarse_now())?;
        if self.heat.wants() {
            self.count_read(key);
        }
        self.metrics.level1_hits.count();
        if read.value.is_none() {
            self.metrics.negative_hits.increment(1);
        }
        self.tap.see(key, &read);
        Some(read)
    }

    /// Counts a read of a key whose entry was not needed otherwise.
    #[inline(never)]
    fn count_read(&self, key: &K) {
        if let Ok(entry) = self.level2.names.entry(key) {
            self.heat.keys.sample(entry.as_bytes());
        }
    }

    /// A fresh copy in the first level, or an older one that may stand in when all else fails.
    pub(super) fn look_level1(
        &self,
        key: &[u8],
        freshness: Freshness,
        now: Moment,
    ) -> (Option<Read<V>>, Option<Entry<V>>) {
        self.heat.count(key);
        if let Some(read) = self.filtered(key, freshness, now) {
            return (Some(read), None);
        }
        let Some(level1) = &self.level1 else { return (None, None) };
        if freshness == Freshness::Strong || self.repairs.concerns(key) {
            return (None, None);
        }
        match level1.get(key) {
            Some(entry) if now < entry.fresh_until && entry.suits(freshness, now) => {
                self.metrics.level1_hits.count();
                if entry.value.is_none() {
                    self.metrics.negative_hits.increment(1);
                }
                (Some(entry.read(Source::Level1, now)), None)
            }
            Some(entry) if entry.suits(freshness, now) => (None, Some(entry)),
            _ => (None, None),
        }
    }

    /// What Redis has, and what is needed to use it rightly.
    pub(super) async fn look_level2(
        self: &Arc<Self>,
        subject: &Subject,
        freshness: Freshness,
    ) -> Looked<V> {
        // Both before the command is sent: what comes after it must not be taken for older.
        let began = self.flights.next();
        let ticket = self.level1.as_ref().map(|level1| level1.ticket(subject.entry()));
        if let Some((entry, stamp)) = self.look_copy(subject, freshness).await {
            let at = self.clock.now();
            return Looked { began, ticket, at, found: Ok((Some(entry), stamp)), lost: None };
        }
        let mut found = self.level2.get(subject.entry(), &subject.generations).await;
        let mut lost = None;
        if let Ok((Some(raw), stamp)) = &mut found
            && is_in_parts(raw)
        {
            // Boxed, so that other reads do not carry what only these need.
            let (raw, stamp) = (std::mem::take(raw), *stamp);
            found = match Box::pin(self.gather(subject, raw)).await {
                Ok(Whole::Entry(raw)) => Ok((raw, stamp)),
                Ok(Whole::Lost(version)) => {
                    lost = Some(version);
                    Ok((None, stamp))
                }
                Err(error) => Err(error),
            };
        }
        let at = self.clock.now();
        let found = found
            .map(|(raw, stamp)| (raw.and_then(|raw| self.decode(&raw, stamp, subject, at)), stamp));
        Looked { began, ticket, at, found, lost }
    }

    /// The usual case, without any preparation for the others: a fresh entry that wants no tending.
    fn plain_hit(
        &self,
        subject: &Subject,
        looked: &Looked<V>,
        freshness: Freshness,
    ) -> Option<Read<V>> {
        let Ok((Some(entry), _)) = &looked.found else { return None };
        let now = looked.at;
        let fresh = now < entry.fresh_until && !entry.invalidated && entry.suits(freshness, now);
        if !fresh || self.is_tended() || self.repairs.concerns(subject.entry()) {
            return None;
        }
        self.keep(subject, entry, looked.ticket);
        Some(self.hit(entry, now))
    }

    /// Keeps a copy in the first level.
    pub(super) fn keep(&self, subject: &Subject, entry: &Entry<V>, ticket: Option<Ticket>) {
        if let (Some(level1), Some(ticket)) = (&self.level1, ticket)
            && self.heat.admits(subject.entry())
        {
            level1.insert(subject.entry(), self.for_level1(entry), ticket);
        }
    }

    /// Everything below the first level. `None` only without a loader.
    async fn read_below(
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

    pub(super) fn hit(&self, entry: &Entry<V>, now: Moment) -> Read<V> {
        self.metrics.level2_hits.count();
        if entry.value.is_none() {
            self.metrics.negative_hits.increment(1);
        }
        entry.read(Source::Level2, now)
    }

    /// Whether fresh entries that are read want looking after.
    pub(super) fn is_tended(&self) -> bool {
        self.settings.sliding || self.settings.early_refresh.is_some()
    }

    /// Looks after a fresh entry that was read: it may slide, or be refreshed early.
    pub(super) fn tend(
        self: &Arc<Self>,
        subject: &Subject,
        entry: &Entry<V>,
        stamp: u64,
        now: Moment,
        loader: Option<&LoaderSlot<V>>,
    ) {
        let left = entry.fresh_until.since(now);
        if self.settings.sliding && entry.value.is_some() && left < self.settings.fresh_for / 2 {
            let (_, pilot) = self.refreshes.join(subject.entry());
            if let Some(pilot) = pilot {
                let (level2, version) = (Arc::clone(&self.level2), entry.version);
                let fresh_for = self.vary(self.settings.fresh_for);
                let parted = self.may_be_in_parts(entry.bytes).then(|| Arc::clone(self));
                self.seawall.spawn(async move {
                    if let Some(this) = parted {
                        this.prolong_parts(pilot.key(), fresh_for).await;
                    }
                    // The pilot keeps others from sliding the same entry meanwhile.
                    if let Err(error) = level2.slide(pilot.key(), version, fresh_for).await {
                        tracing::debug!(%error, "an entry could not slide");
                    }
                });
            }
        } else if let Some(factor) = self.settings.early_refresh {
            // The longer a load takes and the closer the end, the more likely.
            let lead =
                entry.cost.mul_f64(factor * (-f64::ln(1.0 - rand::random::<f64>())).max(1e-9));
            if lead >= left
                && let Some(loader) = loader
            {
                self.refresh(subject, stamp, entry.version, loader.clone());
            }
        }
    }

    /// Replaces an entry in the background, unless that is already under way anywhere.
    pub(super) fn refresh(
        self: &Arc<Self>,
        subject: &Subject,
        stamp: u64,
        version: u64,
        loader: LoaderSlot<V>,
    ) {
        let (_, pilot) = self.refreshes.join(subject.entry());
        if let Some(pilot) = pilot {
            let refreshed = Arc::clone(self).fly(
                pilot,
                subject.clone(),
                stamp,
                Purpose::Refresh(version),
                loader,
            );
            self.seawall.spawn(refreshed);
        }
    }

    /// What an entry in Redis means to us; `None` when it holds nothing that we can read.
    pub(super) fn decode(
        &self,
        raw: &[u8],
        stamp: u64,
        subject: &Subject,
        now: Moment,
    ) -> Option<Entry<V>> {
        let Some((header, bytes)) = Header::read(raw) else {
            self.metrics.unreadable.increment(1);
            return None;
        };
        if header.kind == Kind::Vacant || header.stamp != stamp {
            return None;
        }
        let value = if header.kind == Kind::Value {
            let readable = header.fingerprint == self.format.fingerprint;
            let value = readable.then(|| self.format.decode(header.codec, bytes)).flatten();
            if value.is_none() {
                self.metrics.unreadable.increment(1);
                return None;
            }
            value.map(Arc::new)
        } else {
            None
        };
        let server = self.level2.link.server_millis_at(now);
        Some(Entry {
            value,
            version: header.version,
            fresh_until: moment(header.fresh_until, now, server),
            stale_until: moment(header.stale_until, now, server),
            written: moment(header.version / 1000, now, server),
            cost: Duration::from_micros(u64::from(header.cost_micros)),
            bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
            invalidated: header.invalidated,
            tags: subject.tags.clone(),
        })
    }
}

/// What a look into Redis found.
pub(super) struct Looked<V> {
    /// The reader's number: loads with a later one are new enough for it.
    began: u64,
    pub(super) ticket: Option<Ticket>,
    /// When the answer came.
    pub(super) at: Moment,
    pub(super) found: Result<(Option<Entry<V>>, u64), Error>,
    /// The version of an entry whose parts are gone.
    lost: Option<u64>,
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
