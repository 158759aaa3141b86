//! The guard of a held lock.
//!
//! `release().await` gives the lock back. If a guard is only dropped, the lease renewer gives the
//! lock back shortly afterwards. Re-entering increments a counter: the last guard of a hold gives
//! it back.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall_client::{
    Handle,
    error::{Error, Result},
    retry::Doubt,
};
use seawall_resilience::clock::Moment;

use super::{
    acquire,
    hold::Hold,
    lease_renewer::{LeaseRenewer, Ticket},
    owner::OwnerId,
    request::{self, LockRequest},
    token::Token,
};

/// A held lock, until the guard is released, dropped or lost.
///
/// A loss is permanent and is detected before the server's lease ends: either a renewal found that
/// another owner has the lock, or no renewal was confirmed in time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, lock::Release};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let lock = seawall.lock(("order", 42));
/// let guard = lock.acquire(Duration::from_secs(1)).await?.acquired().expect("the lock is free");
/// assert!(!guard.is_lost());
/// assert_eq!(guard.release().await?, Release::Released);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[must_use = "a guard that is dropped gives its lock back"]
pub struct Guard {
    held: Arc<Held>,
}

struct Held {
    handle: Handle,
    hold: Arc<Hold>,
    ticket: std::sync::Mutex<Option<Ticket>>,
    /// Locked while the lease is changed, so that changes run one after another.
    extending: tokio::sync::Mutex<()>,
    guards: AtomicUsize,
    /// `true` once the server has confirmed that this hold is gone.
    settled: AtomicBool,
}

/// Outcome of [`Guard::release`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lock that was lost did not protect what was done under it"]
pub enum Release {
    /// The lock was held until now and is free.
    Released,
    /// Another guard of the same hold, created by re-entering, still holds the lock.
    StillHeld,
    /// The lock was lost before; another owner may have held it in the meantime.
    AlreadyLost,
}

/// Outcome of [`Guard::extend`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lock that was lost is not extended"]
pub enum Extension {
    /// The lease has the requested length from now on.
    Extended,
    /// The lock was lost before.
    AlreadyLost,
}

impl Guard {
    pub(super) fn new(handle: &Handle, request: LockRequest, token: Token, before: Moment) -> Self {
        let renewed = request.options.renewed;
        let hold = Arc::new(acquire::hold(handle, request, token, before));
        let ticket = renewed.then(|| LeaseRenewer::of(handle).keep(&hold));
        let held = Held {
            handle: handle.clone(),
            hold,
            ticket: std::sync::Mutex::new(ticket),
            extending: tokio::sync::Mutex::default(),
            guards: AtomicUsize::new(1),
            settled: AtomicBool::new(false),
        };
        Guard { held: Arc::new(held) }
    }

    /// Returns the fencing token.
    ///
    /// Pass it with every operation under the lock to a resource that rejects lower tokens.
    #[must_use]
    pub fn token(&self) -> Token {
        self.held.hold.token
    }

