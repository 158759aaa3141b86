//! A held lock, and until when it is certainly held.
//!
//! ```text
//!   before sending          reply                       validity ends   the server's lease ends
//!        |--------------------|---------------------------------|------------|
//!        `--- validity: lease minus margin, from before sending ---'  margin
//! ```
//!
//! The lease cannot have begun before the command was sent, so it cannot end before the validity
//! does. The margin covers clocks that run at different speeds. All moments are taken from
//! `Clock::lease_now`, which, like the server's clock, continues while the machine is suspended.
//!
//! Invariant: the server's lease never ends before the validity does. This depends on both sides:
//!
//! - Renewals and extensions only move the server's end later (`lease.lua`), so their confirmations
//!   only move the validity later, in whatever order they are processed.
//! - A shorter lease applies locally first, by [`Hold::shorten`], and only then is the server told.
//!   From then on a confirmation counts for no more than the current lease: a renewal with the
//!   former lease may have been executed before the shortening.
//! - The current lease grows only by [`Hold::confirm_extension`], whose call also cancels every
//!   shortening that is still in transit (`extend.lua`).
//!
//! Invariant: a loss is permanent. Any code that sees that the end has passed, be it the guard or
//! the late reply to a renewal, records the loss under the same mutex that protects the end;
//! nothing changes it afterwards.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use metrics::{Counter, Histogram};
use seawall_resilience::clock::{Clock, Moment};
use tokio::sync::Notify;

use super::{request::LockRequest, token::Token};

/// The margin is one hundredth of the lease plus this.
const LEAST_MARGIN: Duration = Duration::from_millis(2);

/// Returns until when a lease requested at `before` is certain to last.
pub(super) fn validity(before: Moment, lease: Duration) -> Moment {
    before + certain(lease)
}

/// Returns the part of a lease that is certain.
fn certain(lease: Duration) -> Duration {
    lease.saturating_sub(lease / 100 + LEAST_MARGIN)
}

/// A held lock.
pub(super) struct Hold {
    pub(super) request: LockRequest,
    pub(super) token: Token,
    clock: Clock,
    term: Mutex<Term>,
    /// Notified when the end moves earlier or the lock is lost.
    sooner: Notify,
    losses: Counter,
    /// When the lock was asked for; it cannot have been held before.
    began: Moment,
    held_seconds: Histogram,
}

/// The period for which the lock is held.
struct Term {
    /// End of the validity; `None` if the lock is lost.
    until: Option<Moment>,
    /// The current lease: renewals request it, and a confirmation counts for no more than it.
    lease: Duration,
    /// The longest lease for which the server may keep the lock.
    longest: Duration,
}

impl Hold {
    pub(super) fn new(
        request: LockRequest,
        token: Token,
        before: Moment,
        clock: Clock,
        (losses, held_seconds): (Counter, Histogram),
    ) -> Self {
        let lease = request.options.lease_ttl;
        let term = Term { until: Some(validity(before, lease)), lease, longest: lease };
        Hold {
            token,
            clock,
            term: Mutex::new(term),
            sooner: Notify::new(),
            losses,
            began: before,
            held_seconds,
            request,
        }
    }

