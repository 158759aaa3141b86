//! Protections that tests switch off, to prove that the checkers notice (feature `sabotage`).
//!
//! Without the feature every question here has a constant answer.

/// The token that a fill is checked with; no check without one.
#[cfg(not(feature = "sabotage"))]
pub(super) fn lease_check(token: Vec<u8>) -> Vec<u8> {
    token
}

#[cfg(not(feature = "sabotage"))]
pub(super) const fn announces_first() -> bool {
    false
}

#[cfg(not(feature = "sabotage"))]
pub(super) const fn ignores_gaps() -> bool {
    false
}

#[cfg(not(feature = "sabotage"))]
pub(super) const fn trusts_the_first_message() -> bool {
    false
}

#[cfg(not(feature = "sabotage"))]
pub(super) const fn forgets_at_once() -> bool {
    false
}

#[cfg(feature = "sabotage")]
pub use switches::CacheSabotage;
#[cfg(feature = "sabotage")]
pub(super) use switches::{
    announces_first, forgets_at_once, ignores_gaps, lease_check, trusts_the_first_message,
};

#[cfg(feature = "sabotage")]
mod switches {
    use std::sync::atomic::{AtomicU8, Ordering};

    static PLANTED: AtomicU8 = AtomicU8::new(0);

    /// A bug to plant in every cache of this process.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[repr(u8)]
    pub enum CacheSabotage {
        /// None: all protections are on.
        None = 0,
        /// Loads are stored although their lease is gone.
        FillWithoutLease = 1,
        /// First levels are told before the entry is gone.
        AnnounceFirst = 2,
        /// Missing messages are not noticed.
        IgnoreGaps = 3,
        /// After a reconnect the first message is taken for the next one.
        TrustFirstMessage = 4,
        /// What was invalidated is not remembered for a server that may forget it.
        ForgetAtOnce = 5,
    }

    impl CacheSabotage {
        /// Every bug there is.
        pub const ALL: [CacheSabotage; 5] = [
            CacheSabotage::FillWithoutLease,
            CacheSabotage::AnnounceFirst,
            CacheSabotage::IgnoreGaps,
            CacheSabotage::TrustFirstMessage,
            CacheSabotage::ForgetAtOnce,
        ];

        /// Plants this bug, and no other.
        pub fn plant(self) {
            PLANTED.store(self as u8, Ordering::SeqCst);
        }

        fn is_planted(self) -> bool {
            PLANTED.load(Ordering::Relaxed) == self as u8
        }
    }

    pub(in crate::cache) fn lease_check(token: Vec<u8>) -> Vec<u8> {
        if CacheSabotage::FillWithoutLease.is_planted() { Vec::new() } else { token }
    }

    pub(in crate::cache) fn announces_first() -> bool {
        CacheSabotage::AnnounceFirst.is_planted()
    }

    pub(in crate::cache) fn ignores_gaps() -> bool {
        CacheSabotage::IgnoreGaps.is_planted()
    }

    pub(in crate::cache) fn trusts_the_first_message() -> bool {
        CacheSabotage::TrustFirstMessage.is_planted()
    }

    pub(in crate::cache) fn forgets_at_once() -> bool {
        CacheSabotage::ForgetAtOnce.is_planted()
    }
}
