//! Something that is held, and until when that is certain.
//!
//! ```text
//!   before sending          reply                       validity ends   the server's lease ends
//!        |--------------------|---------------------------------|------------|
//!        `--- validity: lease minus margin, from before sending ---'  margin
//! ```
//!
//! The lease cannot have begun before the command was sent, so it cannot end before the validity
//! does; the margin covers clocks that run at different speeds. A renewal moves the end.
//!
//! Invariant: lost is for ever. Whoever sees the end passed, be it the guard or a renewal's late
//! reply, writes that down in the same atomic in which the end stands; nothing moves it afterwards.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use metrics::Counter;
use tokio::sync::Notify;

use super::{claim::Claim, token::Token};
use crate::clock::{Clock, Moment};

/// In place of an end: lost.
const LOST: u64 = 0;
/// The margin is a hundredth of the lease and this.
const LEAST_MARGIN: Duration = Duration::from_millis(2);

/// How long a lease that was asked for at `before` is certain to last.
pub(super) fn validity(before: Moment, lease: Duration) -> Moment {
    before + lease.saturating_sub(lease / 100 + LEAST_MARGIN)
}

/// Something that is held.
pub(super) struct Hold {
    pub(super) claim: Claim,
    pub(super) token: Token,
    clock: Clock,
    /// End of the validity in the clock's nanoseconds, or [`LOST`].
    until_nanos: AtomicU64,
    lease_nanos: AtomicU64,
    /// When the lease was last asked for.
    asked_nanos: AtomicU64,
    lost: Notify,
    losses: Counter,
}

impl Hold {
    pub(super) fn new(
        claim: Claim,
        token: Token,
        before: Moment,
        clock: Clock,
        losses: Counter,
    ) -> Self {
        let lease = claim.plan.lease;
        Hold {
            token,
            clock,
            until_nanos: AtomicU64::new(validity(before, lease).as_nanos()),
            lease_nanos: AtomicU64::new(nanos(lease)),
            asked_nanos: AtomicU64::new(before.as_nanos()),
            lost: Notify::new(),
            losses,
            claim,
        }
    }

    pub(super) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease_nanos.load(Ordering::Relaxed))
    }

    /// When the lease that is in force was asked for.
    pub(super) fn asked(&self) -> Moment {
        Moment::from_nanos(self.asked_nanos.load(Ordering::Relaxed))
    }

    /// When the server has certainly forgotten this hold, renewals aside.
    pub(super) fn forgotten(&self, now: Moment) -> Moment {
        now + self.lease() + LEAST_MARGIN
    }

    /// For how long it is certain to be held.
    pub(super) fn valid_for(&self) -> Duration {
        match self.until_nanos.load(Ordering::Acquire) {
            LOST => Duration::ZERO,
            until => Moment::from_nanos(until).since(self.clock.now()),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        let until = self.until_nanos.load(Ordering::Acquire);
        if until == LOST {
            return true;
        }
        if self.trusts_itself_for_ever() || self.clock.now() < Moment::from_nanos(until) {
            return false;
        }
        // A renewal may have come in between; then it is not lost after all.
        match self.until_nanos.compare_exchange(until, LOST, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.losses.increment(1);
                self.lost.notify_waiters();
                true
            }
            Err(_) => self.is_lost(),
        }
    }

    /// The server confirmed a lease that was asked for at `before`. False when that came too late.
    pub(super) fn confirm(&self, before: Moment, lease: Duration) -> bool {
        let now = self.clock.now();
        let until = validity(before, lease).as_nanos();
        let moved = self.until_nanos.fetch_update(Ordering::AcqRel, Ordering::Acquire, |current| {
            let in_time = current != LOST
                && (now < Moment::from_nanos(current) || self.trusts_itself_for_ever());
            in_time.then_some(until)
        });
        if moved.is_err() {
            self.lose();
            return false;
        }
        self.lease_nanos.store(nanos(lease), Ordering::Relaxed);
        self.asked_nanos.store(before.as_nanos(), Ordering::Relaxed);
        true
    }

    /// It is lost.
    pub(super) fn lose(&self) {
        if self.until_nanos.swap(LOST, Ordering::AcqRel) != LOST {
            self.losses.increment(1);
        }
        self.lost.notify_waiters();
    }

    /// Waits until it is lost.
    pub(super) async fn lost(&self) {
        loop {
            let told = self.lost.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.is_lost() {
                return;
            }
            let until = Moment::from_nanos(self.until_nanos.load(Ordering::Acquire));
            if self.trusts_itself_for_ever() {
                told.await;
                continue;
            }
            tokio::select! {
                () = told => {}
                () = self.clock.sleep_until(until) => {}
            }
        }
    }

    /// A planted fault: the holder never looks at its own clock.
    #[cfg(feature = "sabotage")]
    fn trusts_itself_for_ever(&self) -> bool {
        use super::sabotage::Sabotage::{RenewalRecreatesKey, ValidityIgnored};
        matches!(self.claim.plan.sabotage, Some(ValidityIgnored | RenewalRecreatesKey))
    }

    #[cfg(not(feature = "sabotage"))]
    #[expect(clippy::unused_self, reason = "with the feature `sabotage` it looks at itself")]
    fn trusts_itself_for_ever(&self) -> bool {
        false
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{super::claim::tests::mutex, *};

    const LEASE: Duration = Duration::from_secs(10);

    fn hold(clock: &Clock) -> Hold {
        let token = Token { epoch: 1, sequence: 1 };
        Hold::new(mutex(b"lock:{a}", LEASE), token, clock.now(), clock.clone(), Counter::noop())
    }

    #[test]
    fn a_renewal_that_comes_too_late_does_not_bring_it_back() {
        let (clock, time) = Clock::manual();
        let hold = hold(&clock);
        time.advance(LEASE / 3);
        assert!(hold.confirm(clock.now(), LEASE), "in time");
        let before = clock.now();
        time.advance(LEASE);
        assert!(!hold.confirm(before, LEASE * 2), "the reply was late");
        assert!(hold.is_lost());
        assert!(!hold.confirm(clock.now(), LEASE), "lost is for ever");
        assert_eq!(hold.valid_for(), Duration::ZERO);
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
