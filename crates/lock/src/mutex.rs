//! [`Lock`]: the options of a lock and the ways to acquire it.

use std::{fmt, sync::Arc, time::Duration};

use seawall_client::{
    Handle, KeyPart,
    error::{Error, Result},
};

use super::{
    acquire::{self, AcquireOutcome},
    owner::OwnerId,
    request::{Kind, LockOptions, Replicas},
};

/// Default lease. Renewed every ten seconds; after a crash the lock stays held for at most this
/// long.
const LEASE: Duration = Duration::from_secs(30);
/// Default interval between attempts while waiting: the maximum delay that a lost message causes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A lock identified by its name. Cheap to clone; the value itself holds nothing.
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
///         // Pass `guard.token()` with every write made here.
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

impl Lock {
    /// Creates a mutex with this name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl KeyPart) -> Self {
        Lock::of_kind(handle, "lock", &name, Kind::Mutex)
    }

    /// Creates a mutex that is granted in the order of the requests, across all processes.
    #[must_use]
    pub fn fair(handle: &Handle, name: impl KeyPart) -> Self {
        Lock::of_kind(handle, "fair", &name, Kind::Fair)
    }

    /// Creates a semaphore with this many permits, each held by its own lease.
    ///
    /// All users of the name must pass the same number: each call enforces only the number it was
    /// given.
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

    /// Sets the lease: how long the server keeps the lock for a holder that does not renew it.
    /// Default: 30 seconds.
    ///
    /// With a lease below three response time-outs, a single slow reply may lose the lock.
    #[must_use]
    pub fn lease_ttl(self, lease: Duration) -> Self {
        self.change(|options| options.lease_ttl = lease)
    }

    /// Disables renewal: the lock is lost when the lease ends, and the holder is notified just
    /// before.
    #[must_use]
    pub fn fixed(self) -> Self {
        self.change(|options| options.renewed = false)
    }

    /// Sets the maximum interval between attempts while waiting, which is also the maximum delay
    /// that a lost message causes. Default: 1 second.
    #[must_use]
    pub fn poll_interval(self, pause: Duration) -> Self {
        self.change(|options| options.poll_interval = pause)
    }

    /// Sets the owner.
    ///
    /// If this owner already holds the lock, here or in another process, the call re-enters it.
    #[must_use]
    pub fn owner(mut self, owner: OwnerId) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Requires `count` replicas to acknowledge the acquisition within `limit`.
    ///
    /// Otherwise the lock is given back and the attempt fails with `NOREPLICAS`. Costs one
    /// connection per attempt.
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

    /// Returns the options after validation.
    pub(super) fn options(&self) -> Result<Arc<LockOptions>> {
        let options = self.options.as_ref().map_err(Error::clone)?;
        options.check()?;
        Ok(Arc::clone(options))
    }

    /// Tries to acquire the lock once, in one round trip.
    ///
    /// # Errors
    /// Fails if Redis does not answer or if the name or the options are invalid. Anything the
    /// server may have done is undone in the background.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing stays held.
    pub async fn try_acquire(&self) -> Result<AcquireOutcome> {
        acquire::try_acquire(&self.handle, self.options()?, self.owner).await
    }

    /// Waits at most `within` for the lock. Within one process, requests are served in order.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`]. While Redis is unavailable, the attempt is repeated until the time
    /// is over.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing stays held and the place in line is passed on.
    pub async fn acquire(&self, within: Duration) -> Result<AcquireOutcome> {
        acquire::acquire(&self.handle, self.options()?, self.owner, within).await
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("options", &self.options).finish_non_exhaustive()
    }
}