    /// Returns the term after checking it against the clock.
    fn term(&self) -> MutexGuard<'_, Term> {
        let mut term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        if term.until.is_some_and(|until| self.clock.lease_now() >= until) {
            self.end(&mut term);
        }
        term
    }

    fn end(&self, term: &mut Term) {
        if term.until.take().is_some() {
            self.losses.increment(1);
            self.record_time();
            self.sooner.notify_waiters();
        }
    }

    /// Records how long a lock was held that is given back; a loss has recorded its own time.
    pub(super) fn given_back(&self) {
        let term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        if term.until.is_some() {
            self.record_time();
        }
    }

    fn record_time(&self) {
        self.held_seconds.record(self.clock.lease_now().since(self.began));
    }

    /// Returns the current lease.
    pub(super) fn lease(&self) -> Duration {
        self.term().lease
    }

    /// Returns the longest lease for which the server may keep the lock.
    pub(super) fn longest_lease(&self) -> Duration {
        self.term().longest
    }

    /// Returns when `1/part` of the current lease has passed since it was last requested.
    pub(super) fn passed(&self, part: u32) -> Moment {
        let term = self.term();
        let rest = certain(term.lease).saturating_sub(term.lease / part);
        term.until.unwrap_or_default() - rest
    }

    /// Returns when the server has certainly dropped this hold, unless it is renewed.
    pub(super) fn forgotten(&self, now: Moment) -> Moment {
        now + self.longest_lease() + LEAST_MARGIN
    }

    /// Returns how long the lock is certain to be held.
    pub(super) fn valid_for(&self) -> Duration {
        self.term().until.map_or(Duration::ZERO, |until| until.since(self.clock.lease_now()))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.term().until.is_none()
    }

    /// Records a confirmed renewal that was sent at `before`. Returns `false` if the lock was lost
    /// already.
    pub(super) fn confirm_renewal(&self, before: Moment, lease: Duration) -> bool {
        Self::confirm(&mut self.term(), before, lease)
    }

    /// Records a confirmed extension that was sent at `before`. Returns `false` if the lock was
    /// lost already.
    pub(super) fn confirm_extension(&self, before: Moment, lease: Duration) -> bool {
        let mut term = self.term();
        term.lease = lease;
        Self::confirm(&mut term, before, lease)
    }

    fn confirm(term: &mut Term, before: Moment, lease: Duration) -> bool {
        let Some(until) = term.until else { return false };
        term.until = Some(until.max(validity(before, lease.min(term.lease))));
        true
    }

    /// Records that the server is about to be asked for this lease.
    pub(super) fn may_be_kept(&self, lease: Duration) {
        let mut term = self.term();
        term.longest = term.longest.max(lease);
    }

    /// Records that the server keeps the lock no longer than this lease.
    pub(super) fn is_kept(&self, lease: Duration) {
        self.term().longest = lease;
    }

    /// Applies a shorter lease locally, before the server is told.
    pub(super) fn shorten(&self, lease: Duration) {
        let mut term = self.term();
        term.lease = term.lease.min(lease);
        let until = validity(self.clock.lease_now(), lease);
        if let Some(current) = term.until
            && until < current
        {
            term.until = Some(until);
            self.sooner.notify_waiters();
        }
    }

    /// Records the loss of the lock.
    pub(super) fn lose(&self) {
        let mut term = self.term();
        self.end(&mut term);
    }

    /// Waits until the lock is lost.
    pub(super) async fn lost(&self) {
        loop {
            let sooner = self.sooner.notified();
            tokio::pin!(sooner);
            sooner.as_mut().enable();
            let Some(until) = self.term().until else { return };
            tokio::select! {
                biased;
                () = sooner => {}
                () = self.clock.sleep_until_lease(until) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{super::request::tests::mutex, *};

    const LEASE: Duration = Duration::from_secs(10);

    fn hold(clock: &Clock) -> Hold {
        let token = Token { epoch: 1, sequence: 1 };
        Hold::new(
            mutex(b"lock:{a}", LEASE),
            token,
            clock.lease_now(),
            clock.clone(),
            (Counter::noop(), Histogram::noop()),
        )
    }

    #[test]
    fn a_renewal_that_comes_too_late_does_not_bring_it_back() {
        let (clock, time) = Clock::manual();
        let hold = hold(&clock);
        time.advance(LEASE / 3);
        assert!(hold.confirm_renewal(clock.lease_now(), LEASE), "in time");
        let before = clock.lease_now();
        time.advance(LEASE);
        assert!(!hold.confirm_extension(before, LEASE * 2), "the reply was late");
        assert!(hold.is_lost());
        assert!(!hold.confirm_renewal(clock.lease_now(), LEASE), "lost is for ever");
        assert_eq!(hold.valid_for(), Duration::ZERO);
    }

    #[test]
    fn confirmations_in_any_order_end_at_the_longest() {
        let (clock, time) = Clock::manual();
        let hold = hold(&clock);
        let renewal = clock.lease_now();
        time.advance(LEASE / 4);
        let extension = clock.lease_now();
        assert!(hold.confirm_extension(extension, LEASE * 60));
        let valid = hold.valid_for();
        assert!(hold.confirm_renewal(renewal, LEASE), "sent before, judged after");
        assert_eq!((hold.valid_for(), hold.lease()), (valid, LEASE * 60));
        assert_eq!(hold.passed(3), extension + LEASE * 20, "renewals go by the longer lease");
    }

    #[test]
    fn a_shorter_lease_bounds_what_confirmations_count_for() {
        let (clock, time) = Clock::manual();
        let hold = hold(&clock);
        let before = clock.lease_now();
        time.advance(LEASE / 10);
        hold.shorten(LEASE / 5);
        let valid = hold.valid_for();
        assert!(valid < LEASE / 5, "believed before it is told");
        assert!(hold.confirm_renewal(before, LEASE), "sent with the former lease");
        assert_eq!(hold.valid_for(), valid);
        assert_eq!(hold.forgotten(clock.lease_now()), clock.lease_now() + LEASE + LEAST_MARGIN);
        assert!(hold.confirm_extension(clock.lease_now(), LEASE * 2), "longer again");
        assert!(hold.valid_for() > LEASE);
    }

    #[tokio::test]
    async fn lost_is_told_before_the_lease_ends() {
        let (clock, time) = Clock::manual();
        let hold = Arc::new(hold(&clock));
        let told = tokio::spawn({
            let hold = Arc::clone(&hold);
            async move { hold.lost().await }
        });
        tokio::task::yield_now().await;
        time.advance(LEASE - LEASE / 100 - LEAST_MARGIN);
        told.await.expect("it only waited");
        assert!(hold.is_lost());
    }
}
