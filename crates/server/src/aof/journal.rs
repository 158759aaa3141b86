//! The log as seen by the event loop: a [`Journal`] over a directory.
//!
//! It adds to [`Log`] what needs the engine: loading at start, rewrites and snapshots on their own
//! thread, the rules that begin them (growth, `save` points, a failed sync), and the facts for
//! INFO.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seawall_engine::{Core, Engine, HostInfo, Logging, Settings};

use super::disk::{DirectoryDisk, Disk};
use super::job::{EngineSource, Job};
use super::lock::DirectoryLock;
use super::open::{self, Progress};
use super::shared::lock;
use super::{Clock, Log, LogError, SNAPSHOT_FILE, Target, save_now};
use crate::journal::{Begun, Journal, JournalError, Listener, OpenJournal};
use crate::notice::{Level, Notices};

/// Delay before a failed job is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Location of a journal.
#[derive(Clone)]
#[non_exhaustive]
pub struct Place {
    /// The directory; created if it is missing.
    pub directory: PathBuf,
    /// Receives the progress of loading: bytes read, total bytes.
    pub progress: Progress,
}

impl Place {
    /// A directory, without progress reports.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), progress: Arc::new(|_, _| {}) }
    }
}

/// Creates a server's log; see [`crate::Config::journal`].
pub fn open_journal(place: Place) -> OpenJournal {
    Arc::new(move |core, notices| {
        let journal = DiskJournal::open(&place, core, notices)?;
        Ok(Arc::new(journal) as Arc<dyn Journal>)
    })
}

/// Creates a server's log on a disk of the caller, such as a simulated one. Nothing else may use
/// the disk meanwhile.
pub fn open_journal_on(disk: Arc<dyn Disk>) -> OpenJournal {
    Arc::new(move |core, notices| {
        let progress = Place::new("").progress;
        let journal = DiskJournal::on(Arc::clone(&disk), None, &progress, core, notices)?;
        Ok(Arc::new(journal) as Arc<dyn Journal>)
    })
}

/// The log of one server.
struct DiskJournal {
    log: Arc<Log>,
    core: Arc<Core>,
    disk: Arc<dyn Disk>,
    notices: Notices,
    state: Mutex<State>,
    lock: Mutex<Option<DirectoryLock>>,
}

struct State {
    job: Option<Job>,
    /// Size after the last rewrite, or at start; growth is measured against it.
    base_bytes: u64,
    rewrite_ok: bool,
    save_ok: bool,
    saved_unix: i64,
    /// A snapshot was written that the engine has not been told of.
    just_saved: bool,
    /// A rewrite begins when the running job has ended.
    rewrite_scheduled: bool,
    save_scheduled: bool,
    /// Nothing begins automatically before this time.
    not_before: Option<Instant>,
    rules: Rules,
}

/// Rules that begin rewrites and snapshots automatically.
#[derive(Default)]
struct Rules {
    appendonly: bool,
    growth_percent: u64,
    min_bytes: u64,
    /// Snapshot after this many seconds with this many changes.
    save_points: Vec<(i64, u64)>,
}

impl Rules {
    fn of(settings: &Settings) -> Self {
        let numbers: Vec<u64> =
            settings.save.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let points = numbers.chunks_exact(2);
        Self {
            appendonly: settings.appendonly,
            growth_percent: u64::try_from(settings.auto_aof_rewrite_percentage).unwrap_or(0),
            min_bytes: settings.auto_aof_rewrite_min_size,
            save_points: points
                .map(|point| (i64::try_from(point[0]).unwrap_or(i64::MAX), point[1]))
                .collect(),
        }
    }

    fn wants_rewrite(&self, size: u64, base: u64) -> bool {
        let growth = size.saturating_sub(base).saturating_mul(100) / base.max(1);
        self.growth_percent > 0 && size >= self.min_bytes && growth >= self.growth_percent
    }

    fn wants_save(&self, changes: u64, age_seconds: i64) -> bool {
        // With a log, snapshots are written only on request.
        !self.appendonly
            && self.save_points.iter().any(|&(age, most)| age_seconds > age && changes >= most)
    }
}

impl DiskJournal {
    fn open(place: &Place, core: &Arc<Core>, notices: &Notices) -> Result<Self, LogError> {
        let io = |error| LogError::Io { file: place.directory.display().to_string(), error };
        let disk = DirectoryDisk::new(&place.directory).map_err(io)?;
        let lock = DirectoryLock::take(disk.directory())?;
        Self::on(Arc::new(disk), Some(lock), &place.progress, core, notices)
    }

