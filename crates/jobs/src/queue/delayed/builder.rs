//! Settings of a delayed queue, checked when it is built.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use seawall_client::{
    Handle,
    error::{Error, Result},
};

use super::Delayed;
use crate::queue::{
    core::{Core, MAX_SHARDS, Metrics},
    shard::{DeliveryPolicy, Shard},
};

impl<T> Delayed<T> {
    /// Returns a builder for a delayed queue of `T` with this name.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>) -> DelayedBuilder<T> {
        DelayedBuilder {
            handle: handle.clone(),
            name: name.into(),
            shards: 1,
            policy: DeliveryPolicy {
                lease: Duration::from_secs(30),
                attempts: 5,
                remember: Duration::from_secs(300),
            },
            payload: PhantomData,
        }
    }
}

/// Settings of a [`Delayed`]; all processes that use the queue must use the same settings.
#[derive(Debug)]
pub struct DelayedBuilder<T> {
    handle: Handle,
    name: String,
    shards: usize,
    policy: DeliveryPolicy,
    payload: PhantomData<fn() -> T>,
}

impl<T> DelayedBuilder<T> {
    /// Sets the number of shards. Default: 1.
    ///
    /// Items are ordered by due time only within a shard. The number cannot be changed while the
    /// queue has items.
    #[must_use]
    pub fn shards(mut self, count: usize) -> Self {
        self.shards = count;
        self
    }

    /// Sets how long a consumer may keep an item without extending its lease. Default: 30 seconds.
    #[must_use]
    pub fn lease_ttl(mut self, time: Duration) -> Self {
        self.policy.lease = time;
        self
    }

    /// Sets the number of attempts after which an item is dead. Default: 5.
    ///
    /// An attempt counts if it failed, or if its lease expired while the item was handed out alone.
    /// A claim whose reply was lost is not an attempt. A consumer that dies with several items in
    /// progress counts for none of them: each of them is then handed out alone.
    #[must_use]
    pub fn max_attempts(mut self, count: u64) -> Self {
        self.policy.attempts = count;
        self
    }

    /// Sets how long the id of a finished item cannot be added again. Default: 5 minutes.
    ///
    /// Within this time, retrying an `add` whose reply was lost does not do the work twice.
    #[must_use]
    pub fn dedup_ttl(mut self, time: Duration) -> Self {
        self.policy.remember = time;
        self
    }

    /// Builds the queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the setting that is out of range.
    pub fn build(self) -> Result<Delayed<T>> {
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(Error::Invalid(format!("shards must be from 1 to {MAX_SHARDS}")));
        }
        if self.policy.lease < Duration::from_millis(10) {
            return Err(Error::Invalid("a lease_ttl below 10 ms ends before it begins".into()));
        }
        if self.policy.attempts == 0 {
            return Err(Error::Invalid(
                "max_attempts is 0: everything would be dead at once".into(),
            ));
        }
        let key = |number: usize| match self.shards {
            1 => self.handle.key("delayed", &self.name),
            _ => self.handle.key("delayed", &(&self.name, number)),
        };
        let client = self.handle.client();
        let shards = (0..self.shards)
            .map(|number| Ok(Shard::new(client.clone(), &key(number)?)))
            .collect::<Result<Vec<_>>>()?;
        self.handle.needs_every_key("queues");
        let core = Core {
            metrics: Metrics::new(&self.name),
            name: self.name.clone(),
            shards,
            policy: self.policy,
        };
        Ok(Delayed { handle: self.handle, core: Arc::new(core), payload: PhantomData })
    }
}