    /// Returns the owner. Another call or process that uses it re-enters the lock.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.held.hold.request.owner
    }

    /// Returns how long the lock is certain to be held if no further renewal succeeds.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        if self.is_lost() { Duration::ZERO } else { self.held.hold.valid_for() }
    }

    /// Returns `true` if the lock was lost. Once `true`, always `true`.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.hold.is_lost()
    }

    /// Waits until the lock is lost.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) {
        self.held.hold.lost().await;
    }

    /// Re-enters the lock without asking the server. The lock is given back with the last guard.
    pub fn reenter(&self) -> Guard {
        self.held.guards.fetch_add(1, Ordering::Relaxed);
        Guard { held: Arc::clone(&self.held) }
    }

    /// Sets the lease to this length from now on, also at the server.
    ///
    /// It may be longer or shorter than before.
    ///
    /// A shorter lease applies locally at once, before the server is told. The server therefore
    /// never drops the lock before its holder does.
    ///
    /// # Errors
    /// Fails if Redis does not answer. The shorter of the two leases then applies, and the server
    /// may use the longer one. Calling `extend` again is safe.
    ///
    /// # Cancel safety
    /// As with an error: the shorter of the two leases applies.
    pub async fn extend(&self, lease: Duration) -> Result<Extension> {
        let held = &*self.held;
        request::LockOptions { lease_ttl: lease, ..(*held.hold.request.options).clone() }
            .check()?;
        let _one_at_a_time = held.extending.lock().await;
        if held.hold.is_lost() {
            return Ok(Extension::AlreadyLost);
        }
        let permission = if lease < held.hold.longest_lease() {
            held.hold.shorten(lease);
            held.keep_anew();
            held.permit_to_shorten().await?
        } else {
            held.hold.may_be_kept(lease);
            String::new()
        };
        let before = held.handle.clock().lease_now();
        let call = held.hold.request.extend(lease, &permission);
        match held.handle.client().eval::<i64>(&call).await? {
            1 if held.hold.confirm_extension(before, lease) => {
                if !permission.is_empty() {
                    held.hold.is_kept(lease);
                }
                held.keep_anew();
                Ok(Extension::Extended)
            }
            -1 => Err(Error::Unavailable("the server was told of a shorter lease too late".into())),
            _ => {
                held.hold.lose();
                Ok(Extension::AlreadyLost)
            }
        }
    }

    /// Gives the lock back.
    ///
    /// # Errors
    /// Fails if Redis does not answer. The release is then retried in the background until the
    /// lease has ended.
    ///
    /// # Cancel safety
    /// If the future is dropped, the lock is given back in the background.
    pub async fn release(self) -> Result<Release> {
        if self.held.guards.load(Ordering::Acquire) > 1 {
            // Several guards may get here at once: the one dropped last gives the lock back.
            return Ok(if self.is_lost() { Release::AlreadyLost } else { Release::StillHeld });
        }
        let held = &*self.held;
        held.stop_keeping();
        if held.hold.is_lost() {
            // Dropping the guard cleans up anything the server may still have of it.
            return Ok(Release::AlreadyLost);
        }
        let call = held.hold.request.release();
        let client = held.handle.client();
        let mut doubt = Doubt::default();
        let found = loop {
            match client.eval::<i64>(&call).await {
                // The call names exactly this hold: sending it again cannot affect another one.
                Err(error) if error.is_indeterminate() && !doubt.exists() => doubt.note(&error),
                Err(error) => return Err(doubt.report(error)),
                Ok(found) => break found,
            }
        };
        held.settled.store(true, Ordering::Release);
        // If the hold is missing at the second attempt and cannot have expired yet, the first was
        // executed.
        let released = found == 1 || (doubt.exists() && !held.hold.is_lost());
        if released {
            LeaseRenewer::of(&held.handle).metrics.released.increment(1);
            Ok(Release::Released)
        } else {
            held.hold.lose();
            Ok(Release::AlreadyLost)
        }
    }

    pub(super) fn key(&self) -> &Arc<[u8]> {
        &self.held.hold.request.options.key
    }
}

impl Held {
    fn ticket(&self) -> std::sync::MutexGuard<'_, Option<Ticket>> {
        self.ticket.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Schedules the renewals by the current lease.
    fn keep_anew(&self) {
        if let Some(ticket) = *self.ticket() {
            LeaseRenewer::of(&self.handle).keep_anew(ticket);
        }
    }

    /// Requests the server's permission to shorten the lease once. The permission expires by itself
    /// and with every change of the lease.
    async fn permit_to_shorten(&self) -> Result<String> {
        let permission = OwnerId::draw(self.handle.randomness()).to_string();
        let client = self.handle.client();
        let (key, command) = self.hold.request.permit(&permission, client.response_timeout());
        client.send(&key, &command).await?;
        Ok(permission)
    }

    fn stop_keeping(&self) {
        if let Some(ticket) = self.ticket().take() {
            LeaseRenewer::of(&self.handle).stop_keeping(ticket);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.held.guards.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let held = &*self.held;
        held.stop_keeping();
        if !held.settled.load(Ordering::Acquire) {
            let until = held.hold.forgotten(held.handle.clock().lease_now());
            LeaseRenewer::of(&held.handle).give_up(held.hold.request.clone(), until);
        }
        held.hold.given_back();
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("key", &self.key().escape_ascii().to_string())
            .field("token", &self.token())
            .field("lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}
