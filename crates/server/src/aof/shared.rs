//! State shared by the threads of one log: staged operations, the file, progress, failures.
//!
//! Two kinds of failure, distinguished because they end differently:
//! - *The disk accepts no more bytes.* The file is truncated to its last complete record, the
//!   operations stay in memory (the engine has executed them), writes are refused, and the same
//!   operations are retried every [`PROBE_EVERY`] until they fit.
//! - *A sync failed.* The system may have dropped the pages, so a second sync proves nothing.
//!   Nothing more is released until a rewrite has put the whole state into another file.
//!
//! Locks, in the order they are taken: the appender, the staged chunks, the progress, the trouble.
//! The engine's lock, where a caller holds it, comes before all of them.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::appender::Appender;
use super::disk::Disk;
use super::frame::MAX_PAYLOAD_BYTES;
use super::sync::{Due, Progress};
use super::writer::Clock;
use crate::journal::{JournalError, Listener};

/// How often a full disk is retried.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Maximum operations kept in memory while the disk accepts none. Writes are refused meanwhile, so
/// only expiry and eviction add to them.
const MAX_STAGED_BYTES: usize = 256 << 20;

/// State shared by the host's threads, the sync thread and a rewrite.
pub(super) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Clock,
    /// `None` while operations are not logged: snapshots only.
    pub(super) appender: Mutex<Option<Appender>>,
    pub(super) staged: Mutex<Staged>,
    pub(super) progress: Mutex<Progress>,
    pub(super) wake: Condvar,
    pub(super) committed: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) size_bytes: AtomicU64,
    /// Whether there is an appender; readable without its lock, which may be held for long.
    pub(super) has_file: AtomicBool,
    pub(super) refusing: AtomicBool,
    pub(super) trouble: Mutex<Trouble>,
    pub(super) listener: Mutex<Option<Listener>>,
}

/// Operations that are not in the file yet.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Each chunk becomes one record.
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) bytes: usize,
    /// Position after the last staged operation.
    pub(super) position: u64,
    /// Operations staged since a rewrite last took them; `None` if no rewrite runs.
    pub(super) live: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
pub(super) enum Trouble {
    #[default]
    None,
    /// The disk accepts no bytes; retried at this time.
    Full { reason: String, probe_at: Duration },
    /// The file cannot be trusted any more.
    Failed { reason: String },
}

impl Shared {
    pub(super) fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Writes all staged chunks, unless another thread has the file: then that thread or the sync
    /// thread writes them. So no caller waits for a disk that another thread keeps busy.
    pub(super) fn flush(&self) -> Result<(), JournalError> {
        loop {
            let Some(appender) = try_lock(&self.appender) else {
                let mut progress = lock(&self.progress);
                progress.behind = true;
                self.wake.notify_one();
                return Ok(());
            };
            self.write_staged(appender)?;
            // Threads that came meanwhile have left their chunks to this one.
            if !self.is_behind() {
                return Ok(());
            }
        }
    }

    /// Writes all staged chunks, however long that takes.
    pub(super) fn flush_for_sure(&self) -> Result<(), JournalError> {
        self.write_staged(lock(&self.appender))
    }

    /// Refuses everything from now on, and closes the file. Writers hold the lock of the file, so
    /// nothing is written after this returns.
    pub(super) fn end(&self) {
        let mut appender = lock(&self.appender);
        *lock(&self.trouble) = Trouble::Failed { reason: "the server has ended".to_owned() };
        self.refusing.store(true, Ordering::Release);
        appender.take();
    }

    /// Returns `true` if something is staged that is not in the file.
    fn is_behind(&self) -> bool {
        lock(&self.staged).position > self.committed.load(Ordering::Acquire)
            && !self.refusing.load(Ordering::Acquire)
    }

