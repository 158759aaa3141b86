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

use seawall_engine::{Core, Engine, Settings};

use crate::notice::Notices;

/// Why the log cannot take or keep what it was given. Writes are refused until it recovers.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct JournalError(pub String);

/// Called by the log, from its own thread, whenever `released` grew or the log failed.
pub type Listener = Arc<dyn Fn() + Send + Sync>;

/// Opens the log for an engine that is about to serve: replays what is stored, then begins to take
/// operations. A function, because the engine exists only once the server starts.
pub type OpenJournal =
    Arc<dyn Fn(&Arc<Core>, &Notices) -> Result<Arc<dyn Journal>, JournalError> + Send + Sync>;

/// When something begins that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// It has begun.
    Now,
    /// It begins when what is under way has ended.
    Later,
}

/// A log of the operations that changed the data.
pub trait Journal: Send + Sync {
    /// Copies encoded operations to the end of the log's memory buffer and returns the position
    /// behind them; with no operations, the position behind all so far. Runs under the engine's
    /// lock.
    fn stage(&self, operations: &[u8]) -> u64;

    /// Hands everything staged up to `position` to the operating system; returns at once when
    /// somebody else has done so.
    ///
    /// # Errors
    /// When writing failed, now or earlier: the engine then refuses writes.
    fn commit(&self, position: u64) -> Result<(), JournalError>;

    /// The position up to which replies may be delivered. Never shrinks.
    fn released(&self) -> u64;

    /// Why writes are refused now; `None` while the log works.
    fn failure(&self) -> Option<JournalError>;

    /// Whether what was not released so far may never be: replies that wait for it are dropped and
    /// their connections closed, so that nobody takes a lost write for a kept one.
    fn is_lost(&self) -> bool;

    /// Sets the function that is called when `released` grew, the log failed, or it recovered. It
    /// only wakes somebody and may be called under the log's own locks.
    fn listen(&self, listener: Listener);

    /// Writes and syncs everything staged and ends the log's threads. The last call.
    ///
    /// # Errors
    /// When the last operations could not be made durable.
    fn close(&self) -> Result<(), JournalError>;

    /// SAVE: writes a snapshot before it returns. The engine is not locked.
    ///
    /// # Errors
    /// When the snapshot could not be written.
    fn save(&self) -> Result<(), JournalError> {
        Err(JournalError("this log makes no snapshots".into()))
    }

    /// SHUTDOWN NOSAVE: [`Journal::close`] is to make no snapshot, whatever the settings say.
    fn end_without_save(&self) {}

    /// BGSAVE: begins a snapshot on a thread of the log's own; with `schedule`, once a rewrite that
    /// is under way has ended.
    ///
    /// # Errors
    /// When one is under way or cannot begin.
    fn begin_save(&self, schedule: bool) -> Result<Begun, JournalError> {
        let _ = schedule;
        Err(JournalError("this log makes no snapshots".into()))
    }

    /// BGREWRITEAOF: begins a rewrite on a thread of the log's own, once a snapshot that is under way
    /// has ended.
    ///
    /// # Errors
    /// When one is under way or cannot begin.
    fn begin_rewrite(&self) -> Result<Begun, JournalError> {
        Err(JournalError("this log cannot be rewritten".into()))
    }

    /// DEBUG RELOAD: writes everything out and reads it back before it returns.
    ///
    /// # Errors
    /// When either failed.
    fn reload(&self) -> Result<(), JournalError> {
        Err(JournalError("this log cannot be reloaded".into()))
    }

    /// CONFIG SET may have changed when the log is synced or rewritten.
    fn settings_changed(&self, settings: &Settings) {
        let _ = settings;
    }

    /// Tells INFO about the log as it is now. Runs under the engine's lock.
    fn describe(&self, engine: &mut Engine) {
        let _ = engine;
    }

    /// Does what is due every 100 ms, such as beginning an automatic rewrite, and tells INFO about
    /// the log. Runs under the engine's lock.
    fn tick(&self, engine: &mut Engine) {
        let _ = engine;
    }
}
