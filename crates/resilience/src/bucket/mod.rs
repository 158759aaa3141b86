//! The token bucket: how many calls a second a backend gets, and how many at once.
//!
//! [`TokenBucket::try_take`] is one compare-and-swap (see `gcra.rs`) and exact however many tasks
//! take at the same time. [`TokenBucket::take`] waits: in a queue of bounded length, first come,
//! first served. Only the head of the queue watches the time; it takes nothing before it may, so
//! there is nothing to give back when a waiter is cancelled anywhere.
//!
//! Invariant: in any span of time `t` at most `burst + rate · t` tokens are taken.
//!
//! Limit: `try_take` does not stand in the queue and may overtake it. Who needs strict order uses
//! `take` only.

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

/// How many may wait for tokens, unless said otherwise.
const DEFAULT_QUEUE: usize = 1024;
/// The longest queue that can be asked for.
const MAX_QUEUE: usize = 1 << 20;

/// Why no tokens were given. Nothing was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There are not enough tokens, and waiting for them would take too long or the queue is full.
    #[error("no tokens left, try again in {0:?}")]
    RetryAfter(Duration),
    /// More tokens at once than the bucket can hold: no waiting will help.
    #[error("{asked} tokens asked for at once, the bucket holds {burst}")]
    TooMany {
        /// How many were asked for.
        asked: u64,
        /// How many there can be at most.
        burst: u64,
    },
}

/// A rate limit within this process. A cheap clone; clones share their tokens.
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
    /// Held while the rate is changed.
    changing: Mutex<()>,
    /// Wakes the head of the queue after such a change.
    changed: Notify,
    /// Places in the queue, its head's included.
    places: Semaphore,
    /// How many places there are.
    queue: usize,
    /// One permit: whoever holds it is the head of the queue. Fair, as tokio's semaphores are.
    head: Semaphore,
}

struct Settings {
    rate: Rate,
    burst: u64,
    gcra: Gcra,
}

impl TokenBucket {
    /// A bucket with this rate. It starts full; the name is the label of its metrics.
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
    /// [`Refusal`] when there are not enough, with the time after which there may be.
    pub fn try_take(&self, n: u64) -> Result<(), Refusal> {
        self.attempt(n).inspect_err(|_| self.count_refusal())
    }

    /// Takes `n` tokens, waiting for them until `deadline` at most. Waiters are served in the order
    /// in which they came. Who cannot be served in time is refused at once where that is known.
    ///
    /// # Errors
    ///
    /// [`Refusal`] when the tokens do not come in time, or too many are waiting already.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue and takes nothing.
    pub async fn take(&self, n: u64, deadline: Moment) -> Result<(), Refusal> {
        self.wait(n, deadline).await.inspect_err(|_| self.count_refusal())
    }

    /// Changes rate and burst. Tokens that are there stay, as far as they fit.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`] when one of them is zero or too large; the old ones then stay in force.
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

    /// The rate in force.
    #[must_use]
    pub fn rate(&self) -> Rate {
        self.shared.settings.load().rate
    }

    /// The most tokens there can be.
    #[must_use]
    pub fn burst(&self) -> u64 {
        self.shared.settings.load().burst
    }

    /// How many tokens could be taken now.
    #[must_use]
    pub fn available(&self) -> u64 {
        self.shared.settings.load().gcra.available(self.now())
    }

    /// How many are waiting in [`take`](Self::take).
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue - self.shared.places.available_permits()
    }

    /// The name it was built with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    fn now(&self) -> u64 {
        ticks(self.shared.clock.now().since(self.shared.origin))
    }

    fn attempt(&self, n: u64) -> Result<(), Refusal> {
        // Each turn but the last means that somebody changed the rate meanwhile.
        loop {
            let settings = self.shared.settings.load();
            if n > settings.burst {
                return Err(Refusal::TooMany { asked: n, burst: settings.burst });
            }
            match settings.gcra.take(n, self.now()) {
                Take::Taken => return Ok(()),
                Take::Wait(time) => return Err(Refusal::RetryAfter(time)),
                // Wait for the change to be complete.
                Take::Sealed => {
                    drop(self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    async fn wait(&self, n: u64, deadline: Moment) -> Result<(), Refusal> {
        // Nobody waits: no need for a queue.
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
        // Ends: every turn settles, or passes time towards the deadline, or follows a change.
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on a change is noticed, also one before the first poll.
            changed.as_mut().enable();
            let time = match self.attempt(n) {
                Err(Refusal::RetryAfter(time)) if !self.too_late(time, deadline) => time,
                settled => return settled,
            };
            tokio::select! {
                () = self.shared.clock.sleep(time) => {}
                () = changed => {}
            }
        }
    }

    fn too_late(&self, after: Duration, deadline: Moment) -> bool {
        self.shared.clock.now() + after > deadline
    }

    /// When the queue will be through, if everybody in it wants one token.
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
    /// How many tokens can gather; what comes in 100 ms (at least 1) unless said otherwise.
    pub fn burst(mut self, burst: u64) -> Self {
        self.burst = Some(burst);
        self
    }

    /// How many may wait in [`TokenBucket::take`]; 1024 unless said otherwise, 0 is none.
    pub fn queue(mut self, length: usize) -> Self {
        self.queue = length;
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
    /// [`InvalidSettings`] names the setting that is zero or too large.
    pub fn build(self) -> Result<TokenBucket, InvalidSettings> {
        if self.name.is_empty() {
            return Err(InvalidSettings::new(
                "a token bucket's name is empty: it labels its metrics",
            ));
        }
        if self.queue > MAX_QUEUE {
            let what = format!("queue is {}, more than {MAX_QUEUE}", self.queue);
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
