//! Token bucket: limits the calls per second to a backend, and the size of bursts.
//!
//! [`TokenBucket::try_take`] is one compare-and-swap (see `gcra.rs`) and exact for any number of
//! concurrent tasks. [`TokenBucket::take`] waits in a queue of bounded length, first come, first
//! served. Only the head of the queue watches the time. It takes nothing before the tokens are
//! available, so a waiter that is cancelled at any point has nothing to give back.
//!
//! Invariant: in any span of time `t` at most `burst + rate · t` tokens are taken.
//!
//! Limit: `try_take` does not queue and may overtake waiters. Callers that need strict order use
//! only `take`.

mod gcra;
mod rate;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, Semaphore};

use self::gcra::{Gcra, Take, ticks};
pub use self::rate::Rate;
use super::InvalidSettings;
use crate::clock::{Clock, Moment};

/// Default length of the queue.
const DEFAULT_QUEUE: usize = 1024;
/// Maximum length of the queue.
const MAX_QUEUE: usize = 1 << 20;

/// Why no tokens were granted. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There are not enough tokens; with [`TokenBucket::take`], waiting would take too long or the
    /// queue is full.
    #[error("no tokens left, try again in {0:?}")]
    RetryAfter(Duration),
    /// More tokens than the bucket can hold: waiting cannot help.
    #[error("{asked} tokens asked for at once, the bucket holds {burst}")]
    TooMany {
        /// Number of requested tokens.
        asked: u64,
        /// Maximum number of tokens in the bucket.
        burst: u64,
    },
}

/// A rate limit within this process. Cheap to clone; clones share their tokens.
///
/// ```
/// use seawall_resilience::{Rate, Refusal, TokenBucket, clock::Clock};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (clock, time) = Clock::manual();
/// let bucket = TokenBucket::builder("reports", Rate::per_second(10)).burst(2).clock(clock).build()?;
/// bucket.try_take(2)?;
/// assert_eq!(bucket.try_take(1), Err(Refusal::RetryAfter(Duration::from_millis(100))));
/// time.advance(Duration::from_millis(100));
/// bucket.try_take(1)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TokenBucket {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    clock: Clock,
    origin: Moment,
    settings: ArcSwap<Settings>,
    /// Locked while the rate is changed.
    changing: Mutex<()>,
    /// Wakes the head of the queue after a change of the rate.
    changed: Notify,
    /// Places in the queue, including that of its head.
    places: Semaphore,
    /// Total number of places.
    queue: usize,
    /// One permit: its holder is the head of the queue. Fair, as tokio's semaphores are.
    head: Semaphore,
}

struct Settings {
    rate: Rate,
    burst: u64,
    gcra: Gcra,
}

impl TokenBucket {
    /// Returns a builder for a bucket with this rate, which starts full. The name labels its
    /// metrics.
    pub fn builder(name: impl Into<Arc<str>>, rate: Rate) -> TokenBucketBuilder {
        TokenBucketBuilder {
            name: name.into(),
            rate,
            burst: None,
            queue: DEFAULT_QUEUE,
            clock: Clock::system(),
        }
    }

    /// Takes `n` tokens now, all or none.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if there are not enough tokens, with the time after which there may be.
    pub fn try_take(&self, n: u64) -> Result<(), Refusal> {
        self.attempt(n).inspect_err(|_| self.count_refusal())
    }

    /// Takes `n` tokens and waits for them until `deadline` at most.
    ///
    /// Waiters are served in order. A waiter that cannot be served in time is refused at once if
    /// that is already known.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the tokens do not become available in time, or the queue is full.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and takes nothing.
    pub async fn take(&self, n: u64, deadline: Moment) -> Result<(), Refusal> {
        self.wait(n, deadline).await.inspect_err(|_| self.count_refusal())
    }

    /// Changes rate and burst. Available tokens are kept, as far as they fit.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`] if one of them is zero or too large; the old settings then stay in
    /// force.
    pub fn set_rate(&self, rate: Rate, burst: u64) -> Result<(), InvalidSettings> {
        let gcra = rate.bucket(burst).map_err(|what| invalid(&self.shared.name, &what))?;
        {
            let _one = self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.settings.load().gcra.hand_over(&gcra, self.now());
            self.shared.settings.store(Arc::new(Settings { rate, burst, gcra }));
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }

    /// Returns the current rate.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.shared.settings.load().rate
    }

