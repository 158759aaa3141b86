//! Tracks whether a cache's copies in this process are used, and so whether its message counter has to
//! be watched.
//!
//! Copies in memory are only as good as the last comparison of what was heard with what was sent
//! (`subscriber.rs`). Comparing costs a command, again and again, for every process and cache; most
//! caches of most processes are idle most of the time. So the comparison rests when there is nothing to
//! compare for, and when no reader asked for a while; a copy that is found while it rests is not served:
//! that read goes to Redis, and the subscriber begins again.
//!
//! ```text
//!            nothing is held                      not used for a while
//! VACANT ◄────────────────── AWAKE ⇄ USED ──────────────────────────► ASLEEP
//!    └── first copy: at once ──▲         ▲── use: after one comparison ──┘
//! ```
//!
//! Invariant: what is served was compared since the state was last `ASLEEP`, or was read from Redis
//! since it was last `VACANT`.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const VACANT: u8 = 0;
const ASLEEP: u8 = 1;
const AWAKE: u8 = 2;
const USED: u8 = 3;
const ENDED: u8 = 4;

/// The state of one cache in this process.
#[derive(Debug)]
pub(crate) struct Attention {
    state: AtomicU8,
    woken: Notify,
}

impl Attention {
    pub(crate) fn new() -> Self {
        Attention { state: AtomicU8::new(AWAKE), woken: Notify::new() }
    }

    /// Returns whether what is found from now on may be served, and notes that it is used.
    #[inline]
    pub(crate) fn serves(&self) -> bool {
        self.state.load(Ordering::Acquire) == USED || self.first_use()
    }

    #[inline(never)]
    fn first_use(&self) -> bool {
        match self.turn(AWAKE, USED) {
            // Where nothing is held nothing old is found.
            Ok(_) | Err(USED | VACANT) => true,
            Err(ASLEEP) => {
                self.woken.notify_one();
                false
            }
            Err(_) => false,
        }
    }

    /// Notes that something is held from now on, which was read from Redis just now.
    #[inline]
    pub(crate) fn occupied(&self) {
        if self.state.load(Ordering::Acquire) == VACANT && self.turn(VACANT, USED).is_ok() {
            self.woken.notify_one();
        }
    }

    /// Returns whether it was used since this was last asked.
    pub(crate) fn was_used(&self) -> bool {
        self.turn(USED, AWAKE).is_ok()
    }

    /// Stops comparing because nothing is held. Returns false if something was stored meanwhile.
    pub(crate) fn leave(&self, is_vacant: impl Fn() -> bool) -> bool {
        // It has left before, when it was woken by something else than a copy: a new connection.
        if !is_vacant() || !matches!(self.turn(AWAKE, VACANT), Ok(_) | Err(VACANT)) {
            return false;
        }
        if is_vacant() {
            return true;
        }
        // Stored between the look and the turn, when no message would have been received.
        let _ = self.turn(VACANT, AWAKE);
        false
    }

    /// Stops comparing and serving what is held. Returns false if it was used meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        self.turn(AWAKE, ASLEEP).is_ok()
    }

    /// Notes that what is held was compared just now.
    pub(crate) fn compared(&self) {
        let _ = self.turn(ASLEEP, USED);
    }

    /// Waits until there is something to compare for.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Ends serving, because no task listens any more.
    pub(crate) fn end(&self) {
        self.state.store(ENDED, Ordering::Release);
    }

    fn turn(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn what_slept_is_served_after_a_comparison() {
        let attention = Attention::new();
        assert!(attention.serves());
        assert!(!attention.sleep(), "it is used");
        assert!(attention.was_used() && !attention.was_used());
        assert!(attention.sleep());
        assert!(!attention.serves());
        assert!(attention.woken().now_or_never().is_some(), "the listener is told");
        assert!(!attention.serves(), "not before it has compared");
        attention.compared();
        assert!(attention.serves());
        attention.end();
        assert!(!attention.serves());
    }

    #[test]
    fn the_first_copy_wakes_at_once() {
        let attention = Attention::new();
        assert!(!attention.leave(|| false));
        assert!(attention.leave(|| true));
        assert!(attention.leave(|| true), "a new connection made the listener compare");
        assert!(attention.woken().now_or_never().is_none());
        attention.occupied();
        assert!(attention.woken().now_or_never().is_some());
        assert!(attention.serves());
    }

    #[test]
    fn what_was_stored_while_it_left_is_seen() {
        let attention = Attention::new();
        let asked = std::cell::Cell::new(0);
        let is_vacant = || {
            asked.set(asked.get() + 1);
            asked.get() == 1
        };
        assert!(!attention.leave(is_vacant));
        assert!(attention.serves());
    }
}