    fn write_staged(
        &self,
        mut appender: MutexGuard<'_, Option<Appender>>,
    ) -> Result<(), JournalError> {
        if let Some(refusal) = self.refusal() {
            return Err(refusal);
        }
        let (chunks, position) = self.take_staged();
        let Some(file) = appender.as_mut() else {
            self.committed.store(position, Ordering::Release);
            lock(&self.progress).replaced(position);
            drop(appender);
            self.publish();
            return Ok(());
        };
        let mut left = chunks.into_iter();
        while let Some(chunk) = left.next() {
            if let Err(error) = file.append(&chunk) {
                self.give_back(std::iter::once(chunk).chain(left));
                return Err(self.stumble(&error));
            }
        }
        self.size_bytes.store(file.size(), Ordering::Relaxed);
        self.committed.store(position, Ordering::Release);
        let mut progress = lock(&self.progress);
        if progress.wrote(position, self.now()) {
            self.wake.notify_one();
        }
        drop(progress);
        drop(appender);
        if self.refusing.load(Ordering::Acquire) {
            self.recovered();
        }
        self.publish();
        Ok(())
    }

    /// Takes all chunks and the position after them.
    pub(super) fn take_staged(&self) -> (Vec<Vec<u8>>, u64) {
        let mut staged = lock(&self.staged);
        staged.bytes = 0;
        (mem::take(&mut staged.chunks), staged.position)
    }

    /// Puts chunks back in front of those staged meanwhile.
    pub(super) fn give_back(&self, chunks: impl Iterator<Item = Vec<u8>>) {
        let mut staged = lock(&self.staged);
        let later = mem::take(&mut staged.chunks);
        staged.chunks = chunks.chain(later).collect();
        staged.bytes = staged.chunks.iter().map(Vec::len).sum();
    }

    /// Handles a write that the disk refused: writes are refused and retried later.
    fn stumble(&self, error: &io::Error) -> JournalError {
        let staged = lock(&self.staged);
        let hopeless = staged.bytes > MAX_STAGED_BYTES
            || staged.chunks.iter().any(|chunk| chunk.len() > MAX_PAYLOAD_BYTES);
        drop(staged);
        let reason = describe(error);
        self.enter(if hopeless {
            Trouble::Failed { reason }
        } else {
            Trouble::Full { reason, probe_at: self.now() + PROBE_EVERY }
        })
    }

    /// Marks the file as not trustworthy any more. The caller may hold the appender.
    pub(super) fn distrust(&self, error: &io::Error) {
        self.enter(Trouble::Failed { reason: describe(error) });
    }

    fn enter(&self, trouble: Trouble) -> JournalError {
        if matches!(trouble, Trouble::Failed { .. }) {
            lock(&self.progress).fail();
        }
        let error = trouble.to_error().expect("only trouble is entered");
        let mut current = lock(&self.trouble);
        if !matches!(*current, Trouble::Failed { .. }) {
            *current = trouble;
        }
        self.refusing.store(true, Ordering::Release);
        drop(current);
        // Under the lock that the sync thread holds while it decides, so that it does not miss
        // this.
        let progress = lock(&self.progress);
        self.wake.notify_all();
        drop(progress);
        self.notify();
        error
    }

    /// Returns why the disk is not even tried now; a due probe passes. The caller holds the
    /// appender.
    pub(super) fn refusal(&self) -> Option<JournalError> {
        if !self.refusing.load(Ordering::Acquire) {
            return None;
        }
        let mut trouble = lock(&self.trouble);
        match &mut *trouble {
            Trouble::Full { probe_at, .. } if self.now() >= *probe_at => None,
            Trouble::Failed { .. } => {
                let error = trouble.to_error();
                drop(trouble);
                // Only a rewrite helps, and it takes the whole state from the engine. No staged
                // operation belongs after its end, because it holds the appender from then on.
                self.take_staged();
                error
            }
            _ => trouble.to_error(),
        }
    }

    /// Retries a full disk when it is time.
    pub(super) fn probe(&self) {
        if self.probe_at().is_some_and(|at| self.now() >= at) {
            // A success ends the failure, a failure sets the next probe.
            let _ = self.flush();
        }
    }

