//! The log as its host sees it: stage, commit, released.
//!
//! ```text
//! host threads          stage ──▶ chunks ──▶ commit: one record a chunk ──▶ file
//! sync thread                                      fdatasync ──▶ released ──▶ listener
//! ```
//!
//! Two kinds of trouble, told apart because they end differently:
//! - *The disk takes no more bytes.* The file is cut back to its last whole record, the operations
//!   stay in memory (the engine has executed them), writes are refused, and the same operations
//!   are tried again every [`PROBE_EVERY`] until they fit.
//! - *A sync failed.* The system may have dropped the pages, so a second sync proves nothing.
//!   Nothing more is released until a rewrite has put the whole state into another file.
//!
//! Locks, in the order they are taken: the appender, the staged chunks, the progress. The engine's
//! lock, where a caller holds it, comes before all of them.

use std::fmt;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::appender::Appender;
use super::disk::Disk;
use super::frame::MAX_PAYLOAD_BYTES;
use super::reader::Loaded;
use super::sync::{Due, Policy, Progress};
use super::{LOG_FILE, LogError};
use crate::journal::{JournalError, Listener};

/// How often a full disk is tried again.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// Operations kept in memory while the disk takes none; writes are refused meanwhile, so only
/// expiry and eviction add to them.
const MAX_STAGED_BYTES: usize = 256 << 20;
/// A chunk, and so a record, ends once it is this long.
const CHUNK_BYTES: usize = 64 << 20;

/// Monotonic time since some start; injected so that simulations control it.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// How a log behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// When it is synced.
    pub policy: Policy,
    /// Whether a thread syncs by itself; without one, [`Log::turn`] must be called.
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

/// What the host's threads, the sync thread and a rewrite share.
pub(super) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    clock: Clock,
    /// `None` while operations are not logged: snapshots only.
    pub(super) appender: Mutex<Option<Appender>>,
    pub(super) staged: Mutex<Staged>,
    progress: Mutex<Progress>,
    wake: Condvar,
    committed: AtomicU64,
    released: AtomicU64,
    size_bytes: AtomicU64,
    refusing: AtomicBool,
    trouble: Mutex<Trouble>,
    listener: Mutex<Option<Listener>>,
}

/// Operations on their way to the file.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Each becomes one record.
    pub(super) chunks: Vec<Vec<u8>>,
    pub(super) bytes: usize,
    /// Position behind the last staged operation.
    pub(super) position: u64,
    /// What was staged since a rewrite last looked; `None` when none runs.
    pub(super) live: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
enum Trouble {
    #[default]
    None,
    /// The disk takes no bytes; tried again at this time.
    Full { reason: String, probe_at: Duration },
    /// The file cannot be trusted any more.
    Failed { reason: String },
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("released", &self.shared.released).finish_non_exhaustive()
    }
}

impl Log {
    /// Opens the log behind what [`super::load`] read, or a new one when there was nothing.
    ///
    /// # Errors
    /// When the file cannot be cut, created or synced.
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

    /// A log that keeps nothing, until a rewrite gives it a file; snapshots work.
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

    /// Copies operations to the staging buffer; returns the position behind them.
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

    /// Writes everything staged up to `position` at least.
    ///
    /// # Errors
    /// When the log refuses writes, now or since earlier.
    pub fn commit(&self, position: u64) -> Result<(), JournalError> {
        if self.shared.committed.load(Ordering::Acquire) >= position {
            return Ok(());
        }
        self.shared.flush()
    }

    /// The position up to which replies may be delivered. Never shrinks.
    pub fn released(&self) -> u64 {
        self.shared.released.load(Ordering::Acquire)
    }

