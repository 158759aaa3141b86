//! Settings of the bulkhead and their validation.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{Adaptive, Bulkhead, Shared, aimd::Aimd};
use crate::{InvalidSettings, clock::Clock};

/// Maximum limit and maximum length of the queue.
const MAX_SIZE: usize = 1 << 20;
/// Default time that a call waits for a slot.
const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(1);

/// Settings of a [`Bulkhead`].
#[derive(Debug, Clone)]
#[must_use]
pub struct BulkheadBuilder {
    name: Arc<str>,
    limit: usize,
    queue: Option<usize>,
    max_wait: Option<Duration>,
    target_latency: Option<Duration>,
    floor: Option<usize>,
    clock: Clock,
}

impl BulkheadBuilder {
    pub(super) fn new(name: Arc<str>, limit: usize) -> Self {
        BulkheadBuilder {
            name,
            limit,
            queue: None,
            max_wait: None,
            target_latency: None,
            floor: None,
            clock: Clock::system(),
        }
    }

    /// Sets the number of calls that may wait for a slot. Default: the number of slots.
    pub fn max_queue(mut self, length: usize) -> Self {
        self.queue = Some(length);
        self
    }

    /// Sets how long a call may wait for a slot. Default: 1 second.
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.max_wait = Some(time);
        self
    }

    /// Sets the target latency: the limit is lowered while calls take longer, and raised again up
    /// to the configured limit. Default: none, the limit is fixed.
    pub fn target_latency(mut self, target: Duration) -> Self {
        self.target_latency = Some(target);
        self
    }

    /// Sets the lowest limit with a `target_latency`. Default: 1.
    pub fn min_limit(mut self, floor: usize) -> Self {
        self.floor = Some(floor);
        self
    }

    /// Sets the clock. Default: the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the bulkhead.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with the name of the setting that is empty, zero, too large or
    /// contradicts another.
    pub fn build(self) -> Result<Bulkhead, InvalidSettings> {
        let Self { name, limit, queue, max_wait, target_latency, floor, clock } = self;
        if name.is_empty() {
            return Err(InvalidSettings::new("a bulkhead's name is empty: it labels its metrics"));
        }
        let wrong = |what: String| Err(InvalidSettings::new(format!("bulkhead `{name}`: {what}")));
        if !(1..=MAX_SIZE).contains(&limit) {
            return wrong(format!("limit is {limit}, not 1 to {MAX_SIZE}"));
        }
        match (queue, max_wait) {
            (Some(0), Some(wait)) if !wait.is_zero() => {
                return wrong(format!("max_wait is {wait:?}, but max_queue is 0: nobody can wait"));
            }
            (Some(1..), Some(Duration::ZERO)) => {
                return wrong("max_queue has places, but max_wait is zero: nobody can wait".into());
            }
            (Some(length), _) if length > MAX_SIZE => {
                return wrong(format!("max_queue is {length}, more than {MAX_SIZE}"));
            }
            _ => {}
        }
        let adaptive = match (target_latency, floor) {
            (None, Some(_)) => {
                return wrong(
                    "min_limit is set, but target_latency is not: the limit is fixed".into(),
                );
            }
            (Some(Duration::ZERO), _) => return wrong("target_latency is zero".into()),
            (Some(_), Some(floor)) if floor == 0 || floor > limit => {
                return wrong(format!("min_limit is {floor}, not 1 to the limit ({limit})"));
            }
            (Some(target), floor) => {
                let aimd = Aimd::new(floor.unwrap_or(1), limit, target);
                Some(Mutex::new(Adaptive { aimd, slots: limit }))
            }
            (None, None) => None,
        };
        // A `max_wait` of zero disables waiting just as a queue of zero does.
        let default_queue = if max_wait == Some(Duration::ZERO) { 0 } else { limit };
        let queue = queue.unwrap_or(default_queue);
        let origin = clock.now();
        Ok(Bulkhead {
            shared: Arc::new(Shared {
                name,
                origin,
                clock,
                slots: Arc::new(Semaphore::new(limit)),
                places: Semaphore::new(queue),
                queue,
                max_wait: max_wait.unwrap_or(DEFAULT_MAX_WAIT),
                limit,
                adaptive,
            }),
        })
    }
}
