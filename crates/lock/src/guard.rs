//! What one has while one holds a lock.
//!
//! Giving back is `release().await`; a guard that is merely dropped leaves a note with the lease renewer,
//! which gives it back a moment later. Entering again is counting: the last guard of a hold gives it
//! back.

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

/// A lock that is held, until the guard is released, dropped or lost.
///
/// Being lost is for ever, and is known before the server's lease ends: either a renewal found that
/// the lock is somebody else's, or no renewal was confirmed in time.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, lock::Release};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let lock = seawall.lock(("order", 42));
/// let guard = lock.acquire(Duration::from_secs(1)).await?.acquired().expect("nobody else is here");
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
    /// Held while the lease is changed: one change after the other.
    extending: tokio::sync::Mutex<()>,
    guards: AtomicUsize,
    /// Whether the server is known to have taken it back.
    settled: AtomicBool,
}

/// What giving back came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lock that was lost did not protect what was done under it"]
pub enum Release {
    /// It was held until now, and is free.
    Released,
    /// It is held on by another guard that entered it again.
    StillHeld,
    /// It was lost before; somebody else may have held it meanwhile.
    AlreadyLost,
}

/// What asking for more time came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a lock that was lost is not extended"]
pub enum Extension {
    /// The lease is as long as asked for, from now on.
    Extended,
    /// It was lost before.
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

    /// The fencing token: pass it along with everything that is done under the lock, to a resource
    /// that refuses lower ones.
    #[must_use]
    pub fn token(&self) -> Token {
        self.held.hold.token
    }

    /// Who holds it; may be handed to another call or process, which then enters again.
    #[must_use]
    pub fn owner(&self) -> OwnerId {
        self.held.hold.request.owner
    }

    /// For how long it is certain to be held, if no renewal succeeds any more.
    #[must_use]
    pub fn valid_for(&self) -> Duration {
        if self.is_lost() { Duration::ZERO } else { self.held.hold.valid_for() }
    }

    /// Whether it was lost; once true, always true.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.hold.is_lost()
    }

    /// Waits until it is lost.
    ///
    /// # Cancel safety
    /// Nothing happens when the future is dropped.
    pub async fn lost(&self) {
        self.held.hold.lost().await;
    }

    /// Enters again without asking the server: the lock is given back with the last guard.
    pub fn reenter(&self) -> Guard {
        self.held.guards.fetch_add(1, Ordering::Relaxed);
        Guard { held: Arc::clone(&self.held) }
    }

    /// Makes the lease this long from now on, at the server too: longer or shorter than before.
    ///
    /// A shorter lease is in force here at once, before the server is told of it. So the server
    /// never forgets the lock before its holder does.
    ///
    /// # Errors
    /// When Redis does not answer; the shorter of the two leases is in force then, and the server
    /// may go by the longer one. Extending once more is safe.
    ///
    /// # Cancel safety
    /// As with an error: the shorter of the two leases is in force.
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

    /// Gives it back.
    ///
    /// # Errors
    /// When Redis does not answer: it is tried again in the background until the lease has ended.
    ///
    /// # Cancel safety
    /// When the future is dropped, the lock is given back in the background.
    pub async fn release(self) -> Result<Release> {
        if self.held.guards.load(Ordering::Acquire) > 1 {
            // Several may get here at once: whichever is dropped last gives it back.
            return Ok(if self.is_lost() { Release::AlreadyLost } else { Release::StillHeld });
        }
        let held = &*self.held;
        held.stop_keeping();
        if held.hold.is_lost() {
            // Dropping the guard cleans up what the server may still have of it.
            return Ok(Release::AlreadyLost);
        }
        let call = held.hold.request.release();
        let client = held.handle.client();
        let mut doubt = Doubt::default();
        let found = loop {
            match client.eval::<i64>(&call).await {
                // It names this very hold: sending it again can hit nothing else.
                Err(error) if error.is_indeterminate() && !doubt.exists() => doubt.note(&error),
                Err(error) => return Err(doubt.report(error)),
                Ok(found) => break found,
            }
        };
        held.settled.store(true, Ordering::Release);
        // Not there the second time, and it cannot have expired yet: the first was carried out.
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

    /// The renewals go by the lease of now.
    fn keep_anew(&self) {
        if let Some(ticket) = *self.ticket() {
            LeaseRenewer::of(&self.handle).keep_anew(ticket);
        }
    }

    /// Asks the server for the permission to shorten the lease once. It ends by itself, and with
    /// every change of the lease.
    async fn permit_to_shorten(&self) -> Result<String> {
        let permission = OwnerId::random().to_string();
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
