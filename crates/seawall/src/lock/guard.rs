//! What one has while one holds a lock.
//!
//! Giving back is `release().await`; a guard that is merely dropped leaves a note with the keeper,
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

use super::{
    acquire,
    claim::{self, Claim},
    hold::Hold,
    keeper::Ticket,
    owner::OwnerId,
    token::Token,
};
use crate::{Seawall, clock::Moment, error::Result};

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
    seawall: Seawall,
    hold: Arc<Hold>,
    ticket: std::sync::Mutex<Option<Ticket>>,
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
    pub(super) fn new(seawall: &Seawall, claim: Claim, token: Token, before: Moment) -> Self {
        let renewed = claim.plan.renewed;
        let hold = Arc::new(acquire::hold(seawall, claim, token, before));
        let ticket = renewed.then(|| seawall.keeper().keep(&hold));
        let held = Held {
            seawall: seawall.clone(),
            hold,
            ticket: std::sync::Mutex::new(ticket),
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
        self.held.hold.claim.owner
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

    /// Makes the lease this long from now on, at the server too.
    ///
    /// # Errors
    /// When Redis does not answer; the lease that was in force stays, or is the longer one.
    pub async fn extend(&self, lease: Duration) -> Result<Extension> {
        let hold = &self.held.hold;
        claim::Plan { lease, ..(*hold.claim.plan).clone() }.check()?;
        if hold.is_lost() {
            return Ok(Extension::AlreadyLost);
        }
        let before = self.held.seawall.clock().now();
        let call = claim::renew(&[(&hold.claim, lease)]);
        let renewed: Vec<i64> = self.held.seawall.link().eval(&call).await?;
        if renewed.first() == Some(&1) && hold.confirm(before, lease) {
            // The renewals go by the new lease from now on.
            let keeper = self.held.seawall.keeper();
            let mut ticket = self.held.ticket();
            if let Some(old) = ticket.take() {
                keeper.stop_keeping(old);
                *ticket = Some(keeper.keep(hold));
            }
            return Ok(Extension::Extended);
        }
        hold.lose();
        Ok(Extension::AlreadyLost)
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
        let call = held.hold.claim.release();
        let link = held.seawall.link();
        let mut reply = link.eval::<i64>(&call).await;
        let mut unknown = false;
        if reply.as_ref().is_err_and(crate::Error::is_indeterminate) {
            // It names this very hold: sending it again can hit nothing else.
            unknown = true;
            reply = link.eval(&call).await;
        }
        let found = reply?;
        held.settled.store(true, Ordering::Release);
        // Not there the second time, and it cannot have expired yet: the first was carried out.
        let released = found == 1 || (unknown && !held.hold.is_lost());
        if released {
            held.seawall.keeper().metrics.released.increment(1);
            Ok(Release::Released)
        } else {
            held.hold.lose();
            Ok(Release::AlreadyLost)
        }
    }

    pub(super) fn key(&self) -> &Arc<[u8]> {
        &self.held.hold.claim.plan.key
    }
}

impl Held {
    fn ticket(&self) -> std::sync::MutexGuard<'_, Option<Ticket>> {
        self.ticket.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn stop_keeping(&self) {
        if let Some(ticket) = self.ticket().take() {
            self.seawall.keeper().stop_keeping(ticket);
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
            let until = held.hold.forgotten(held.seawall.clock().now());
            held.seawall.keeper().give_up(held.hold.claim.clone(), until);
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
