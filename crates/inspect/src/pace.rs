//! The speed of a survey: a number of keys per second, and pauses while the server is slow.
//!
//! Before every page of keys the survey sends a `PING`. If the reply takes longer than the best
//! time seen so far plus the limit, the survey pauses, longer each time, until the server is quick
//! again: a survey that looks for what slows a server down must not slow it down itself. After
//! [`PATIENCE`] pauses in a row it takes one page and measures again, so that a server that is
//! always slow is still surveyed, slowly.
//!
//! All of this uses the clock of the network, whatever clock the handle has: a server's load is real.

use std::time::Duration;

use redis::cmd;
use seawall_client::{
    client::DedicatedConnection,
    error::{Error, Result},
};
use seawall_resilience::{Backoff, Rate, TokenBucket, clock::Clock};

/// Pauses while the server is slow.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(2));
/// Pauses in a row before the next page is taken anyway.
const PATIENCE: u32 = 8;
/// Keys that may come at once, as a fraction (one part in this number) of a second's keys.
const BURST_PART: u64 = 20;
/// Tokens are awaited for a second at a time; this limit is longer than any survey.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// Limits the speed of a survey.
pub(super) struct Pace {
    bucket: Option<TokenBucket>,
    clock: Clock,
    limit: Duration,
    best: Option<Duration>,
    paused: Duration,
}

impl Pace {
    /// Creates a pace of `rate` keys per second by the network's clock; 0 for as fast as the server
    /// answers.
    pub(super) fn new(rate: u64, limit: Duration, clock: &Clock) -> Result<Self> {
        let bucket = match rate {
            0 => None,
            rate => {
                let bucket = TokenBucket::builder("survey", Rate::per_second(rate))
                    .burst((rate / BURST_PART).max(1))
                    .clock(clock.clone());
                Some(bucket.build()?)
            }
        };
        Ok(Pace { bucket, clock: clock.clone(), limit, best: None, paused: Duration::ZERO })
    }

    /// Returns how long it paused because the server was slow.
    pub(super) fn paused(&self) -> Duration {
        self.paused
    }

    /// Switches to another server, which has another round-trip time.
    pub(super) fn turn(&mut self) {
        self.best = None;
    }

    /// Waits until this many keys may be examined.
    pub(super) async fn admit(&self, keys: u64) -> Result<()> {
        let Some(bucket) = &self.bucket else { return Ok(()) };
        let mut left = keys;
        while left > 0 {
            let part = left.min(bucket.burst());
            let deadline = self.clock.now() + LONGEST_WAIT;
            let taken = bucket.take(part, deadline).await;
            taken.map_err(|refusal| Error::Invalid(format!("the survey's rate: {refusal}")))?;
            left -= part;
        }
        Ok(())
    }

    /// Waits while the server is slow; `told` is called for each pause.
    pub(super) async fn heed(
        &mut self,
        connection: &mut DedicatedConnection,
        patience: Duration,
        mut told: impl FnMut(Duration),
    ) -> Result<()> {
        let mut pauses = PAUSES;
        for _ in 0..PATIENCE {
            let asked = self.clock.now();
            connection.send::<String>(&cmd("PING"), patience).await?;
            let trip = self.clock.now().since(asked);
            let best = self.best.map_or(trip, |best| best.min(trip));
            self.best = Some(best);
            if trip <= best.saturating_add(self.limit) {
                return Ok(());
            }
            told(trip);
            let pause = pauses.pause();
            self.paused += pause;
            self.clock.sleep(pause).await;
        }
        Ok(())
    }
}
