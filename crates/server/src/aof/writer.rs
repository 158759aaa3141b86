//! The log as seen by its host: stage, commit, released.
//!
//! ```text
//! host threads          stage ──▶ chunks ──▶ commit: one record a chunk ──▶ file
//! sync thread                                      fdatasync ──▶ released ──▶ listener
//! ```
//!
//! Disk failures are handled in [`super::shared`].

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::appender::Appender;
use super::disk::Disk;
use super::reader::Loaded;
use super::shared::{Shared, Trouble, lock};
use super::sync::{Due, Policy, Progress};
use super::{LOG_FILE, LogError};
use crate::journal::{JournalError, Listener};

/// A chunk, and therefore a record, ends once it has this length.
const CHUNK_BYTES: usize = 64 << 20;

/// Monotonic time since an arbitrary start; injected so that simulations control it.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Options of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// When it is synced.
    pub policy: Policy,
    /// Whether a thread syncs automatically; otherwise [`Log::turn`] must be called.
    pub background: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { policy: Policy::default(), background: true }
    }
}

/// The writing end of a log.
pub struct Log {
    pub(super) shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("released", &self.shared.released).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens the log after what [`super::load`] read, or a new one if there was nothing.
    ///
    /// # Errors
    /// If the file cannot be truncated, created or synced.
    pub fn open(
        disk: Arc<dyn Disk>,
        loaded: Option<Loaded>,
        options: Options,
        clock: Clock,
    ) -> Result<Self, LogError> {
        let io = |error| LogError::Io { file: disk.display(LOG_FILE), error };
        let appender = match loaded {
            Some(loaded) if loaded.end > 0 => {
                let file = disk.open(LOG_FILE).map_err(io)?;
                let file = file.ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
                Appender::resume(file, loaded.end, loaded.last_sequence).map_err(io)?
            }
            _ => create(&*disk).map_err(io)?,
        };
        Ok(Self::start(disk, Some(appender), options, clock))
    }

    /// A log that stores nothing until a rewrite creates its file; snapshots work.
    pub fn without_file(disk: Arc<dyn Disk>, options: Options, clock: Clock) -> Self {
        Self::start(disk, None, options, clock)
    }

    fn start(
        disk: Arc<dyn Disk>,
        appender: Option<Appender>,
        options: Options,
        clock: Clock,
    ) -> Self {
        let shared = Arc::new(Shared {
            disk,
            clock,
            size_bytes: AtomicU64::new(appender.as_ref().map_or(0, Appender::size)),
            has_file: AtomicBool::new(appender.is_some()),
            appender: Mutex::new(appender),
            staged: Mutex::default(),
            progress: Mutex::new(Progress::new(options.policy)),
            wake: Condvar::new(),
            committed: AtomicU64::new(0),
            released: AtomicU64::new(0),
            refusing: AtomicBool::new(false),
            trouble: Mutex::default(),
            listener: Mutex::default(),
        });
        let thread = options.background.then(|| {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new().name("seawall-log".to_owned());
            thread.spawn(move || shared.run()).expect("the system starts one more thread")
        });
        Self { shared, thread: Mutex::new(thread) }
    }

    /// Copies operations to the staging buffer. Returns the position after them.
    pub fn stage(&self, operations: &[u8]) -> u64 {
        let mut staged = lock(&self.shared.staged);
        if operations.is_empty() {
            return staged.position;
        }
        staged.position += 1;
        if let Some(live) = &mut staged.live {
            live.extend_from_slice(operations);
        }
        staged.bytes += operations.len();
        match staged.chunks.last_mut() {
            Some(chunk) if chunk.len() + operations.len() <= CHUNK_BYTES => {
                chunk.extend_from_slice(operations);
            }
            _ => staged.chunks.push(operations.to_vec()),
        }
        staged.position
    }

    /// Writes everything staged, at least up to `position`.
    ///
    /// # Errors
    /// If the log refuses writes, because of a failure now or earlier.
    pub fn commit(&self, position: u64) -> Result<(), JournalError> {
        if self.shared.committed.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        self.shared.flush()
    }

    /// Returns the position up to which replies may be delivered. Never decreases.
    pub fn released(&self) -> u64 {
        self.shared.released.load(Ordering::Acquire)
    }

    /// Returns why writes are refused, or `None` if they are not.
    pub fn failure(&self) -> Option<JournalError> {
        if !self.shared.refusing.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.shared.trouble).to_error()
    }

    /// Returns `true` if only a rewrite can help: a sync failed.
    pub fn needs_rewrite(&self) -> bool {
        matches!(*lock(&self.shared.trouble), Trouble::Failed { .. })
    }

    /// Sets the listener that is called when `released` grew or the log failed or recovered. It may
    /// only wake threads or tasks: calling the log from it may deadlock.
    pub fn listen(&self, listener: Listener) {
        *lock(&self.shared.listener) = Some(listener);
    }

    /// Returns the bytes in the log's file; 0 if there is none.
    pub fn size_bytes(&self) -> u64 {
        self.shared.size_bytes.load(Ordering::Relaxed)
    }

    /// Returns `true` if operations are logged to a file.
    pub fn has_file(&self) -> bool {
        self.shared.has_file.load(Ordering::Acquire)
    }

    /// Stops logging operations; the file stays as it is.
    pub fn let_go(&self) {
        let mut appender = lock(&self.shared.appender);
        let (chunks, position) = self.shared.take_staged();
        let Some(mut file) = appender.take() else { return };
        self.shared.has_file.store(false, Ordering::Release);
        for chunk in chunks {
            // No reader relies on this file any more.
            let _ = file.append(&chunk);
        }
        let _ = file.file().sync();
        self.shared.replaced(0, position);
        drop(appender);
        self.shared.publish();
        self.shared.notify();
    }

    /// Changes the sync policy from now on.
    pub fn set_policy(&self, policy: Policy) {
        lock(&self.shared.progress).policy = policy;
        self.shared.wake.notify_all();
        self.shared.publish();
    }

    /// Does once what the sync thread would do now; for hosts without threads.
    pub fn turn(&self) {
        if std::mem::take(&mut lock(&self.shared.progress).behind) {
            // A failure is kept and reported to the next writer.
            let _ = self.shared.flush_for_sure();
        }
        let mut progress = lock(&self.shared.progress);
        if progress.due(self.shared.now()) == Due::Now {
            progress = self.shared.sync(progress);
        }
        drop(progress);
        self.shared.probe();
        self.shared.publish();
    }

    /// Refuses everything from now on and closes the file; to be called after [`Log::close`].
    pub(super) fn end(&self) {
        self.shared.end();
    }

    /// Writes and syncs everything staged, and ends the sync thread.
    ///
    /// # Errors
    /// If something could not be made durable.
    pub fn close(&self) -> Result<(), JournalError> {
        let written = self.shared.flush_for_sure();
        lock(&self.shared.progress).closing = true;
        self.shared.wake.notify_all();
        match lock(&self.thread).take() {
            Some(thread) => thread.join().expect("the sync thread does not panic"),
            None => self.turn(),
        }
        written?;
        match self.failure() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // A caller that needs the result calls `close` first.
        let _ = self.close();
    }
}

/// Creates a log whose name appears only once its header is durable.
fn create(disk: &dyn Disk) -> io::Result<Appender> {
    let new_name = format!("{LOG_FILE}.rewrite");
    let appender = Appender::create(disk, &new_name)?;
    appender.file().sync()?;
    disk.rename(&new_name, LOG_FILE)?;
    disk.sync_directory()?;
    Ok(appender)
}