    pub(super) fn probe_at(&self) -> Option<Duration> {
        if !self.refusing.load(Ordering::Acquire) {
            return None;
        }
        match *lock(&self.trouble) {
            Trouble::Full { probe_at, .. } => Some(probe_at),
            _ => None,
        }
    }

    /// Records that the disk accepts bytes again.
    pub(super) fn recovered(&self) {
        let mut trouble = lock(&self.trouble);
        if matches!(*trouble, Trouble::Full { .. }) {
            *trouble = Trouble::None;
            self.refusing.store(false, Ordering::Release);
        }
        drop(trouble);
        self.notify();
    }

    /// Records that another file, durable up to `position`, replaced the log. The caller holds the
    /// appender.
    pub(super) fn replaced(&self, size_bytes: u64, position: u64) {
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        self.committed.store(position, Ordering::Release);
        lock(&self.progress).replaced(position);
        let mut trouble = lock(&self.trouble);
        *trouble = Trouble::None;
        self.refusing.store(false, Ordering::Release);
    }

    /// Raises `released` to what the policy allows, and calls the listener if it grew.
    pub(super) fn publish(&self) {
        let released = lock(&self.progress).released(self.now());
        if self.released.fetch_max(released, Ordering::AcqRel) < released {
            self.notify();
        }
    }

    pub(super) fn notify(&self) {
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            listener();
        }
    }

    /// The sync thread.
    pub(super) fn run(&self) {
        loop {
            let mut progress = lock(&self.progress);
            if mem::take(&mut progress.behind) {
                drop(progress);
                // A failure is kept and reported to the next writer.
                let _ = self.flush_for_sure();
                continue;
            }
            let now = self.now();
            let due = progress.due(now);
            if due == Due::Now {
                drop(self.sync(progress));
                self.publish();
                continue;
            }
            if progress.closing {
                return;
            }
            let deadline = match (due, self.probe_at()) {
                (Due::At(at), Some(probe)) => Some(at.min(probe)),
                (Due::At(at), None) => Some(at),
                (_, probe) => probe,
            };
            progress = match deadline {
                Some(at) => {
                    let timeout = at.saturating_sub(now).max(Duration::from_millis(1));
                    let woken = self.wake.wait_timeout(progress, timeout);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.wake.wait(progress).unwrap_or_else(PoisonError::into_inner),
            };
            drop(progress);
            self.probe();
        }
    }

    /// Runs one sync of the current file, with the lock released meanwhile.
    pub(super) fn sync<'a>(
        &'a self,
        mut progress: MutexGuard<'a, Progress>,
    ) -> MutexGuard<'a, Progress> {
        let generation = progress.generation;
        drop(progress);
        // The appender's lock comes before the progress lock, so the file is looked up without the
        // latter.
        let file = lock(&self.appender).as_ref().map(|appender| Arc::clone(appender.file()));
        progress = lock(&self.progress);
        let Some(file) = file else { return progress };
        if progress.generation != generation {
            return progress;
        }
        let target = progress.begin();
        drop(progress);
        let result = file.sync();
        progress = lock(&self.progress);
        if progress.generation != generation {
            return progress;
        }
        match result {
            Ok(()) => progress.synced(target),
            Err(error) => {
                progress.fail();
                drop(progress);
                self.distrust(&error);
                progress = lock(&self.progress);
            }
        }
        progress
    }
}

impl Trouble {
    pub(super) fn to_error(&self) -> Option<JournalError> {
        match self {
            Self::None => None,
            Self::Full { reason, .. } | Self::Failed { reason } => {
                Some(JournalError(reason.clone()))
            }
        }
    }
}

/// Returns the system's message alone, as Redis shows it, without the number that Rust adds.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// Takes a lock if it is free.
pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes a lock whose holder may have panicked; the guarded data is consistent between statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
