//! The bulkhead's settings, and which of them make no sense.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{Adaptive, Bulkhead, Shared, aimd::Aimd};
use crate::{InvalidSettings, clock::Clock};

/// The highest limit and the longest queue that can be asked for.
const MAX_SIZE: usize = 1 << 20;
/// How long a call waits for its turn, unless said otherwise.
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

    /// How many calls may wait for a slot; as many as there are slots unless said otherwise.
    pub fn queue(mut self, length: usize) -> Self {
        self.queue = Some(length);
        self
    }

    /// How long a call may wait for a slot; 1 s unless said otherwise.
    pub fn max_wait(mut self, time: Duration) -> Self {
        self.max_wait = Some(time);
        self
    }

    /// Lowers the limit while calls take longer than this, and raises it again up to what was asked
    /// for; the limit is fixed unless said.
    pub fn target_latency(mut self, target: Duration) -> Self {
        self.target_latency = Some(target);
        self
    }

    /// The lowest the limit may go with a `target_latency`; 1 unless said otherwise.
    pub fn floor(mut self, floor: usize) -> Self {
        self.floor = Some(floor);
        self
    }

    /// The clock to go by; the system's unless said otherwise.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds it.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`] names the setting that is zero, too large or contradicts another.
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
                return wrong(format!("max_wait is {wait:?}, but queue is 0: nobody can wait"));
            }
            (Some(1..), Some(Duration::ZERO)) => {
                return wrong("queue has places, but max_wait is zero: nobody can wait".into());
            }
            (Some(length), _) if length > MAX_SIZE => {
                return wrong(format!("queue is {length}, more than {MAX_SIZE}"));
            }
            _ => {}
        }
        let adaptive = match (target_latency, floor) {
            (None, Some(_)) => {
                return wrong("floor is set, but target_latency is not: the limit is fixed".into());
            }
            (Some(Duration::ZERO), _) => return wrong("target_latency is zero".into()),
            (Some(_), Some(floor)) if floor == 0 || floor > limit => {
                return wrong(format!("floor is {floor}, not 1 to the limit ({limit})"));
            }
            (Some(target), floor) => {
                let aimd = Aimd::new(floor.unwrap_or(1), limit, target);
                Some(Mutex::new(Adaptive { aimd, slots: limit }))
            }
            (None, None) => None,
        };
        // A time of zero says "nobody waits" as well as a queue of zero does.
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
