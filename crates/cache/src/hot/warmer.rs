//! Fetches entries that became hot anywhere in the fleet, before they are asked for here.
//!
//! Limit: the tags of an entry cannot be told from its key in Redis. Entries of caches with tags are
//! not fetched ahead; they are kept from their first read on.

use std::sync::{Arc, atomic::Ordering};

use seawall_client::{Handle, key::KeyBuffer};

use crate::{
    CacheValue, Freshness,
    hotkey::{HotKey, HotKeySink},
    read::{lookup::Lookup, reader::Reader},
    store::keys::EntryKey,
};

/// A cache as hot keys know it.
pub(crate) struct Warmer<V> {
    pub(crate) handle: Handle,
    pub(crate) reader: Reader<V>,
    /// Whether entries have tags.
    pub(crate) is_tagged: bool,
}

impl<V: CacheValue> Warmer<V> {
    async fn fetch(&self, hot: &HotKey) {
        let reader = &self.reader;
        let Some(local) = &reader.local else { return };
        let entry = hot.bytes.as_slice();
        let now = reader.clock.now();
        let current = local.peek(entry).is_some_and(|copy| {
            copy.version >= hot.version && copy.version > 0 && now < copy.fresh_until
        });
        if current || self.is_tagged || reader.recovery.concerns(entry) {
            return;
        }
        let mut entry_key = EntryKey {
            entry: KeyBuffer::starting_with(entry),
            generations: Vec::new(),
            tags: None,
        };
        if reader.settings.clearable {
            entry_key.generations.push(reader.remote.names.generation().to_vec());
            entry_key.tags = Some(Arc::new([]));
        }
        let look = reader.look(&entry_key, Freshness::Cached, None).await;
        if let Lookup::Hit(found) = look.lookup {
            reader.publisher.keep(&entry_key, &found, look.ticket);
        }
    }
}

impl<V: CacheValue> HotKeySink for Warmer<V> {
    fn version(&self, entry: &[u8]) -> u64 {
        let copy = self.reader.local.as_ref().and_then(|local| local.peek(entry));
        let now = self.reader.clock.now();
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
        self.reader.heat.asked.swap(false, Ordering::Relaxed)
    }

    fn cool(&self, entry: &[u8]) {
        if let (Some(local), true) = (&self.reader.local, self.reader.heat.hot_only) {
            local.invalidate(entry);
        }
    }
}
