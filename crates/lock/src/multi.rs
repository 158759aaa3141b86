//! Several mutexes at once, without a deadlock.
//!
//! Every client acquires them in the order of their keys, so a client that waits for one lock never
//! holds a later one. All missing locks are requested in one pipeline. Locks behind the first busy
//! one are given back; that one is waited for, and the rest is requested again. If a lock is lost
//! in the meantime, everything starts again: all locks are held when the call returns them. Each
//! lock is an independent mutex, on a Cluster in its own slot: a client that needs only one of them
//! simply acquires it.

use std::{sync::Arc, time::Duration};

use futures_util::future::{join_all, select_all};
use seawall_client::{
    Handle, KeyPart,
    error::{Error, Result},
    retry::{Doubt, together},
};
use seawall_resilience::clock::Moment;

use super::{
    acquire::{self, AcquireOutcome, jittered},
    guard::{Extension, Guard, Release},
    mutex::Lock,
    owner::OwnerId,
    request::LockOptions,
    token::Token,
};

/// Maximum number of locks acquired together.
const MOST: usize = 1000;

/// Several mutexes identified by their names. Cheap to clone; the value itself holds nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let accounts = seawall.multi_lock([("account", 7), ("account", 3)]);
/// let both = accounts.acquire(Duration::from_secs(1)).await?.acquired().expect("free");
/// assert!(seawall.lock(("account", 3)).try_acquire().await?.acquired().is_none());
/// let _ = both.release().await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct MultiLock {
    handle: Handle,
    locks: Vec<Lock>,
    owner: Option<OwnerId>,
}

/// Outcome of an attempt to acquire all locks.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its locks back"]
pub enum MultiAcquireOutcome {
    /// All are held.
    Acquired(MultiGuard),
    /// Another owner holds at least one lock; none is held by the caller.
    Busy {
        /// When to try again, if that lock is not released earlier.
        retry_after: Duration,
    },
}

impl MultiAcquireOutcome {
    /// Returns the guard if all locks were acquired.
    #[must_use]
    pub fn acquired(self) -> Option<MultiGuard> {
        match self {
            MultiAcquireOutcome::Acquired(guard) => Some(guard),
            MultiAcquireOutcome::Busy { .. } => None,
        }
    }
}

impl MultiLock {
    /// Creates a lock over several mutexes that are held together or not at all.
    #[must_use]
    pub fn new<K: KeyPart>(handle: &Handle, names: impl IntoIterator<Item = K>) -> Self {
        let locks = names.into_iter().map(|name| Lock::new(handle, name)).collect();
        MultiLock { handle: handle.clone(), locks, owner: None }
    }

    /// As [`Lock::lease_ttl`], for each lock.
    #[must_use]
    pub fn lease_ttl(self, lease: Duration) -> Self {
        self.each(|lock| lock.lease_ttl(lease))
    }

    /// As [`Lock::poll_interval`].
    #[must_use]
    pub fn poll_interval(self, pause: Duration) -> Self {
        self.each(|lock| lock.poll_interval(pause))
    }

