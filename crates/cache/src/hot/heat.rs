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

use crate::hotkey::{
    HotKey, HotKeySink, HotKeys,
    copies::{COPY, COPY_FOR},
};
use crate::{
    Cache, CacheError, CacheKey, CacheValue, EntryKey, Freshness, Inner, KeyRef, Read, Source,
    load::coordinator::new_token,
    store::envelope::{Header, Kind},
    store::parted::is_in_parts,
    tier::remote::Lease,
    types::Entry,
};

/// What a cache knows of hot keys.
pub(crate) struct Heat {
    pub(crate) keys: HotKeys,
    pub(crate) counts: bool,
    pub(crate) hot_only: bool,
    /// Whether anything was read past the usual hit in memory since this was last asked.
    pub(crate) asked: AtomicBool,
}

impl Heat {
    /// Whether the read that is going on is to be counted; the others count with it.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        self.counts && self.keys.wants_sample()
    }

    /// Counts a read.
    pub(crate) fn count(&self, entry: &[u8]) {
        self.asked.store(true, Ordering::Relaxed);
        if self.wants() {
            self.keys.sample(entry);
        }
    }

    /// Whether the first level may keep this entry.
    pub(crate) fn admits(&self, entry: &[u8]) -> bool {
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
        let entry_key = self.inner.entry_key(key)?;
        self.inner.heat.keys.declare(entry_key.entry(), lasting).await
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
        let entry_key = self.inner.entry_key(key)?;
        self.inner.heat.keys.undeclare(entry_key.entry()).await
    }
}

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// An answer without Redis, when a hot key has had its share: the older copy, or a refusal.
    pub(crate) fn ration(
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
    pub(crate) async fn look_copy(
        self: &Arc<Self>,
        entry_key: &EntryKey,
        freshness: Freshness,
    ) -> Option<(Entry<V>, u64)> {
        let copies = self.remote.copies.as_ref()?;
        let from_copies =
            matches!(freshness, Freshness::Cached | Freshness::StaleOk | Freshness::Within(_));
        if !from_copies || !self.heat.keys.get(entry_key.entry())?.is_spread() {
            return None;
        }
        // The entry itself is one of those that take turns.
        let number = (rand::random::<u32>() as usize % (copies.count() + 1)).checked_sub(1)?;
        let name = copies.name(entry_key.entry(), number);
        let (raw, stamp) = self.remote.get(&name, &entry_key.generations).await.ok()?;
        let now = self.clock.now();
        let entry = raw.and_then(|raw| self.decode(&raw, stamp, entry_key, now));
        if let Some(entry) = entry
            && now < entry.fresh_until
            && entry.suits(freshness, now)
        {
            return Some((entry, stamp));
        }
        let (_, leader) = self.refreshes.join(&name);
        if let Some(leader) = leader {
            let (this, entry_key) = (Arc::clone(self), entry_key.clone());
            self.handle.spawn(async move {
                // The leader keeps others from making the same copy meanwhile.
                if let Err(error) = this.copy(&entry_key, leader.key(), stamp).await {
                    tracing::debug!(%error, "a hot entry could not be copied");
                }
            });
        }
        None
    }

    /// Makes a copy. The lease comes before the entry is read: see [`crate::hotkey::copies`].
    async fn copy(&self, entry_key: &EntryKey, name: &[u8], stamp: u64) -> Result<()> {
        let token = new_token();
        let Lease::Granted = self.remote.lease(name, token, &[], stamp, None).await? else {
            return Ok(());
        };
        let Some((entry, left)) = self.copyable(entry_key).await? else {
            // Nobody is to wait for a copy that does not come.
            return self.remote.release(name, token).await;
        };
        let call = COPY.on(&[name]).arg(&token.to_be_bytes()[..]).arg(entry);
        let call = call.arg(left.as_millis() as u64);
        self.remote.guarded(name, self.remote.client.run(&call)).await.map(drop)
    }

    /// The entry as its copies have it, and how long they live; `None` when it is not fresh.
    async fn copyable(&self, entry_key: &EntryKey) -> Result<Option<(Vec<u8>, Duration)>> {
        let (raw, _) = self.remote.get(entry_key.entry(), &entry_key.generations).await?;
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
        let now = self.remote.client.server_millis_of(entry_key.entry(), self.clock.now());
        let now = u64::try_from(now).unwrap_or(0);
        let left = Duration::from_millis(fresh_until.saturating_sub(now)).min(COPY_FOR);
        Ok((!left.is_zero()).then_some((raw, left)))
    }

    async fn fetch(self: &Arc<Self>, hot: &HotKey) {
        let Some(local) = &self.local else { return };
        let entry = hot.bytes.as_slice();
        let now = self.clock.now();
        let current = local.peek(entry).is_some_and(|copy| {
            copy.version >= hot.version && copy.version > 0 && now < copy.fresh_until
        });
        if current || self.settings.tags.is_some() || self.recovery.concerns(entry) {
            return;
        }
        let mut entry_key = EntryKey {
            entry: KeyBuffer::starting_with(entry),
            generations: Vec::new(),
            tags: None,
        };
        if self.settings.clearable {
            entry_key.generations.push(self.remote.names.generation().to_vec());
            entry_key.tags = Some(Arc::new([]));
        }
        let looked = self.look_remote(&entry_key, Freshness::Cached).await;
        let Ok((Some(found), _)) = looked.found else { return };
        if looked.at < found.fresh_until && !found.invalidated {
            self.keep(&entry_key, &found, looked.ticket);
        }
    }
}

impl<K: CacheKey, V: CacheValue> HotKeySink for Inner<K, V> {
    fn version(&self, entry: &[u8]) -> u64 {
        let copy = self.local.as_ref().and_then(|local| local.peek(entry));
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
        if let (Some(local), true) = (&self.local, self.heat.hot_only) {
            local.invalidate(entry);
        }
    }
}
