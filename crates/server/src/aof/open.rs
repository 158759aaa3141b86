//! Opens a data directory: takes the lock, loads what is stored, and opens the log.
//!
//! With `appendonly yes` the log is read, or the snapshot if there is no log yet; in that case a
//! complete new log is written *before* its name appears, so that no crash leaves an empty log that
//! hides the snapshot. With `appendonly no` the snapshot is read.

use std::sync::Arc;
use std::time::Instant;

use seawall_engine::{Core, Engine, Logging, Settings};

use super::disk::Disk;
use super::job::EngineSource;
use super::{
    Clock, LOG_FILE, Loaded, Log, LogError, Options, Policy, Rewrite, SNAPSHOT_FILE, Step, Target,
    load,
};
use crate::notice::{Level, Notices};

/// Reports the progress of loading: bytes read, total bytes.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Returns the sync policy of the settings.
pub(super) fn policy(settings: &Settings) -> Policy {
    let name = settings.get("appendfsync").unwrap_or_default();
    Policy::from_name(&name).unwrap_or_default()
}

/// Loads the directory's data into the engine and opens its log.
pub(super) fn open(
    disk: &Arc<dyn Disk>,
    core: &Arc<Core>,
    clock: Clock,
    progress: &Progress,
    notices: &Notices,
) -> Result<Log, LogError> {
    for leftover in [LOG_FILE, SNAPSHOT_FILE].map(|name| format!("{name}.rewrite")) {
        let io = |error| LogError::Io { file: disk.display(&leftover), error };
        disk.remove(&leftover).map_err(io)?;
    }
    let settings = core.engine().settings().clone();
    let options = Options { policy: policy(&settings), background: true };
    if !settings.appendonly {
        read(&**disk, &mut core.engine(), SNAPSHOT_FILE, Logging::Off, progress, notices)?;
        return Ok(Log::without_file(Arc::clone(disk), options, clock));
    }
    let logged = read(&**disk, &mut core.engine(), LOG_FILE, Logging::On, progress, notices)?;
    if logged.is_some() {
        return Log::open(Arc::clone(disk), logged, options, clock);
    }
    if read(&**disk, &mut core.engine(), SNAPSHOT_FILE, Logging::On, progress, notices)?.is_none() {
        return Log::open(Arc::clone(disk), None, options, clock);
    }
    let log = Arc::new(Log::without_file(Arc::clone(disk), options, clock));
    let source = EngineSource { core: Arc::clone(core), log: Arc::clone(&log) };
    let mut rewrite = Rewrite::begin(&log, Target::Log)?.expect("nothing else runs yet");
    while !matches!(rewrite.step(&source)?, Step::Finished(_)) {}
    drop((rewrite, source));
    Ok(Arc::into_inner(log).expect("the rewrite has ended and its source is gone"))
}

/// Replays one file. Returns `None` if it does not exist.
pub(super) fn read(
    disk: &dyn Disk,
    engine: &mut Engine,
    name: &str,
    logging: Logging,
    progress: &Progress,
    notices: &Notices,
) -> Result<Option<Loaded>, LogError> {
    let started = Instant::now();
    let replay = engine.begin_replay();
    let mut refused: (u64, String) = Default::default();
    let loaded = load(
        disk,
        name,
        |operation| {
            if let Err(error) = engine.replay(&replay, &operation) {
                refused.0 += 1;
                if refused.0 == 1 {
                    let command = String::from_utf8_lossy(operation.name()).into_owned();
                    refused.1 = format!("{command}: {error}");
                }
            }
            Ok(())
        },
        |read, all| progress(read, all),
    );
    engine.end_replay(replay, logging);
    let Some(loaded) = loaded? else { return Ok(None) };
    let file = disk.display(name);
    if let Some(torn) = loaded.torn {
        notices.tell(
            Level::Warning,
            format_args!(
                "{file} ends in the middle of a record: dropped {} bytes from offset {} on, which \
                 no client had been told is durable under appendfsync always",
                torn.bytes, torn.offset
            ),
        );
    }
    if refused.0 > 0 {
        let (count, first) = &refused;
        notices.tell(
            Level::Warning,
            format_args!("{file}: {count} operations were refused, the first was {first}"),
        );
    }
    notices.tell(
        Level::Notice,
        format_args!(
            "loaded {} operations ({} bytes) from {file} in {:.3} s",
            loaded.operations,
            loaded.end,
            started.elapsed().as_secs_f64()
        ),
    );
    Ok(Some(loaded))
}
