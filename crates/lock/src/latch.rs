//! A latch that opens when enough participants have arrived.
//!
//! Arriving is idempotent by the participant's name: a step that is done twice, because a worker
//! was restarted, counts once. A participant at work has a lease that ends with its process, so a
//! waiter can see how many are still working and tell "slow" from "dead".

use std::time::Duration;

use seawall_client::{
    Handle, KeyPart,
    client::Script,
    error::{Error, Result},
    lifetime,
};
use seawall_resilience::clock::millis;

use super::{acquire::jittered, guard::Guard, mutex::Lock, request::Kind};

static ARRIVE: Script = Script::new(include_str!("latch_arrive.lua"));
static STATE: Script = Script::with_time(include_str!("latch_state.lua"));

/// Default lifetime of a latch after the last arrival.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Maximum interval between checks while waiting.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Default lease of a participant at work.
const LEASE: Duration = Duration::from_secs(30);

/// A latch identified by its name. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, lock::Waited};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let warm = seawall.latch("shards-warm", 2);
/// warm.arrive("shard-1").await?;
/// warm.arrive("shard-1").await?; // once more, counts once
/// warm.arrive("shard-2").await?;
/// assert_eq!(warm.wait(Duration::from_secs(1)).await?, Waited::Open);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Latch {
    handle: Handle,
    key: Result<Vec<u8>>,
    working: Lock,
    count: u32,
    lifetime: Duration,
}

/// State of a latch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatchState {
    /// Number of participants that have arrived.
    pub arrived: u32,
    /// Number of participants that have joined, have not arrived and are alive.
    pub working: u32,
    /// Number of arrivals that are missing.
    pub missing: u32,
}

/// Outcome of [`Latch::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the latch may not be open"]
pub enum Waited {
    /// Enough participants have arrived.
    Open,
    /// Time ran out in this state.
    TimedOut(LatchState),
}

impl Latch {
    /// Creates a latch that opens when `count` participants have arrived.
    #[must_use]
    pub fn new(handle: &Handle, name: impl KeyPart, count: u32) -> Self {
        handle.needs_every_key("latches");
        let working = Lock::of_kind(handle, "latch", &name, Kind::Semaphore { permits: u32::MAX });
        let working = working.lease_ttl(LEASE).change(|options| {
            let mut key = options.key.to_vec();
            key.extend_from_slice(b":working");
            options.key = key.into();
        });
        let key = handle.key("latch", &name);
        Latch { handle: handle.clone(), key, working, count, lifetime: LIFETIME }
    }

    /// Sets how long the latch is remembered after the last arrival. Default: 24 hours.
    ///
    /// After that time the latch is closed again.
    #[must_use]
    pub fn ttl(mut self, lifetime: Duration) -> Self {
        self.lifetime = lifetime;
        self
    }

    /// Sets the lease of participants: how long one counts as working if it does not renew.
    /// Default: 30 seconds.
    #[must_use]
    pub fn lease_ttl(mut self, lease: Duration) -> Self {
        self.working = self.working.lease_ttl(lease);
        self
    }

    fn keys(&self) -> Result<[Vec<u8>; 2]> {
        let key = self.key.clone()?;
        if self.count == 0 {
            return Err(Error::Invalid("a latch needs a count above zero".into()));
        }
        lifetime::millis("ttl", self.lifetime)?;
        Ok([key, self.working.options()?.key.to_vec()])
    }

    /// Records the arrival of a participant, once however often it is called, and returns the
    /// number of missing arrivals.
    ///
    /// # Errors
    /// Fails if Redis does not answer. Calling it again is safe.
    pub async fn arrive(&self, participant: impl KeyPart) -> Result<u32> {
        let name = participant.to_key()?;
        let call = ARRIVE.on(&self.keys()?).arg(name).arg(self.count).arg(millis(self.lifetime));
        let arrived: u32 = self.handle.client().eval(&call).await?;
        Ok(self.count.saturating_sub(arrived))
    }

    /// Registers a participant as working.
    ///
    /// It arrives by [`Participant::arrive`]; if it is dropped or its process crashes before that,
    /// it no longer counts as working.
    ///
    /// # Errors
    /// Fails if Redis does not answer.
    pub async fn join(&self, participant: impl KeyPart) -> Result<Participant> {
        let name = participant.to_key()?;
        self.keys()?;
        let guard = self.working.try_acquire().await?.acquired();
        let guard = guard.ok_or_else(|| Error::unexpected("a latch cannot be full"))?;
        Ok(Participant { latch: self.clone(), name, guard })
    }

    /// Returns the state of the latch.
    ///
    /// # Errors
    /// Fails if Redis does not answer.
    pub async fn state(&self) -> Result<LatchState> {
        let call = STATE.on(&self.keys()?);
        let (arrived, working): (u32, u32) = self.handle.client().eval(&call).await?;
        Ok(LatchState { arrived, working, missing: self.count.saturating_sub(arrived) })
    }

    /// Waits at most `within` until the latch is open.
    ///
    /// # Errors
    /// Fails if Redis does not answer.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait(&self, within: Duration) -> Result<Waited> {
        let clock = self.handle.clock();
        let deadline = clock.now() + within;
        let [key, _] = self.keys()?;
        let mut messages = self.handle.client().pubsub().join(&key);
        loop {
            let state = self.state().await?;
            if state.missing == 0 {
                return Ok(Waited::Open);
            }
            let left = deadline.since(clock.now());
            if left.is_zero() {
                return Ok(Waited::TimedOut(state));
            }
            tokio::select! {
                biased;
                event = messages.next() => if event.is_none() { return Err(Error::Closed) },
                () = clock.sleep(jittered(POLL_INTERVAL, self.handle.randomness()).min(left)) => {}
            }
        }
    }
}

/// A participant at work: a lease that is renewed until it arrives or is dropped.
#[derive(Debug)]
#[must_use = "a participant that is dropped has not arrived"]
pub struct Participant {
    latch: Latch,
    name: Vec<u8>,
    guard: Guard,
}

impl Participant {
    /// Records the arrival and returns the number of missing arrivals.
    ///
    /// # Errors
    /// Fails if Redis does not answer. Call [`Latch::arrive`] with the same name to try again.
    pub async fn arrive(self) -> Result<u32> {
        let call = ARRIVE
            .on(&self.latch.keys()?)
            .arg(&self.name)
            .arg(self.latch.count)
            .arg(millis(self.latch.lifetime));
        let arrived: u32 = self.latch.handle.client().eval(&call).await?;
        // Its lease may have expired in the meantime; only the arrival matters.
        let _ = self.guard.release().await;
        Ok(self.latch.count.saturating_sub(arrived))
    }
}
