//! The handle on a lock: how it is to be held, and the ways to take it.

use std::{fmt, sync::Arc, time::Duration};

use seawall_client::{
    Handle, KeyPart,
    error::{Error, Result},
};

use super::{
    acquire::{self, AcquireOutcome},
    guard::{Guard, Release},
    owner::OwnerId,
    request::{Kind, LockOptions, Replicas},
};

/// Lease of a lock that does not say otherwise. Renewed every ten seconds; what a crash costs.
const LEASE: Duration = Duration::from_secs(30);
/// Longest pause between two looks while waiting: what a lost message costs.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A lock by its name; a cheap clone that holds nothing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, lock::With};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let lock = seawall.lock(("order", 42)).lease_ttl(Duration::from_secs(10));
/// let done = lock
///     .with(Duration::from_secs(1), |guard| async move {
///         // Whatever is written here carries `guard.token()`.
///         guard.token().sequence
///     })
///     .await?;
/// assert!(matches!(done, With::Done(1)));
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Lock {
    handle: Handle,
    options: Result<Arc<LockOptions>>,
    owner: Option<OwnerId>,
}

/// What [`Lock::with`] came to.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the body may not have run"]
pub enum With<T> {
    /// The body ran to its end, and the lock was held all the time.
    Done(T),
    /// The lock was lost. The body was stopped where it waited, or had just ended with this result.
    Lost(Option<T>),
    /// Somebody else held the lock for all the time that was given.
    Busy,
}

impl Lock {
    /// A mutex by its name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl KeyPart) -> Self {
        Lock::of_kind(handle, "lock", &name, Kind::Mutex)
    }

    /// A mutex that is handed over in the order in which it was asked for, over all processes.
    #[must_use]
    pub fn fair(handle: &Handle, name: impl KeyPart) -> Self {
        Lock::of_kind(handle, "fair", &name, Kind::Fair)
    }

    /// A semaphore with so many permits, each held by a lease of its own. All who use the name must
    /// say the same number: each is held to the number that it says itself.
    #[must_use]
    pub fn semaphore(handle: &Handle, name: impl KeyPart, permits: u32) -> Self {
        Lock::of_kind(handle, "semaphore", &name, Kind::Semaphore { permits })
    }

    pub(super) fn of_kind(
        handle: &Handle,
        family: &str,
        name: &(impl KeyPart + ?Sized),
        kind: Kind,
    ) -> Self {
        let options = handle.key(family, name).map(|key| {
            Arc::new(LockOptions {
                kind,
                key: key.into(),
                lease_ttl: LEASE,
                renewed: true,
                poll_interval: POLL_INTERVAL,
                replicas: None,
            })
        });
        Lock { handle: handle.clone(), options, owner: None }
    }

    /// How long the server keeps the lock for a holder that it hears nothing of; 30 s without it.
    /// A lease below three response time-outs may be lost to a single slow reply.
    #[must_use]
    pub fn lease_ttl(self, lease: Duration) -> Self {
        self.change(|options| options.lease_ttl = lease)
    }

    /// Never renews the lease: the lock is lost when it is over, and the holder is told just before.
    #[must_use]
    pub fn fixed(self) -> Self {
        self.change(|options| options.renewed = false)
    }

    /// Longest pause between two looks while waiting, and so what a lost message can cost; 1 s
    /// without it.
    #[must_use]
    pub fn poll_interval(self, pause: Duration) -> Self {
        self.change(|options| options.poll_interval = pause)
    }

    /// Enters as this owner: if it holds the lock, here or in another process, so does this call.
    #[must_use]
    pub fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Counts as held only when so many replicas have acknowledged it within `limit`; otherwise it is
    /// given back, and the attempt fails with `NOREPLICAS`. Costs a connection for each attempt.
    #[must_use]
    pub fn replicas(self, count: u32, limit: Duration) -> Self {
        self.change(|options| options.replicas = Some(Replicas { count, limit }))
    }

    pub(super) fn change(mut self, change: impl FnOnce(&mut LockOptions)) -> Self {
        if let Ok(options) = &mut self.options {
            change(Arc::make_mut(options));
        }
        self
    }

    /// The options, if they make sense.
    pub(super) fn options(&self) -> Result<Arc<LockOptions>> {
        let options = self.options.as_ref().map_err(Error::clone)?;
        options.check()?;
        Ok(Arc::clone(options))
    }

    /// Tries once, in one round trip.
    ///
    /// # Errors
    /// When Redis does not answer, or the lock's name or options make no sense. Whatever the server
    /// may have done is given back in the background.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays held.
    pub async fn try_acquire(&self) -> Result<AcquireOutcome> {
        acquire::try_acquire(&self.handle, self.options()?, self.owner).await
    }

    /// Waits for it, at most this long. Inside one process whoever asks first gets it first.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`]; while Redis is away it is tried again until the time is over.
    ///
    /// # Cancel safety
    /// When the future is dropped, nothing stays held and the place in line is passed on.
    pub async fn acquire(&self, within: Duration) -> Result<AcquireOutcome> {
        acquire::acquire(&self.handle, self.options()?, self.owner, within).await
    }

    /// Runs `body` under the lock: waits at most `within` for it, stops the body when the lock is
    /// lost, and gives it back whatever happens. The way to use a lock.
    ///
    /// # Errors
    /// As [`Lock::acquire`]. When the body ran but the lock could not be given back, it is still
    /// [`With::Done`]: giving back goes on in the background, and the lease ends it at the latest.
    ///
    /// # Cancel safety
    /// When the future is dropped, so is the body, and the lock is given back.
    pub async fn with<T, F>(
        &self,
        within: Duration,
        body: impl FnOnce(Guard) -> F,
    ) -> Result<With<T>>
    where
        F: Future<Output = T>,
    {
        let AcquireOutcome::Acquired(guard) = self.acquire(within).await? else {
            return Ok(With::Busy);
        };
        let value = tokio::select! {
            biased;
            () = guard.lost() => return Ok(With::Lost(None)),
            value = body(guard.reenter()) => value,
        };
        let was_lost = guard.is_lost();
        match guard.release().await {
            // The body may have kept its guard; the lock is then held on.
            Ok(Release::Released | Release::StillHeld) => Ok(With::Done(value)),
            Err(_) if !was_lost => Ok(With::Done(value)),
            Ok(Release::AlreadyLost) | Err(_) => Ok(With::Lost(Some(value))),
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("options", &self.options).finish_non_exhaustive()
    }
}
