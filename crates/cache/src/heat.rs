//! What hot keys mean to a cache: see [`crate::hotkey`].
//!
//! Every read is counted. An entry that becomes hot anywhere in the fleet is fetched into this
//! process' memory, under a ticket as every copy there, so an invalidation that comes while it is
//! fetched wins. Below the first level, a hot key's rule may ration what it asks of Redis, and a very
//! hot entry may be read from a copy on another node.
//!
//! Limit: the tags of an entry cannot be told from its key in Redis. Entries of caches with tags are
//! not fetched ahead; they are kept from their first read on.

use std::{
    borrow::Borrow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seawall_client::{error::Result, key::KeyBuffer};

use super::{
    Cache, CacheError, CacheKey, CacheValue, Freshness, Inner, KeyRef, Read, Source, Subject,
    envelope::{Header, Kind},
    level2::Lease,
    load::new_token,
    parted::is_in_parts,
    read_types::Entry,
};
use crate::hotkey::{
    HotKey, HotKeys, Shelf,
    copies::{COPY, COPY_FOR},
};

/// What a cache knows of hot keys.
pub(super) struct Heat {
    pub(super) keys: HotKeys,
    pub(super) counts: bool,
    pub(super) hot_only: bool,
    /// Whether anything was read past the usual hit in memory since this was last asked.
    pub(super) asked: AtomicBool,
}

impl Heat {
    /// Whether the read that is going on is to be counted; the others count with it.
    #[inline]
    pub(super) fn wants(&self) -> bool {
        self.counts && self.keys.wants_sample()
    }

    /// Counts a read.
    pub(super) fn count(&self, entry: &[u8]) {
        self.asked.store(true, Ordering::Relaxed);
        if self.wants() {
            self.keys.sample(entry);
        }
    }

    /// Whether the first level may keep this entry.
    pub(super) fn admits(&self, entry: &[u8]) -> bool {
        !self.hot_only || self.keys.is_hot(entry)
    }
}

impl<K: CacheKey, V: CacheValue> Cache<K, V> {
    /// Declares a key hot for this long from now, whatever the counts say: every process fetches its
    /// entry and keeps it. To be called again when it is to last longer.
    ///
    /// # Errors
    /// As [`HotKeys::declare`].
    pub async fn declare_hot<Q>(&self, key: &Q, lasting: Duration) -> Result<()>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let subject = self.inner.subject(key)?;
        self.inner.heat.keys.declare(subject.entry(), lasting).await
    }

    /// Takes that back; whether it was declared hot.
    ///
    /// # Errors
    /// As [`HotKeys::undeclare`].
    pub async fn undeclare_hot<Q>(&self, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: KeyRef<K> + ?Sized,
    {
        let subject = self.inner.subject(key)?;
        self.inner.heat.keys.undeclare(subject.entry()).await
    }
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// An answer without Redis, when a hot key has had its share: the older copy, or a refusal.
    pub(super) fn ration(
        &self,
        entry: &[u8],
        older: Option<&Entry<V>>,
    ) -> Option<Result<Read<V>, CacheError>> {
        let retry_after = self.heat.keys.get(entry)?.admit().err()?;
        Some(match older {
            Some(older) => {
                self.metrics.stale_hits.increment(1);
                Ok(older.read(Source::Stale, self.clock.now()))
            }
            None => {
                self.metrics.sheds.increment(1);
                Err(CacheError::Shed { retry_after })
            }
        })
    }

    /// A very hot entry from one of its copies. `None` sends the reader to the entry itself.
    pub(super) async fn look_copy(
        self: &Arc<Self>,
        subject: &Subject,
        freshness: Freshness,
    ) -> Option<(Entry<V>, u64)> {
        let copies = self.level2.copies.as_ref()?;
        let from_copies =
            matches!(freshness, Freshness::Cached | Freshness::StaleOk | Freshness::Within(_));
        if !from_copies || !self.heat.keys.get(subject.entry())?.is_spread() {
            return None;
        }
        // The entry itself is one of those that take turns.
        let number = (rand::random::<u32>() as usize % (copies.count() + 1)).checked_sub(1)?;
        let name = copies.name(subject.entry(), number);
        let (raw, stamp) = self.level2.get(&name, &subject.generations).await.ok()?;
        let now = self.clock.now();
        let entry = raw.and_then(|raw| self.decode(&raw, stamp, subject, now));
        if let Some(entry) = entry
            && now < entry.fresh_until
            && entry.suits(freshness, now)
        {
            return Some((entry, stamp));
        }
        let (_, pilot) = self.refreshes.join(&name);
        if let Some(pilot) = pilot {
            let (this, subject) = (Arc::clone(self), subject.clone());
            self.handle.spawn(async move {
                // The pilot keeps others from making the same copy meanwhile.
                if let Err(error) = this.copy(&subject, pilot.key(), stamp).await {
                    tracing::debug!(%error, "a hot entry could not be copied");
                }
            });
        }
        None
    }

    /// Makes a copy. The lease comes before the entry is read: see [`crate::hotkey::copies`].
    async fn copy(&self, subject: &Subject, name: &[u8], stamp: u64) -> Result<()> {
        let token = new_token();
        let Lease::Granted = self.level2.lease(name, token, &[], stamp, None).await? else {
            return Ok(());
        };
        let Some((entry, left)) = self.copyable(subject).await? else {
            // Nobody is to wait for a copy that does not come.
            return self.level2.release(name, token).await;
        };
        let call = COPY.on(&[name]).arg(&token.to_be_bytes()[..]).arg(entry);
        let call = call.arg(left.as_millis() as u64);
        self.level2.guarded(name, self.level2.link.run(&call)).await.map(drop)
    }

    /// The entry as its copies have it, and how long they live; `None` when it is not fresh.
    async fn copyable(&self, subject: &Subject) -> Result<Option<(Vec<u8>, Duration)>> {
        let (raw, _) = self.level2.get(subject.entry(), &subject.generations).await?;
        // A value in parts lies on several nodes as it is.
        let Some(raw) = raw.filter(|raw| !is_in_parts(raw)) else { return Ok(None) };
        let fresh_until = match Header::read(&raw) {
            Some((header, _)) if header.kind != Kind::Vacant && !header.invalidated => {
                header.fresh_until
            }
            _ => return Ok(None),
        };
        // Flags, lease and the source's version are the entry's own business.
        let mut raw = raw.to_vec();
        for range in [4..8, 16..32, 64..72] {
            raw[range].fill(0);
        }
        let now = self.level2.link.server_millis_of(subject.entry(), self.clock.now());
        let now = u64::try_from(now).unwrap_or(0);
        let left = Duration::from_millis(fresh_until.saturating_sub(now)).min(COPY_FOR);
        Ok((!left.is_zero()).then_some((raw, left)))
    }

    async fn fetch(self: &Arc<Self>, hot: &HotKey) {
        let Some(level1) = &self.level1 else { return };
        let entry = hot.bytes.as_slice();
        let now = self.clock.now();
        let current = level1.peek(entry).is_some_and(|copy| {
            copy.version >= hot.version && copy.version > 0 && now < copy.fresh_until
        });
        if current || self.settings.tags.is_some() || self.repairs.concerns(entry) {
            return;
        }
        let mut subject =
            Subject { entry: KeyBuffer::starting_with(entry), generations: Vec::new(), tags: None };
        if self.settings.clearable {
            subject.generations.push(self.level2.names.generation().to_vec());
            subject.tags = Some(Arc::new([]));
        }
        let looked = self.look_level2(&subject, Freshness::Cached).await;
        let Ok((Some(found), _)) = looked.found else { return };
        if looked.at < found.fresh_until && !found.invalidated {
            self.keep(&subject, &found, looked.ticket);
        }
    }
}

impl<K: CacheKey, V: CacheValue> Shelf for Inner<K, V> {
    fn version(&self, entry: &[u8]) -> u64 {
        let copy = self.level1.as_ref().and_then(|level1| level1.peek(entry));
        let now = self.clock.now();
        copy.filter(|copy| now < copy.fresh_until).map_or(0, |copy| copy.version)
    }

    fn warm(self: Arc<Self>, entries: Vec<HotKey>) {
        let this = Arc::clone(&self);
        self.handle.spawn(async move {
            for hot in &entries {
                this.fetch(hot).await;
            }
        });
    }

    fn was_read(&self) -> bool {
        self.heat.asked.swap(false, Ordering::Relaxed)
    }

    fn cool(&self, entry: &[u8]) {
        if let (Some(level1), true) = (&self.level1, self.heat.hot_only) {
            level1.invalidate(entry);
        }
    }
}
