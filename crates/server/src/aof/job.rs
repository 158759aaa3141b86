//! The thread behind BGREWRITEAOF and BGSAVE: one rewrite or snapshot at a time.
//!
//! A slice holds the engine's lock for a moment; the thread then rests as long as the slice took,
//! so clients keep at least half of the engine's time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use seawall_engine::{Core, Logging};

use super::shared::lock;
use super::{DumpSource, Log, LogError, Rewrite, SharedSource, Step, Target};

/// The longest rest between two slices.
const LONGEST_REST: Duration = Duration::from_millis(20);
/// How long to wait for a script to end.
const SCRIPT_REST: Duration = Duration::from_millis(1);

/// Shows the engine to a rewrite.
pub(super) struct EngineSource {
    pub(super) core: Arc<Core>,
    pub(super) log: Arc<Log>,
}

impl SharedSource for EngineSource {
    fn visit(&self, look: &mut dyn FnMut(&dyn DumpSource)) -> bool {
        let mut engine = self.core.engine();
        if engine.is_scripting() {
            return false;
        }
        // Without a log file, effects are recorded only while a job needs them.
        engine.set_logging(Logging::On);
        let mut effects = Vec::new();
        engine.take_effects(&mut effects);
        self.log.stage(&effects);
        look(&*engine);
        true
    }
}

/// Outcome of a job, once it has ended.
type Outcome = Arc<Mutex<Option<Result<u64, LogError>>>>;

/// A rewrite or snapshot that runs on its own thread. Dropping it aborts the job and waits for the
/// thread.
pub(super) struct Job {
    pub(super) target: Target,
    outcome: Outcome,
    cancelled: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Job {
    /// Starts a job. Returns `None` if another one is running.
    pub(super) fn begin(source: EngineSource, target: Target) -> Result<Option<Self>, LogError> {
        let Some(rewrite) = Rewrite::begin(&source.log, target)? else { return Ok(None) };
        let outcome = Outcome::default();
        let cancelled = Arc::new(AtomicBool::new(false));
        let (report, cancel) = (Arc::clone(&outcome), Arc::clone(&cancelled));
        let thread = thread::Builder::new()
            .name("seawall-rewrite".to_owned())
            .spawn(move || {
                let result = run(rewrite, &source, &cancel);
                if !source.log.has_file() {
                    source.core.engine().set_logging(Logging::Off);
                }
                *lock(&report) = result;
            })
            .expect("the system starts one more thread");
        Ok(Some(Self { target, outcome, cancelled, thread: Some(thread) }))
    }

    /// Returns the outcome, with the size of the new file; `None` while it runs.
    pub(super) fn outcome(&self) -> Option<Result<u64, LogError>> {
        lock(&self.outcome).take()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was a bug and left the old file in place.
            let _ = thread.join();
        }
    }
}

fn run(
    mut rewrite: Rewrite,
    source: &EngineSource,
    cancelled: &AtomicBool,
) -> Option<Result<u64, LogError>> {
    while !cancelled.load(Ordering::Relaxed) {
        let started = Instant::now();
        match rewrite.step(source) {
            Ok(Step::More) => thread::sleep(started.elapsed().min(LONGEST_REST)),
            Ok(Step::Later) => thread::sleep(SCRIPT_REST),
            Ok(Step::Finished(size)) => return Some(Ok(size)),
            Err(error) => return Some(Err(error)),
        }
    }
    None
}
