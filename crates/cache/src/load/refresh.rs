//! Looking after what is read: entries that slide, and those that are refreshed before their end.

use std::sync::Arc;

use seawall_resilience::clock::Moment;

use crate::{
    CacheKey, CacheValue, EntryKey, Inner,
    load::coordinator::{LoaderSlot, Order, Purpose},
    store::entry::Stale,
    types::Entry,
};

impl<K: CacheKey, V: CacheValue> Inner<K, V> {
    /// Whether fresh entries that are read want looking after.
    pub(crate) fn is_tended(&self) -> bool {
        self.settings.sliding || self.settings.early_refresh.is_some()
    }

    /// Looks after a fresh entry that was read: it may slide, or be refreshed early.
    pub(crate) fn refresh_if_due(
        self: &Arc<Self>,
        entry_key: &EntryKey,
        entry: &Entry<V>,
        stamp: u64,
        now: Moment,
        loader: Option<&LoaderSlot<V>>,
    ) {
        let left = entry.fresh_until.since(now);
        if self.settings.sliding && entry.value.is_some() && left < self.settings.ttl / 2 {
            let (_, leader) = self.refreshes.join(entry_key.entry());
            if let Some(leader) = leader {
                let (remote, version) = (Arc::clone(&self.remote), entry.version);
                let ttl = self.vary(self.settings.ttl);
                let parted = self.may_be_in_parts(entry.bytes).then(|| Arc::clone(self));
                self.handle.spawn(async move {
                    if let Some(this) = parted {
                        this.prolong_parts(leader.key(), ttl).await;
                    }
                    // The leader keeps others from sliding the same entry meanwhile.
                    if let Err(error) = remote.slide(leader.key(), version, ttl).await {
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
                self.refresh(entry_key, stamp, entry, loader.clone());
            }
        }
    }

    /// Replaces an entry in the background, unless that is already under way anywhere.
    pub(crate) fn refresh(
        self: &Arc<Self>,
        entry_key: &EntryKey,
        stamp: u64,
        entry: &Entry<V>,
        loader: LoaderSlot<V>,
    ) {
        let (_, leader) = self.refreshes.join(entry_key.entry());
        if let Some(leader) = leader {
            let order = Order {
                entry_key: entry_key.clone(),
                stamp,
                purpose: Purpose::Refresh(entry.version),
                stale: Some(Stale { entry: entry.clone(), stored: true }),
                loader,
            };
            self.handle.spawn(Arc::clone(self).fly(leader, order));
        }
    }
}