    /// Why writes are refused; `None` while all is well.
    pub fn failure(&self) -> Option<JournalError> {
        if !self.shared.refusing.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.shared.trouble).to_error()
    }

    /// Whether only a rewrite can help: a sync failed.
    pub fn needs_rewrite(&self) -> bool {
        matches!(*lock(&self.shared.trouble), Trouble::Failed { .. })
    }

    /// Sets who is told when `released` grew or the log failed or recovered. It must only wake
    /// somebody: calling the log from it may lock up.
    pub fn listen(&self, listener: Listener) {
        *lock(&self.shared.listener) = Some(listener);
    }

    /// Bytes in the log's file; 0 without one.
    pub fn size_bytes(&self) -> u64 {
        self.shared.size_bytes.load(Ordering::Relaxed)
    }

    /// Whether operations are logged, to a file.
    pub fn has_file(&self) -> bool {
        lock(&self.shared.appender).is_some()
    }

    /// Stops logging operations; the file stays as it is.
    pub fn let_go(&self) {
        let mut appender = lock(&self.shared.appender);
        let (chunks, position) = self.shared.take_staged();
        let Some(mut file) = appender.take() else { return };
        for chunk in chunks {
            // Nobody relies on this file any more.
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

    /// Does by hand what the sync thread would do now; for hosts without threads.
    pub fn turn(&self) {
        let mut progress = lock(&self.shared.progress);
        if progress.due(self.shared.now()) == Due::Now {
            progress = self.shared.sync(progress);
        }
        drop(progress);
        self.shared.probe();
        self.shared.publish();
    }

    /// Writes and syncs everything staged and ends the sync thread.
    ///
    /// # Errors
    /// When something could not be made durable.
    pub fn close(&self) -> Result<(), JournalError> {
        let position = lock(&self.shared.staged).position;
        let written = self.commit(position);
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
        // Whoever wants to know whether this worked calls `close` first.
        let _ = self.close();
    }
}

impl Shared {
    fn now(&self) -> Duration {
        (self.clock)()
    }

    /// Writes all staged chunks.
    fn flush(&self) -> Result<(), JournalError> {
        let mut appender = lock(&self.appender);
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

    /// Takes all chunks and the position behind them.
    pub(super) fn take_staged(&self) -> (Vec<Vec<u8>>, u64) {
        let mut staged = lock(&self.staged);
        staged.bytes = 0;
        (mem::take(&mut staged.chunks), staged.position)
    }

    /// Puts chunks back in front of what was staged meanwhile.
    pub(super) fn give_back(&self, chunks: impl Iterator<Item = Vec<u8>>) {
        let mut staged = lock(&self.staged);
        let later = mem::take(&mut staged.chunks);
        staged.chunks = chunks.chain(later).collect();
        staged.bytes = staged.chunks.iter().map(Vec::len).sum();
    }

    /// The disk took no more: refuse writes and try again later.
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

    /// The file cannot be trusted any more; the caller may hold the appender.
    pub(super) fn distrust(&self, error: &io::Error) {
        self.enter(Trouble::Failed { reason: describe(error) });
    }

    fn enter(&self, trouble: Trouble) -> JournalError {
        if matches!(trouble, Trouble::Failed { .. }) {
            // Only a rewrite helps, and it takes the whole state from the engine.
            self.take_staged();
            lock(&self.progress).fail();
        }
        let error = trouble.to_error().expect("only trouble is entered");
        let mut current = lock(&self.trouble);
        if !matches!(*current, Trouble::Failed { .. }) {
            *current = trouble;
        }
        self.refusing.store(true, Ordering::Release);
        drop(current);
        // Under the lock that the sync thread decides under, so that it does not miss this.
        let progress = lock(&self.progress);
        self.wake.notify_all();
        drop(progress);
        self.notify();
        error
    }

    /// Why the disk is not even tried now; a due probe passes.
    fn refusal(&self) -> Option<JournalError> {
        if !self.refusing.load(Ordering::Acquire) {
            return None;
        }
        let mut trouble = lock(&self.trouble);
        match &mut *trouble {
            Trouble::Full { probe_at, .. } if self.now() >= *probe_at => None,
            Trouble::Failed { .. } => {
                let error = trouble.to_error();
                drop(trouble);
                self.take_staged();
                error
            }
            _ => trouble.to_error(),
        }
    }

    /// Tries a full disk again when it is time.
    fn probe(&self) {
        if self.probe_at().is_some_and(|at| self.now() >= at) {
            // A success ends the trouble, a failure sets the next probe.
            let _ = self.flush();
        }
    }

    fn probe_at(&self) -> Option<Duration> {
        if !self.refusing.load(Ordering::Acquire) {
            return None;
        }
        match *lock(&self.trouble) {
            Trouble::Full { probe_at, .. } => Some(probe_at),
            _ => None,
        }
    }

    /// The disk takes bytes again.
    fn recovered(&self) {
        let mut trouble = lock(&self.trouble);
        if matches!(*trouble, Trouble::Full { .. }) {
            *trouble = Trouble::None;
            self.refusing.store(false, Ordering::Release);
        }
        drop(trouble);
        self.notify();
    }

    /// Another file, durable up to `position`, took the log's place; the caller holds the appender.
    pub(super) fn replaced(&self, size_bytes: u64, position: u64) {
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        self.committed.store(position, Ordering::Release);
        lock(&self.progress).replaced(position);
        let mut trouble = lock(&self.trouble);
        *trouble = Trouble::None;
        self.refusing.store(false, Ordering::Release);
    }

    /// Raises `released` to what the policy allows and tells the listener if it grew.
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
    fn run(&self) {
        loop {
            let mut progress = lock(&self.progress);
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

    /// One sync of the current file, with the lock released while it runs.
    fn sync<'a>(&'a self, mut progress: MutexGuard<'a, Progress>) -> MutexGuard<'a, Progress> {
        let generation = progress.generation;
        drop(progress);
        // The appender's lock comes before the progress, so the file is looked up without it.
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
    fn to_error(&self) -> Option<JournalError> {
        match self {
            Self::None => None,
            Self::Full { reason, .. } | Self::Failed { reason } => {
                Some(JournalError(reason.clone()))
            }
        }
    }
}

/// The system's words alone, as Redis has them, without the number that Rust adds.
fn describe(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// A new log whose name appears only once its header is durable.
fn create(disk: &dyn Disk) -> io::Result<Appender> {
    let new_name = format!("{LOG_FILE}.rewrite");
    let appender = Appender::create(disk, &new_name)?;
    appender.file().sync()?;
    disk.rename(&new_name, LOG_FILE)?;
    disk.sync_directory()?;
    Ok(appender)
}

/// Takes a lock whose holder may have panicked; what it guards is consistent between statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
