//! Counts the reads of a cache, and asks what is hot: see [`crate::hotkey`].

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::hotkey::HotKeys;

/// A cache's view of hot keys; a cheap clone.
#[derive(Clone)]
pub(crate) struct Heat {
    pub(crate) keys: HotKeys,
    pub(crate) counts: bool,
    pub(crate) hot_only: bool,
    /// Whether anything was read past the usual hit in memory since this was last asked.
    pub(crate) asked: Arc<AtomicBool>,
}

impl Heat {
    /// Returns whether to count the current read. A counted read stands for those that are not.
    #[inline]
    pub(crate) fn wants(&self) -> bool {
        self.counts && self.keys.wants_sample()
    }

    /// Counts a read.
    pub(crate) fn count(&self, entry: &[u8]) {
        self.asked.store(true, Ordering::Relaxed);
        if self.wants() {
            self.keys.sample(entry);
        }
    }

    /// Returns whether the local tier may keep this entry.
    pub(crate) fn admits(&self, entry: &[u8]) -> bool {
        !self.hot_only || self.keys.is_hot(entry)
    }
}