    fn on(
        disk: Arc<dyn Disk>,
        lock: Option<DirectoryLock>,
        progress: &Progress,
        core: &Arc<Core>,
        notices: &Notices,
    ) -> Result<Self, LogError> {
        let started = Instant::now();
        let clock: Clock = Arc::new(move || started.elapsed());
        let log = open::open(&disk, core, clock, progress, notices)?;
        let mut engine = core.engine();
        let state = State {
            job: None,
            base_bytes: log.size_bytes(),
            rewrite_ok: true,
            save_ok: true,
            saved_unix: engine.unix_seconds(),
            just_saved: false,
            rewrite_scheduled: false,
            save_scheduled: false,
            not_before: None,
            rules: Rules::of(engine.settings()),
        };
        let journal = Self {
            log: Arc::new(log),
            core: Arc::clone(core),
            disk,
            notices: notices.clone(),
            state: Mutex::new(state),
            lock: Mutex::new(lock),
        };
        journal.tell(engine.host_info());
        drop(engine);
        Ok(journal)
    }

    fn unix_seconds(&self) -> i64 {
        self.core.engine().unix_seconds()
    }

    fn source(&self) -> EngineSource {
        EngineSource { core: Arc::clone(&self.core), log: Arc::clone(&self.log) }
    }

    fn begin(&self, target: Target, now_unix: i64) -> Result<(), JournalError> {
        let mut state = lock(&self.state);
        self.finish_job(&mut state, now_unix);
        if let Some(job) = &state.job {
            // Redis: the same messages for the same situations.
            return Err(JournalError(match (target, job.target) {
                (Target::Log, Target::Log) => {
                    "Background append only file rewriting already in progress".to_owned()
                }
                (Target::Snapshot, Target::Snapshot) => {
                    "Background save already in progress".to_owned()
                }
                (Target::Snapshot, Target::Log) => {
                    "Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE \
                     SCHEDULE in order to schedule a BGSAVE whenever possible."
                        .to_owned()
                }
                (Target::Log, Target::Snapshot) => "Background save in progress".to_owned(),
            }));
        }
        match target {
            Target::Log => state.rewrite_scheduled = false,
            Target::Snapshot => state.save_scheduled = false,
        }
        let job = Job::begin(self.source(), target).map_err(JournalError::from)?;
        state.job = job;
        Ok(())
    }

    /// Handles a job that has ended.
    fn finish_job(&self, state: &mut State, now_unix: i64) {
        let Some((target, result)) =
            state.job.as_ref().and_then(|job| Some((job.target, job.outcome()?)))
        else {
            return;
        };
        state.job = None;
        let ok = result.is_ok();
        match (target, &result) {
            (Target::Log, Ok(size)) => state.base_bytes = *size,
            (Target::Snapshot, Ok(_)) => {
                state.saved_unix = now_unix;
                state.just_saved = true;
            }
            _ => {}
        }
        match target {
            Target::Log => state.rewrite_ok = ok,
            Target::Snapshot => state.save_ok = ok,
        }
        let what = if target == Target::Log { "the log was rewritten" } else { "saved" };
        match result {
            Ok(size) => self.notices.tell(Level::Notice, format_args!("{what}: {size} bytes")),
            Err(error) => {
                state.not_before = Some(Instant::now() + RETRY_AFTER);
                let text = format_args!("a rewrite or snapshot failed: {error}");
                self.notices.tell(Level::Warning, text);
            }
        }
    }

    /// Writes a snapshot while the caller holds the engine.
    fn save_locked(&self, engine: &mut Engine) -> Result<(), JournalError> {
        save_now(&self.log, engine).map_err(JournalError::from)?;
        engine.saved();
        let mut state = lock(&self.state);
        state.saved_unix = engine.unix_seconds();
        state.save_ok = true;
        drop(state);
        self.tell(engine.host_info());
        Ok(())
    }

    fn tell(&self, info: &mut HostInfo) {
        let state = lock(&self.state);
        let running = state.job.as_ref().map(|job| job.target);
        info.aof_enabled = self.log.has_file();
        info.aof_rewrite_in_progress = running == Some(Target::Log);
        info.aof_rewrite_scheduled = state.rewrite_scheduled;
        info.aof_last_bgrewrite_ok = state.rewrite_ok;
        info.aof_last_write_ok = self.log.failure().is_none();
        info.aof_current_size = self.log.size_bytes();
        info.aof_base_size = state.base_bytes;
        info.rdb_bgsave_in_progress = running == Some(Target::Snapshot);
        info.rdb_last_save_unix = state.saved_unix;
        info.rdb_last_bgsave_ok = state.save_ok;
    }
}

impl Journal for DiskJournal {
    fn stage(&self, operations: &[u8]) -> u64 {
        self.log.stage(operations)
    }

    fn commit(&self, position: u64) -> Result<(), JournalError> {
        self.log.commit(position)
    }

    fn released(&self) -> u64 {
        self.log.released()
    }

    fn failure(&self) -> Option<JournalError> {
        self.log.failure()
    }