    /// As [`Lock::owner`], for each lock.
    #[must_use]
    pub fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = Some(owner);
        self
    }

    fn each(mut self, change: impl Fn(Lock) -> Lock) -> Self {
        self.locks = self.locks.into_iter().map(change).collect();
        self
    }

    /// Tries once.
    ///
    /// One round trip if all are free; one more gives back what was acquired if one is busy.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self) -> Result<MultiAcquireOutcome> {
        self.acquire(Duration::ZERO).await
    }

    /// Waits at most `within` for all of them.
    ///
    /// # Errors
    /// As [`Lock::acquire`], and [`Error::Invalid`] if there are no names or more than a thousand.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing stays held.
    pub async fn acquire(&self, within: Duration) -> Result<MultiAcquireOutcome> {
        let clock = self.handle.clock();
        let deadline = clock.now() + within;
        let owner = self.owner.unwrap_or_else(|| OwnerId::draw(self.handle.randomness()));
        let mut wanted = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            wanted.push((lock.options()?, lock.clone().owner(owner)));
        }
        wanted.sort_by(|(one, _), (other, _)| one.key.cmp(&other.key));
        wanted.dedup_by(|(one, _), (other, _)| one.key == other.key);
        if wanted.is_empty() || wanted.len() > MOST {
            return Err(Error::Invalid(format!(
                "a multi-lock of {} names: it must be between 1 and {MOST}",
                wanted.len()
            )));
        }
        let mut doubt = Doubt::default();
        loop {
            let taken = self.take_in_order(&wanted, owner, deadline).await;
            let left = deadline.since(clock.now());
            if let Err(error) = &taken
                && error.is_outage()
                && !left.is_zero()
            {
                doubt.note(error);
                // The locks held so far are being given back; everything starts again.
                clock
                    .sleep(jittered(wanted[0].0.poll_interval, self.handle.randomness()).min(left))
                    .await;
                continue;
            }
            let (guards, busy) = match taken {
                Ok(taken) => taken,
                Err(error) => return Err(doubt.report(error)),
            };
            let retry_after = match busy {
                // A lock may have been lost while later ones were waited for; then everything
                // starts again.
                None if guards.is_held() => return Ok(MultiAcquireOutcome::Acquired(guards)),
                None => Duration::ZERO,
                Some(retry_after) => retry_after,
            };
            // Given back before the caller is told that it holds nothing.
            let _ = guards.release().await;
            if busy.is_some() || deadline.since(clock.now()).is_zero() {
                return Ok(MultiAcquireOutcome::Busy { retry_after });
            }
        }
    }

    /// Acquires one lock after another until all are held, one is lost or time is over. Returns the
    /// held locks, and when to try again if one stayed busy.
    async fn take_in_order(
        &self,
        wanted: &[(Arc<LockOptions>, Lock)],
        owner: OwnerId,
        deadline: Moment,
    ) -> Result<(MultiGuard, Option<Duration>)> {
        let clock = self.handle.clock();
        let all_options: Vec<_> = wanted.iter().map(|(options, _)| Arc::clone(options)).collect();
        let mut all = MultiGuard { guards: Vec::with_capacity(all_options.len()) };
        while all.guards.len() < all_options.len() && all.is_held() {
            let missing = &all_options[all.guards.len()..];
            let attempts = acquire::try_all(&self.handle, missing, owner).await?;
            // Guards behind the first busy lock are dropped here, which gives those locks back.
            let mut busy = None;
            for attempt in attempts {
                match attempt {
                    AcquireOutcome::Acquired(guard) => all.guards.push(guard),
                    AcquireOutcome::Busy { retry_after } => {
                        busy = Some(retry_after);
                        break;
                    }
                }
            }
            let Some(retry_after) = busy else { break };
            let left = deadline.since(clock.now());
            let waited = if left.is_zero() {
                AcquireOutcome::Busy { retry_after }
            } else {
                wanted[all.guards.len()].1.acquire(left).await?
            };
            match waited {
                AcquireOutcome::Acquired(guard) => all.guards.push(guard),
                AcquireOutcome::Busy { retry_after } => return Ok((all, Some(retry_after))),
            }
        }
        Ok((all, None))
    }
}

/// Several held locks, until the guard is released, dropped or one of them is lost.
#[derive(Debug)]
#[must_use = "a guard that is dropped gives its locks back"]
pub struct MultiGuard {
    guards: Vec<Guard>,
}

impl MultiGuard {
    /// Returns the tokens, in the order of the locks' keys.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token> {
        self.guards.iter().map(Guard::token).collect()
    }

    /// Returns how long all of them are certain to be held.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        self.guards.iter().map(Guard::valid_for).min().unwrap_or_default()
    }

    /// Returns `true` if no acquired lock is lost.
    fn is_held(&self) -> bool {
        !self.is_lost()
    }

    /// Returns `true` if one of them was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.guards.iter().any(Guard::is_lost)
    }

    /// Waits until one of them is lost.
    pub async fn lost(&self) {
        if !self.guards.is_empty() {
            select_all(self.guards.iter().map(|guard| Box::pin(guard.lost()))).await;
        }
    }

    /// Sets the lease of each lock to this length from now on, as [`Guard::extend`] does.
    ///
    /// Returns [`Extension::AlreadyLost`] if one was lost before.
    ///
    /// # Errors
    /// As [`Guard::extend`], for any of them; others may already use the new lease.
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    pub async fn extend(&self, lease: Duration) -> Result<Extension> {
        let each = join_all(self.guards.iter().map(|guard| guard.extend(lease)));
        let extended = together(each.await)?;
        Ok(match extended.contains(&Extension::AlreadyLost) {
            true => Extension::AlreadyLost,
            false => Extension::Extended,
        })
    }

    /// Gives all locks back. Returns [`Release::AlreadyLost`] if one was lost before.
    ///
    /// # Errors
    /// As [`Guard::release`], for any of them.
    pub async fn release(self) -> Result<Release> {
        let released = together(join_all(self.guards.into_iter().map(Guard::release)).await)?;
        Ok(match released.contains(&Release::AlreadyLost) {
            true => Release::AlreadyLost,
            false => Release::Released,
        })
    }
}
