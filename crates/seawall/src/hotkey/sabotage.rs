//! Protections that tests switch off, to prove that the checkers notice (feature `sabotage`), and a
//! place where they can hold what is under way between reading an entry and storing it.
//!
//! Without the feature every question here has a constant answer.

#[cfg(not(feature = "sabotage"))]
pub(crate) const fn takes_tickets_late() -> bool {
    false
}

#[cfg(not(feature = "sabotage"))]
pub(crate) const fn skips_copies() -> bool {
    false
}

#[cfg(not(feature = "sabotage"))]
pub(crate) const fn copies_without_lease() -> bool {
    false
}

/// A fetch or a copy has read its entry and did not store it yet.
#[cfg(not(feature = "sabotage"))]
pub(crate) async fn between() {}

#[cfg(feature = "sabotage")]
pub use switches::{Held, HotSabotage};
#[cfg(feature = "sabotage")]
pub(crate) use switches::{between, copies_without_lease, skips_copies, takes_tickets_late};

#[cfg(feature = "sabotage")]
mod switches {
    use std::{
        sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
        time::Duration,
    };

    static PLANTED: AtomicU8 = AtomicU8::new(0);
    static HOLDING: AtomicBool = AtomicBool::new(false);
    static WAITING: AtomicUsize = AtomicUsize::new(0);

    /// Holds every fetch and copy of this process between reading and storing, until it is dropped.
    #[derive(Debug)]
    pub struct Held(());

    impl Held {
        /// Holds from now on.
        #[must_use]
        pub fn begin() -> Self {
            HOLDING.store(true, Ordering::SeqCst);
            Held(())
        }

        /// How many are held.
        #[must_use]
        pub fn count(&self) -> usize {
            WAITING.load(Ordering::SeqCst)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            HOLDING.store(false, Ordering::SeqCst);
        }
    }

    pub(crate) async fn between() {
        if !HOLDING.load(Ordering::SeqCst) {
            return;
        }
        WAITING.fetch_add(1, Ordering::SeqCst);
        while HOLDING.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }

    /// A bug to plant in every cache of this process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum HotSabotage {
        /// None: all protections are on.
        None = 0,
        /// A hot entry is put into memory although it was invalidated while it was fetched.
        PromoteWithoutTicket = 1,
        /// Invalidations leave copies where they are.
        SkipCopies = 2,
        /// Copies are stored although their lease is gone.
        CopyWithoutLease = 3,
    }

    impl HotSabotage {
        /// Plants this bug, and no other.
        pub fn plant(self) {
            PLANTED.store(self as u8, Ordering::SeqCst);
        }

        fn is_planted(self) -> bool {
            PLANTED.load(Ordering::Relaxed) == self as u8
        }
    }

    pub(crate) fn takes_tickets_late() -> bool {
        HotSabotage::PromoteWithoutTicket.is_planted()
    }

    pub(crate) fn skips_copies() -> bool {
        HotSabotage::SkipCopies.is_planted()
    }

    pub(crate) fn copies_without_lease() -> bool {
        HotSabotage::CopyWithoutLease.is_planted()
    }
}