    fn is_lost(&self) -> bool {
        self.log.needs_rewrite()
    }

    fn listen(&self, listener: Listener) {
        self.log.listen(listener);
    }

    fn close(&self) -> Result<(), JournalError> {
        let job = lock(&self.state).job.take();
        drop(job);
        let unsaved = {
            let state = lock(&self.state);
            !state.rules.appendonly && !state.rules.save_points.is_empty()
        };
        if unsaved && self.core.engine().changes_since_save() > 0 {
            self.save()?;
        }
        self.log.close()
    }

    fn release(&self) {
        self.log.end();
        drop(lock(&self.lock).take());
    }

    fn save(&self) -> Result<(), JournalError> {
        let mut engine = self.core.engine();
        let mut state = lock(&self.state);
        self.finish_job(&mut state, engine.unix_seconds());
        if state.job.as_ref().is_some_and(|job| job.target == Target::Snapshot) {
            return Err(JournalError("Background save already in progress".to_owned()));
        }
        drop(state);
        self.save_locked(&mut engine)
    }

    fn end_without_save(&self) {
        lock(&self.state).rules.save_points.clear();
    }

    fn begin_save(&self, schedule: bool) -> Result<Begun, JournalError> {
        let now = self.unix_seconds();
        let mut state = lock(&self.state);
        self.finish_job(&mut state, now);
        if schedule && state.job.as_ref().is_some_and(|job| job.target == Target::Log) {
            state.save_scheduled = true;
            return Ok(Begun::Later);
        }
        drop(state);
        self.begin(Target::Snapshot, now).map(|()| Begun::Now)
    }

    fn begin_rewrite(&self) -> Result<Begun, JournalError> {
        let now = self.unix_seconds();
        let mut state = lock(&self.state);
        self.finish_job(&mut state, now);
        if state.job.as_ref().is_some_and(|job| job.target == Target::Snapshot) {
            state.rewrite_scheduled = true;
            return Ok(Begun::Later);
        }
        drop(state);
        self.begin(Target::Log, now).map(|()| Begun::Now)
    }

    fn describe(&self, engine: &mut Engine) {
        self.finish_job(&mut lock(&self.state), engine.unix_seconds());
        self.tell(engine.host_info());
    }

    fn reload(&self) -> Result<(), JournalError> {
        let mut engine = self.core.engine();
        self.save_locked(&mut engine)?;
        engine.forget_everything();
        let logging = if self.log.has_file() || lock(&self.state).job.is_some() {
            Logging::On
        } else {
            Logging::Off
        };
        let (disk, progress) = (&*self.disk, Place::new("").progress);
        let read = open::read(disk, &mut engine, SNAPSHOT_FILE, logging, &progress, &self.notices);
        read.map(drop).map_err(JournalError::from)
    }

    fn settings_changed(&self, settings: &Settings) {
        self.log.set_policy(open::policy(settings));
        let rules = Rules::of(settings);
        let (wanted, had) = (rules.appendonly, self.log.has_file());
        lock(&self.state).rules = rules;
        if wanted && !had {
            // The log begins with a complete copy of the state; until then durability is not
            // guaranteed.
            if let Err(error) = self.begin(Target::Log, self.unix_seconds()) {
                self.notices.tell(Level::Warning, format_args!("cannot begin the log: {error}"));
            }
        } else if had && !wanted {
            self.core.engine().set_logging(Logging::Off);
            self.log.let_go();
        }
    }

    fn tick(&self, engine: &mut Engine) {
        let now = engine.unix_seconds();
        let mut state = lock(&self.state);
        self.finish_job(&mut state, now);
        if std::mem::take(&mut state.just_saved) {
            engine.saved();
        }
        let idle = state.job.is_none() && state.not_before.is_none_or(|at| Instant::now() >= at);
        let target = if !idle {
            None
        } else if state.rewrite_scheduled
            || self.log.needs_rewrite()
            || (state.rules.appendonly && !self.log.has_file())
            || (self.log.has_file()
                && state.rules.wants_rewrite(self.log.size_bytes(), state.base_bytes))
        {
            Some(Target::Log)
        } else if state.save_scheduled
            || state.rules.wants_save(engine.changes_since_save(), now - state.saved_unix)
        {
            Some(Target::Snapshot)
        } else {
            None
        };
        drop(state);
        if let Some(target) = target
            && let Err(error) = self.begin(target, now)
        {
            lock(&self.state).not_before = Some(Instant::now() + RETRY_AFTER);
            let text = format_args!("cannot begin a rewrite or snapshot: {error}");
            self.notices.tell(Level::Warning, text);
        }
        self.tell(engine.host_info());
    }
}

impl From<LogError> for JournalError {
    fn from(error: LogError) -> Self {
        Self(error.to_string())
    }
}