    /// Returns the maximum number of tokens in the bucket.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.shared.settings.load().burst
    }

    /// Returns the number of tokens that could be taken now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.shared.settings.load().gcra.available(self.now())
    }

    /// Returns the number of tasks waiting in [`take`](Self::take).
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue - self.shared.places.available_permits()
    }

    /// Returns the name of the bucket.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    fn now(&self) -> u64 {
        ticks(self.shared.clock.now().since(self.shared.origin))
    }

    fn attempt(&self, n: u64) -> Result<(), Refusal> {
        // Every iteration but the last means that the rate was changed concurrently.
        loop {
            let settings = self.shared.settings.load();
            if n > settings.burst {
                return Err(Refusal::TooMany { asked: n, burst: settings.burst });
            }
            match settings.gcra.take(n, self.now()) {
                Take::Taken => return Ok(()),
                Take::Wait(time) => return Err(Refusal::RetryAfter(time)),
                // Wait until the change is complete.
                Take::Sealed => {
                    drop(self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    async fn wait(&self, n: u64, deadline: Moment) -> Result<(), Refusal> {
        // No task waits, so no queue is needed.
        if self.shared.head.available_permits() > 0 {
            match self.attempt(n) {
                Err(Refusal::RetryAfter(time)) if !self.too_late(time, deadline) => {}
                settled => return settled,
            }
        }
        let Ok(_place) = self.shared.places.try_acquire() else {
            return Err(Refusal::RetryAfter(self.estimate()));
        };
        let _head = tokio::select! {
            biased;
            head = self.shared.head.acquire() => head.expect("the semaphore is never closed"),
            () = self.shared.clock.sleep_until(deadline) => {
                return Err(Refusal::RetryAfter(self.estimate()));
            }
        };
        self.wait_as_head(n, deadline).await
    }

    async fn wait_as_head(&self, n: u64, deadline: Moment) -> Result<(), Refusal> {
        // Terminates: every iteration settles, passes time towards the deadline, or follows a
        // change.
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on a change is noticed, even one before the first poll.
            changed.as_mut().enable();
            let time = match self.attempt(n) {
                Err(Refusal::RetryAfter(time)) if !self.too_late(time, deadline) => time,
                settled => return settled,
            };
            tokio::select! {
                biased;
                () = self.shared.clock.sleep(time) => {}
                () = changed => {}
            }
        }
    }

    fn too_late(&self, after: Duration, deadline: Moment) -> bool {
        self.shared.clock.now() + after > deadline
    }

    /// Estimates when the queue will be empty, if every waiter wants one token.
    fn estimate(&self) -> Duration {
        self.rate().time_for(self.waiting() as u64 + 1)
    }

    fn count_refusal(&self) {
        metrics::counter!("seawall_bucket_refused_total", "name" => Arc::clone(&self.shared.name))
            .increment(1);
    }
}

impl fmt::Debug for TokenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenBucket")
            .field("name", &self.shared.name)
            .field("rate", &self.rate())
            .field("burst", &self.burst())
            .finish_non_exhaustive()
    }
}

fn invalid(name: &str, what: &str) -> InvalidSettings {
    InvalidSettings::new(format!("token bucket `{name}`: {what}"))
}

/// Settings of a [`TokenBucket`].
#[derive(Debug, Clone)]
#[must_use]
pub struct TokenBucketBuilder {
    name: Arc<str>,
    rate: Rate,
    burst: Option<u64>,
    queue: usize,
    clock: Clock,
}

impl TokenBucketBuilder {
    /// Sets the maximum number of tokens that can accumulate. Default: the tokens of 100 ms, at
    /// least 1.
    pub fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// Sets the number of tasks that may wait in [`TokenBucket::take`]. Default: 1024; 0 disables
    /// waiting.
    pub fn max_queue(mut self, length: usize) -> Self {
        self.queue = length;
        self
    }

    /// Sets the clock. Default: the system clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the bucket.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with the name of the setting that is empty, zero or too large.
    pub fn build(self) -> Result<TokenBucket, InvalidSettings> {
        if self.name.is_empty() {
            return Err(InvalidSettings::new(
                "a token bucket's name is empty: it labels its metrics",
            ));
        }
        if self.queue > MAX_QUEUE {
            let what = format!("max_queue is {}, more than {MAX_QUEUE}", self.queue);
            return Err(invalid(&self.name, &what));
        }
        let burst = self.burst.unwrap_or_else(|| self.rate.default_burst());
        let gcra = self.rate.bucket(burst).map_err(|what| invalid(&self.name, &what))?;
        let origin = self.clock.now();
        Ok(TokenBucket {
            shared: Arc::new(Shared {
                name: self.name,
                clock: self.clock,
                origin,
                settings: ArcSwap::from_pointee(Settings { rate: self.rate, burst, gcra }),
                changing: Mutex::new(()),
                changed: Notify::new(),
                places: Semaphore::new(self.queue),
                queue: self.queue,
                head: Semaphore::new(1),
            }),
        })
    }
}
