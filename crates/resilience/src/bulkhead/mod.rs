//! Bulkhead: limits the concurrent calls to a backend, and how many calls may wait.
//!
//! A fair semaphore with a queue that is bounded in length and in time: under overload the surplus
//! is refused at once, instead of waiting for an answer that no caller needs any more.
//!
//! With `target_latency` the limit adapts (see `aimd.rs`): the backend's latency then limits its
//! load. Lowering the limit cannot interrupt running calls; slots are withheld as they are given
//! back.
//!
//! Invariants: never more than `limit` slots are in use; never more than `max_queue` calls wait, none
//! longer than `max_wait`; a slot or a place in the queue is given back wherever it is dropped.

mod aimd;
mod builder;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::aimd::Aimd;
pub use self::builder::BulkheadBuilder;
use crate::clock::{Clock, Moment};

/// Minimum time after which a refused caller is told to retry.
const MIN_RETRY_AFTER: Duration = Duration::from_millis(100);

/// There is no slot: the call was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// All slots are in use, and the queue is full or the caller did not wait
    /// ([`Bulkhead::try_enter`]).
    #[error("too many calls at a time, and too many waiting")]
    Queue,
    /// No slot became free in time.
    #[error("too many calls at a time, waited {waited:?}")]
    Waited {
        /// How long the caller waited.
        waited: Duration,
    },
}

/// Limits the number of concurrent calls. Cheap to clone; clones share their slots.
///
/// ```
/// use seawall_resilience::{Bulkhead, Full};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bulkhead = Bulkhead::builder("stock database", 1).max_queue(0).build()?;
/// let slot = bulkhead.try_enter()?;
/// assert_eq!(bulkhead.try_enter().unwrap_err(), Full::Queue);
/// drop(slot);
/// bulkhead.try_enter()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Bulkhead {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    clock: Clock,
    origin: Moment,
    slots: Arc<Semaphore>,
    places: Semaphore,
    queue: usize,
    max_wait: Duration,
    limit: usize,
    adaptive: Option<Mutex<Adaptive>>,
}

/// The adaptive limit, and the number of slots that follows it.
struct Adaptive {
    aimd: Aimd,
    /// Slots that exist, free or in use.
    slots: usize,
}

impl Bulkhead {
    /// Returns a builder for a bulkhead with `limit` slots. The name labels its metrics.
    pub fn builder(name: impl Into<Arc<str>>, limit: usize) -> BulkheadBuilder {
        BulkheadBuilder::new(name.into(), limit)
    }

    /// Takes a slot if one is free now.
    ///
    /// # Errors
    ///
    /// [`Full`] if none is free.
    pub fn try_enter(&self) -> Result<Slot, Full> {
        self.free_slot().ok_or_else(|| self.refused(Full::Queue))
    }

    /// Takes a slot, waiting for it until `deadline` and for `max_wait` at most.
    ///
    /// # Errors
    ///
    /// [`Full`] if the queue is full or no slot became free in time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue.
    pub async fn enter(&self, deadline: Moment) -> Result<Slot, Full> {
        if let Some(slot) = self.free_slot() {
            return Ok(slot);
        }
        let Ok(_place) = self.shared.places.try_acquire() else {
            return Err(self.refused(Full::Queue));
        };
        let began = self.shared.clock.now();
        let until = deadline.min(began + self.shared.max_wait);
        tokio::select! {
            biased;
            permit = Arc::clone(&self.shared.slots).acquire_owned() => {
                Ok(self.slot(permit.expect("the semaphore is never closed")))
            }
            () = self.shared.clock.sleep_until(until) => {
                let waited = self.shared.clock.now().since(began);
                Err(self.refused(Full::Waited { waited }))
            }
        }
    }

    /// Returns the number of slots in use.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight()
    }

    /// Returns the number of calls that wait for a slot.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue - self.shared.places.available_permits()
    }

    /// Returns the current limit. It is below the configured one only with a `target_latency`.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.shared.adapt(|adaptive| adaptive.slots).unwrap_or(self.shared.limit)
    }

    /// Returns the name of the bulkhead.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the time after which a refused caller may retry: `max_wait`, at least 100 ms.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        self.shared.max_wait.max(MIN_RETRY_AFTER)
    }

    fn free_slot(&self) -> Option<Slot> {
        let permit = Arc::clone(&self.shared.slots).try_acquire_owned().ok()?;
        Some(self.slot(permit))
    }

    fn slot(&self, permit: OwnedSemaphorePermit) -> Slot {
        let shared = Arc::clone(&self.shared);
        let mut slot = Slot { permit: Some(permit), entered: None, shared };
        slot.begin();
        slot
    }

    fn refused(&self, full: Full) -> Full {
        let name = Arc::clone(&self.shared.name);
        metrics::counter!("seawall_bulkhead_refused_total", "name" => name).increment(1);
        full
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead")
            .field("name", &self.shared.name)
            .field("in_flight", &self.in_flight())
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn adapt<R>(&self, step: impl FnOnce(&mut Adaptive) -> R) -> Option<R> {
        let adaptive = self.adaptive.as_ref()?;
        Some(step(&mut adaptive.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn in_flight(&self) -> usize {
        let slots = self.adapt(|adaptive| adaptive.slots).unwrap_or(self.limit);
        slots.saturating_sub(self.slots.available_permits())
    }

    /// Takes back the permit of a call that ran since `entered`, and adapts the limit.
    fn come_back(&self, permit: OwnedSemaphorePermit, entered: Moment) {
        let now = self.clock.now();
        self.adapt(|adaptive| {
            let busy = adaptive.slots.saturating_sub(self.slots.available_permits());
            let wanted = adaptive.aimd.observe(now.since(entered), busy, now.since(self.origin));
            if wanted < adaptive.slots {
                // Remove idle slots first, then this one; the rest as other slots are given back.
                let surplus = adaptive.slots - wanted;
                adaptive.slots -= self.slots.forget_permits(surplus);
                if adaptive.slots > wanted {
                    adaptive.slots -= 1;
                    permit.forget();
                    return;
                }
            } else if wanted > adaptive.slots {
                self.slots.add_permits(wanted - adaptive.slots);
                adaptive.slots = wanted;
            }
            drop(permit);
        });
    }
}

/// A running call. Drop it when the call has ended.
#[must_use = "a slot that is dropped at once limits nothing"]
pub struct Slot {
    /// Present until the slot is dropped.
    permit: Option<OwnedSemaphorePermit>,
    /// When the call began; only set if the limit adapts, and once the call has begun.
    entered: Option<Moment>,
    shared: Arc<Shared>,
}

impl Slot {
    /// Marks that the call has not begun, because its holder waits for something else. That time
    /// must not count as the backend's latency and lower the limit.
    pub(super) fn pause(&mut self) {
        self.entered = None;
    }

    /// Marks that the call begins now.
    pub(super) fn begin(&mut self) {
        self.entered = self.shared.adaptive.is_some().then(|| self.shared.clock.now());
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let (Some(permit), Some(entered)) = (self.permit.take(), self.entered) {
            self.shared.come_back(permit, entered);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("bulkhead", &self.shared.name).finish_non_exhaustive()
    }
}
