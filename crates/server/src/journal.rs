//! The interface between the event loop and the append-only log.
//!
//! The host never accesses files. It passes the operations that the engine reports to a [`Journal`]
//! and asks it how far replies may be delivered. That one number covers all sync policies: with
//! `always` it is the position that is on disk; with `everysec` the position that was written,
//! unless a sync lags by more than its bound; with `no` the position that was written.
//!
//! ```text
//! engine lock ──▶ take_effects ──▶ stage ──▶ (lock released) ──▶ commit ──▶ released() ≥ position? ──▶ reply
//! ```
//!
//! Invariants:
//! - `stage` is called with the engine's lock held, so positions follow the engine's order.
//!   Therefore it only copies to memory and never waits for a disk.
//! - A thread that takes replies out of the engine has staged all effects first, under the same
//!   lock. A reply taken when the staged position was `p` is delivered only once `released() >= p`.

use std::sync::Arc;

use seawall_engine::{Core, Engine, Settings};

use crate::notice::Notices;

/// Reason why the log cannot accept or keep operations. Writes are refused until it recovers.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub String);

/// Called by the log when `released` grew, or when the log failed or recovered.
pub type Listener = Arc<dyn Fn() + Send + Sync>;

/// Opens the log for an engine that is about to serve: replays the stored operations, then accepts
/// new ones. A function, because the engine exists only once the server starts.
pub type OpenJournal =
    Arc<dyn Fn(&Arc<Core>, &Notices) -> Result<Arc<dyn Journal>, JournalError> + Send + Sync>;

/// Whether a requested job has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// The job has begun.
    Now,
    /// The job begins when the current one has ended.
    Later,
}

/// A log of the operations that changed the data.
pub trait Journal: Send + Sync {
    /// Copies encoded operations to the end of the log's memory buffer. Returns the position after
    /// them; without operations, the position after all previous ones. Runs under the engine's
    /// lock.
    fn stage(&self, operations: &[u8]) -> u64;

    /// Passes everything staged up to `position` to the operating system. Returns at once if
    /// another thread has done so.
    ///
    /// # Errors
    /// If writing failed, now or earlier: the engine then refuses writes.
    fn commit(&self, position: u64) -> Result<(), JournalError>;

    /// Returns the position up to which replies may be delivered. Never decreases.
    fn released(&self) -> u64;

    /// Returns why writes are refused now, or `None` while the log works.
    fn failure(&self) -> Option<JournalError>;

    /// Returns `true` if operations that are not released yet may never be. Replies that wait for
    /// them are dropped and their connections closed, so that no client takes a lost write for a
    /// durable one.
    fn is_lost(&self) -> bool;

    /// Sets the function that is called when `released` grew, the log failed, or it recovered. It
    /// may only wake threads or tasks, because it may be called under the log's own locks.
    fn listen(&self, listener: Listener);

    /// Writes and syncs everything staged, and ends the log's threads. Only [`Journal::release`] may
    /// follow.
    ///
    /// # Errors
    /// If the last operations could not be made durable.
    fn close(&self) -> Result<(), JournalError>;

    /// Gives the log's place free for another server. Nothing is written after this returns, although
    /// streams inside the process may keep the log itself alive.
    fn release(&self) {}

    /// SAVE: writes a snapshot before it returns. The engine is not locked.
    ///
    /// # Errors
    /// If the snapshot could not be written.
    fn save(&self) -> Result<(), JournalError> {
        Err(JournalError("this log makes no snapshots".into()))
    }

    /// SHUTDOWN NOSAVE: tells [`Journal::close`] to write no snapshot, whatever the settings say.
    fn end_without_save(&self) {}

    /// BGSAVE: begins a snapshot on a thread of the log; with `schedule`, after a running rewrite
    /// has ended.
    ///
    /// # Errors
    /// If one is running or cannot begin.
    fn begin_save(&self, schedule: bool) -> Result<Begun, JournalError> {
        let _ = schedule;
        Err(JournalError("this log makes no snapshots".into()))
    }

    /// BGREWRITEAOF: begins a rewrite on a thread of the log, after a running snapshot has ended.
    ///
    /// # Errors
    /// If one is running or cannot begin.
    fn begin_rewrite(&self) -> Result<Begun, JournalError> {
        Err(JournalError("this log cannot be rewritten".into()))
    }

    /// DEBUG RELOAD: writes everything out and reads it back before it returns.
    ///
    /// # Errors
    /// If either failed.
    fn reload(&self) -> Result<(), JournalError> {
        Err(JournalError("this log cannot be reloaded".into()))
    }

    /// Called when CONFIG SET may have changed when the log is synced or rewritten.
    fn settings_changed(&self, settings: &Settings) {
        let _ = settings;
    }

    /// Writes the present state of the log to INFO. Runs under the engine's lock.
    fn describe(&self, engine: &mut Engine) {
        let _ = engine;
    }

    /// Does the work that is due every 100 ms, such as beginning an automatic rewrite, and updates
    /// INFO. Runs under the engine's lock.
    fn tick(&self, engine: &mut Engine) {
        let _ = engine;
    }
}
