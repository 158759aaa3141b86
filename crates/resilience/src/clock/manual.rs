//! A clock that stands still until it is advanced, and its timers.
//!
//! The timers are ordered by moment, then by when they were set, and are woken in that order: two runs
//! that advance the clock in the same way wake the same tasks in the same order.

use std::{
    collections::BTreeMap,
    fmt, mem,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use super::Moment;

/// Controls a manual clock.
#[derive(Clone, Default)]
pub struct ManualTime {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    nanos: AtomicU64,
    /// Total time for which the machine was suspended.
    suspended_nanos: AtomicU64,
    timers: Mutex<Timers>,
}

/// The tasks that wait.
#[derive(Default)]
struct Timers {
    waiting: BTreeMap<(Moment, u64), Waker>,
    /// Number of timers that were set, to order those of one moment.
    set: u64,
}

impl ManualTime {
    /// Advances time and wakes the tasks that waited for it.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let due = {
            let mut timers = self.timers();
            let now = self.state.nanos.load(Ordering::SeqCst).saturating_add(by);
            self.state.nanos.store(now, Ordering::SeqCst);
            let later = timers.waiting.split_off(&(Moment(now), u64::MAX));
            mem::replace(&mut timers.waiting, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Simulates a suspension of the machine: timers stand still, leases continue.
    pub fn suspend(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.state.suspended_nanos.fetch_add(by, Ordering::SeqCst);
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(self.state.nanos.load(Ordering::SeqCst))
    }

    /// Returns the current time plus all suspensions, as seen by machines that were not suspended.
    #[must_use]
    pub fn with_suspension(&self) -> Moment {
        self.now() + Duration::from_nanos(self.state.suspended_nanos.load(Ordering::SeqCst))
    }

    /// Returns the moment of the next timer; `None` if no task waits.
    #[must_use]
    pub fn next_timer(&self) -> Option<Moment> {
        self.timers().waiting.first_key_value().map(|((moment, _), _)| *moment)
    }

    /// Waits until this moment.
    pub(super) fn reached(&self, moment: Moment) -> Reached {
        Reached { time: self.clone(), moment, number: None }
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.state.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A timer.
pub(super) struct Reached {
    time: ManualTime,
    moment: Moment,
    /// Its number among the timers, once it is set.
    number: Option<u64>,
}

impl Future for Reached {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut timers = this.time.timers();
        if this.time.now() >= this.moment {
            return Poll::Ready(());
        }
        let number = *this.number.get_or_insert_with(|| {
            timers.set += 1;
            timers.set
        });
        timers.waiting.insert((this.moment, number), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.time.timers().waiting.remove(&(self.moment, number));
        }
    }
}

impl fmt::Debug for ManualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualTime").field(&self.now()).finish()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, task::noop_waker_ref};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_timers_that_are_due_are_woken_and_dropped_ones_are_gone() {
        let time = ManualTime::default();
        let mut cx = Context::from_waker(noop_waker_ref());
        let mut timers: Vec<_> = [3, 1, 2].map(|n| time.reached(time.now() + SECOND * n)).into();
        for timer in &mut timers {
            assert!(timer.poll_unpin(&mut cx).is_pending());
        }
        assert_eq!(time.next_timer(), Some(time.now() + SECOND));
        time.advance(SECOND * 2);
        let ready: Vec<bool> =
            timers.iter_mut().map(|timer| timer.poll_unpin(&mut cx).is_ready()).collect();
        assert_eq!(ready, [false, true, true]);
        assert_eq!(time.next_timer(), Some(time.now() + SECOND));
        drop(timers);
        assert_eq!(time.next_timer(), None);
    }
}
