//! The seam between the event loop and the append-only log.
//!
//! The host never talks to files. It hands the operations that the engine reports to a [`Journal`]
//! and asks it how far replies may be delivered. That one number covers all sync policies: with
//! `always` it is the position that is on disk, with `everysec` the position that was written,
//! unless a sync lags by more than its bound, with `no` the position that was written.
//!
//! ```text
//! engine lock ──▶ take_effects ──▶ stage ──▶ (lock released) ──▶ commit ──▶ released() ≥ position? ──▶ reply
//! ```
//!
//! Invariants:
//! - `stage` is called with the engine's lock held, so positions follow the engine's order;
//!   therefore it only copies to memory and never waits for a disk.
//! - Whoever takes replies out of the engine has staged all effects first, under the same lock. A
//!   reply taken when the staged position was `p` is delivered only once `released() >= p`.

use std::sync::Arc;

/// Why the log cannot take or keep what it was given. Writes are refused until it recovers.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub String);

/// Called by the log, from its own thread, whenever `released` grew or the log failed.
pub type Listener = Arc<dyn Fn() + Send + Sync>;

/// A log of the operations that changed the data.
pub trait Journal: Send + Sync {
    /// Copies `count` encoded operations to the end of the log's memory buffer and returns the
    /// position behind them. Runs under the engine's lock.
    fn stage(&self, operations: &[u8], count: usize) -> u64;

    /// Hands everything staged up to `position` to the operating system; returns at once when
    /// somebody else has done so.
    ///
    /// # Errors
    /// When writing failed, now or earlier: the engine then refuses writes.
    fn commit(&self, position: u64) -> Result<(), JournalError>;

    /// The position up to which replies may be delivered. Never shrinks.
    fn released(&self) -> u64;

    /// Whether the log failed for good; `None` while it works.
    fn failure(&self) -> Option<JournalError>;

    /// Sets the function that is called when `released` grew or the log failed.
    fn listen(&self, listener: Listener);

    /// Begins a rewrite in the background; the log walks the engine in slices on its own thread.
    ///
    /// # Errors
    /// When one is under way or the log failed.
    fn begin_rewrite(&self) -> Result<(), JournalError>;

    /// Writes and syncs everything staged and ends the log's threads. The last call.
    ///
    /// # Errors
    /// When the last operations could not be made durable.
    fn close(&self) -> Result<(), JournalError>;
}
