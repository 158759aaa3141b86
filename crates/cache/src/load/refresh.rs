//! Background work on entries that are read: sliding, refreshing before the end, copying.

use std::sync::Arc;

use seawall_resilience::clock::Moment;

use super::{
    coordinator::{LoadCoordinator, Order, Purpose},
    loader::LoaderSlot,
};
use crate::{
    CacheValue,
    store::{
        entry::{Entry, Stale},
        keys::EntryKey,
    },
    tier::remote_tags::Stamp,
};

impl<V: CacheValue> LoadCoordinator<V> {
    /// Returns whether a hit may have to slide or be refreshed.
    pub(crate) fn tends_hits(&self) -> bool {
        self.settings.sliding || self.settings.early_refresh.is_some()
    }

    /// Slides or refreshes a fresh entry that was read, if that is due.
    pub(crate) fn refresh_if_due(
        self: &Arc<Self>,
        entry_key: &EntryKey,
        entry: &Entry<V>,
        stamp: Stamp,
        now: Moment,
        loader: Option<&LoaderSlot<V>>,
    ) {
        let left = entry.fresh_until.since(now);
        if self.settings.sliding && entry.value.is_some() && left < self.settings.ttl / 2 {
            let (_, leader) = self.refreshes.join(entry_key.entry());
            if let Some(leader) = leader {
                let (publisher, version) = (Arc::clone(&self.publisher), entry.version);
                let bytes = entry.bytes;
                self.handle.spawn(async move {
                    // The leader keeps others from sliding the same entry meanwhile.
                    publisher.slide(leader.key(), version, bytes).await;
                });
            }
        } else if let Some(factor) = self.settings.early_refresh {
            // The longer a load takes and the closer the end, the more likely.
            let chance = self.handle.randomness().unit();
            let lead = entry.cost.mul_f64(factor * (-f64::ln(1.0 - chance)).max(1e-9));
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
        stamp: Stamp,
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

    /// Makes a copy of a very hot entry on another node, unless that is already under way.
    pub(crate) fn spread(self: &Arc<Self>, entry_key: &EntryKey, name: &[u8], stamp: Stamp) {
        let (_, leader) = self.refreshes.join(name);
        if let Some(leader) = leader {
            let (publisher, entry_key) = (Arc::clone(&self.publisher), entry_key.clone());
            self.handle.spawn(async move {
                // The leader keeps others from making the same copy meanwhile.
                if let Err(error) = publisher.copy(&entry_key, leader.key(), stamp).await {
                    tracing::debug!(%error, "a hot entry could not be copied");
                }
            });
        }
    }
}
