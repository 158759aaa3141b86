//! A compact copy of the state while the server runs: log rewrites and snapshots, without fork.
//!
//! The keys are walked in a fixed order, in slices. Between slices clients continue to write, and
//! everything they stage is processed before the next slice. At any moment the new file holds, for
//! exactly the keys in front of the cursor, their current state:
//!
//! | keys of a live operation          | what happens                                      |
//! |-----------------------------------|---------------------------------------------------|
//! | all in front of the cursor        | copied                                            |
//! | all behind it                     | skipped: they will be dumped as they are then     |
//! | some in front                     | the written ones in front are dumped once more    |
//! | everywhere (FLUSHALL, FUNCTION …) | copied                                            |
//! | moves keys past it (SWAPDB)       | the rewrite starts over                           |
//!
//! A key that must be dumped once more, or that is large, is put *aside* ([`route`]): it counts as
//! not dumped, although the cursor has passed it, until it was dumped by itself. Of a large key the
//! file holds a part meanwhile, which follows the operations on it (`seawall_engine::Part`).
//!
//! The engine has already executed *all* live operations while only some of them are processed. So
//! keys are dumped only when none is left: otherwise an operation would be copied after a dump that
//! already includes it. Both the operations and the bytes of one slice are bounded, because clients
//! wait meanwhile.
//!
//! When the cursor has reached the end: sync; then, under the log's own lock, the last operations,
//! another sync, rename, sync of the directory. The old log receives everything until then, so a
//! crash at any point finds one complete file.

mod route;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seawall_engine::effects::{self, Effects, Operation};
use seawall_engine::{Cursor, Engine, Frozen, Part, Reach, Slice, Touch};

use self::route::Held;
use super::appender::Appender;
use super::shared::{Shared, lock, try_lock};
use super::writer::Log;
use super::{LOG_FILE, LogError, SNAPSHOT_FILE};

/// Target size of a slice in encoded bytes.
const SLICE_BYTES: usize = 64 << 10;
/// Maximum live operations per slice.
const SLICE_OPERATIONS: usize = 1000;
/// Maximum bytes of operations that may be left for the moment when the new file replaces the old
/// one.
const LAST_BYTES: usize = 1 << 20;
/// Maximum number of times that the end is postponed because more than that is left.
const MAX_DELAYS: u32 = 16;
/// The new file is synced whenever it grew by this much, so that the last sync is short and syncs
/// of the log do not queue behind a long one.
const SYNC_EVERY_BYTES: u64 = 4 << 20;
/// Maximum number of times that operations like SWAPDB may restart a rewrite; after that it is done
/// in one slice.
const MAX_RESTARTS: u32 = 4;

/// What a rewrite needs from the engine.
pub trait DumpSource {
    /// Dumps keys from `cursor` on until about `budget_bytes` are encoded. The first slice also
    /// dumps what belongs to no key. Large keys are listed instead. Returns the next cursor, or
    /// `None` at the end.
    fn dump_slice(
        &self,
        cursor: Cursor,
        budget_bytes: usize,
        out: &mut Effects,
        large: &mut Vec<Part>,
    ) -> Option<Cursor>;

    /// Returns `true` if a key is dumped in parts.
    fn is_large(&self, db: u32, key: &[u8]) -> bool;

    /// Dumps more of a large key.
    fn dump_part(&self, part: &mut Part, budget_bytes: usize, out: &mut Effects) -> Slice;

    /// Applies an operation to a partly dumped key. Returns `false` if its dump must start over.
    fn follow(&self, part: &mut Part, operation: &Operation<'_>, out: &mut Effects) -> bool;

    /// Brings the dumped part of a key up to date, after all operations on it. Returns `false` if
    /// its dump must start over.
    fn catch_up(&self, part: &mut Part, out: &mut Effects) -> bool;

    /// Dumps one key as `DEL` and the commands that rebuild it, if it exists.
    fn dump_key(&self, db: u32, key: &[u8], out: &mut Effects);

    /// Returns where a key is, or would be; stable while the key exists. It is dumped if this is in
    /// front of the cursor.
    fn place(&self, db: u32, key: &[u8]) -> Cursor;

    /// Lists the keys of an operation.
    fn reach<'a>(&self, operation: &Operation<'a>, touches: &mut Vec<Touch<'a>>) -> Reach;
}

impl DumpSource for Engine {
    fn dump_slice(
        &self,
        cursor: Cursor,
        budget_bytes: usize,
        out: &mut Effects,
        large: &mut Vec<Part>,
    ) -> Option<Cursor> {
        self.dump_small(cursor, budget_bytes, out, large)
    }

    fn is_large(&self, db: u32, key: &[u8]) -> bool {
        self.is_large(db, key)
    }

    fn dump_part(&self, part: &mut Part, budget_bytes: usize, out: &mut Effects) -> Slice {
        self.dump_part(part, budget_bytes, out)
    }

    fn follow(&self, part: &mut Part, operation: &Operation<'_>, out: &mut Effects) -> bool {
        self.follow(part, operation, out)
    }

    fn catch_up(&self, part: &mut Part, out: &mut Effects) -> bool {
        self.catch_up(part, out)
    }

    fn dump_key(&self, db: u32, key: &[u8], out: &mut Effects) {
        self.dump_key(db, key, out);
    }

    fn place(&self, db: u32, key: &[u8]) -> Cursor {
        self.place(db, key)
    }

    fn reach<'a>(&self, operation: &Operation<'a>, touches: &mut Vec<Touch<'a>>) -> Reach {
        self.reach(operation, touches)
    }
}

/// Gives a rewrite access to the engine.
pub trait SharedSource: Send + Sync {
    /// Locks the engine, stages all its effects, and passes it to `look`. Does nothing and returns
    /// `false` while the engine is inside a script, between two states.
    fn visit(&self, look: &mut dyn FnMut(&dyn DumpSource)) -> bool;
}

/// What a rewrite produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A new log that replaces the old one.
    Log,
    /// A snapshot beside the log, valid for the moment it finished.
    Snapshot,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Log => LOG_FILE,
            Self::Snapshot => SNAPSHOT_FILE,
        }
    }

    fn new_name(self) -> String {
        format!("{}.rewrite", self.name())
    }
}

/// Progress of a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Call again.
    More,
    /// Call again a little later, for example because a script runs.
    Later,
    /// The new file, of this many bytes, is in place.
    Finished(u64),
}

/// A running rewrite. Dropping it aborts it: the old file stays.
pub struct Rewrite {
    shared: Arc<Shared>,
    target: Target,
    file: Option<Appender>,
    held: Held,
    /// Live operations that are not processed yet, and how much of the first batch is.
    backlog: VecDeque<Vec<u8>>,
    looked_at: usize,
    restarts: u32,
    delays: u32,
    synced_bytes: u64,
    settled: bool,
}

impl Rewrite {
    /// Starts a rewrite. Returns `None` if one is running.
    ///
    /// # Errors
    /// If the new file cannot be created.
    pub fn begin(log: &Log, target: Target) -> Result<Option<Self>, LogError> {
        let shared = Arc::clone(&log.shared);
        let mut staged = lock(&shared.staged);
        if staged.live.is_some() {
            return Ok(None);
        }
        staged.live = Some(Vec::new());
        drop(staged);
        let mut rewrite = Self {
            shared,
            target,
            file: None,
            held: Held::nothing(),
            backlog: VecDeque::new(),
            looked_at: 0,
            restarts: 0,
            delays: 0,
            synced_bytes: 0,
            settled: false,
        };
        let created = Appender::create(&*rewrite.shared.disk, &target.new_name());
        rewrite.file = Some(created.map_err(|error| rewrite.error(error))?);
        Ok(Some(rewrite))
    }

    /// Does the next slice. Blocks for a slice's time in the engine, and for the disk outside it.
    ///
    /// # Errors
    /// If the disk refuses; the old file stays and the rewrite must be dropped.
    pub fn step(&mut self, source: &dyn SharedSource) -> Result<Step, LogError> {
        let step = if !self.held.is_all() || !self.backlog.is_empty() {
            self.slice(source)
        } else if !self.settled {
            self.settle()
        } else {
            self.finish(source)
        };
        step.map_err(|error| self.error(error))
    }

    fn slice(&mut self, source: &dyn SharedSource) -> io::Result<Step> {
        let mut out = Effects::new();
        let mut frozen = Vec::new();
        let mut start_over = false;
        let whole = self.restarts >= MAX_RESTARTS;
        let visited = source.visit(&mut |engine| {
            self.take_live();
            let most = if whole { usize::MAX } else { SLICE_OPERATIONS };
            start_over |= !self.route(engine, most, &mut out);
            if start_over {
                out.clear();
                self.held = Held::nothing();
                self.backlog.clear();
                self.looked_at = 0;
            }
            self.held.catch_up(engine, &mut out);
            if self.backlog.is_empty() {
                self.dump(engine, whole, &mut out, &mut frozen);
            }
        });
        if !visited {
            return Ok(Step::Later);
        }
        let file = self.file.as_mut().expect("a rewrite has its file until it finishes");
        if start_over {
            self.restarts += 1;
            self.synced_bytes = 0;
            file.restart(&*self.shared.disk)?;
        }
        append(file, &out)?;
        // The engine is not locked here.
        for part in frozen.iter().flat_map(Frozen::parts) {
            append(file, &part)?;
        }
        if file.size() >= self.synced_bytes + SYNC_EVERY_BYTES {
            file.file().sync()?;
            self.synced_bytes = file.size();
        }
        Ok(Step::More)
    }

    /// Processes up to `most` live operations. Returns `false` if the rewrite must start over.
    fn route(&mut self, engine: &dyn DumpSource, most: usize, out: &mut Effects) -> bool {
        if self.held.is_nothing() {
            self.backlog.clear();
            self.looked_at = 0;
            return true;
        }
        let mut left = most;
        while let Some(batch) = self.backlog.front() {
            let mut operations = effects::operations(&batch[self.looked_at..]);
            for operation in operations.by_ref().take(left) {
                left -= 1;
                let operation = operation.expect("the engine encodes whole operations");
                if !self.held.route(&operation, engine, out) {
                    return false;
                }
            }
            self.looked_at += operations.offset();
            if self.looked_at < batch.len() {
                return true;
            }
            self.backlog.pop_front();
            self.looked_at = 0;
        }
        true
    }

    /// Dumps a slice, or everything, up to a value that is frozen.
    fn dump(
        &mut self,
        engine: &dyn DumpSource,
        whole: bool,
        out: &mut Effects,
        frozen: &mut Vec<Frozen>,
    ) {
        let enough = out.as_bytes().len() + SLICE_BYTES;
        while frozen.is_empty() && !self.held.is_all() {
            let budget = match enough.saturating_sub(out.as_bytes().len()) {
                0 if !whole => return,
                budget => budget,
            };
            if let Some(part) = self.held.next_aside() {
                match engine.dump_part(part, budget, out) {
                    Slice::More => continue,
                    Slice::Done => {}
                    Slice::Frozen(value) => frozen.push(value),
                }
                self.held.take_back();
            } else if let Some(cursor) = self.held.cursor {
                let mut large = Vec::new();
                self.held.cursor = engine.dump_slice(cursor, budget, out, &mut large);
                large.into_iter().for_each(|part| self.held.put_aside(part));
            }
            if whole {
                thaw(frozen, out);
            }
        }
    }

    /// Syncs most of the file while clients continue.
    fn settle(&mut self) -> io::Result<Step> {
        let live = self.live();
        let file = self.file.as_mut().expect("a rewrite has its file until it finishes");
        if !live.is_empty() {
            file.append(&live)?;
        }
        file.file().sync()?;
        self.delays += 1;
        self.settled = live.len() <= LAST_BYTES || self.delays >= MAX_DELAYS;
        Ok(Step::More)
    }

    /// Writes the last operations and replaces the old file with the new one.
    fn finish(&mut self, source: &dyn SharedSource) -> io::Result<Step> {
        let shared = Arc::clone(&self.shared);
        let mut live = Vec::new();
        let mut taken = None;
        let mut busy = false;
        let visited = source.visit(&mut |_| {
            // The engine must not wait for another writer; this is retried.
            let appender = match (self.target, try_lock(&shared.appender)) {
                (Target::Snapshot, _) => None,
                (Target::Log, None) => {
                    busy = true;
                    return;
                }
                (Target::Log, appender) => appender,
            };
            live = self.live();
            lock(&shared.staged).live = None;
            // The engine continues from here; what it stages now belongs after the new file's end.
            taken = appender.map(|appender| (appender, shared.take_staged()));
        });
        if !visited || busy {
            return Ok(Step::Later);
        }
        let mut file = self.file.take().expect("a rewrite has its file until it finishes");
        let last = if live.is_empty() { Ok(()) } else { file.append(&live) };
        let placed = last.and_then(|()| {
            file.file().sync()?;
            shared.disk.rename(&self.target.new_name(), self.target.name())
        });
        let size = file.size();
        let Some((mut appender, (chunks, position))) = taken else {
            placed?;
            shared.disk.sync_directory()?;
            return Ok(Step::Finished(size));
        };
        if let Err(error) = placed {
            shared.give_back(chunks.into_iter());
            drop(appender);
            // A failure is kept and reported to the next writer.
            let _ = shared.flush();
            return Err(error);
        }
        let directory = shared.disk.sync_directory();
        match &directory {
            Ok(()) => shared.replaced(size, position),
            // A crash may find either file, so neither can be relied on.
            Err(error) => shared.distrust(error),
        }
        let old = appender.replace(file);
        shared.has_file.store(true, Ordering::Release);
        drop(appender);
        // Freeing a large file's blocks takes time; no client waits for it here.
        drop(old);
        directory?;
        // Operations staged meanwhile were left to this thread; a failure is kept for the next
        // writer.
        let _ = shared.flush();
        shared.publish();
        shared.notify();
        Ok(Step::Finished(size))
    }

    /// Takes the operations that clients staged since the last call.
    fn live(&self) -> Vec<u8> {
        lock(&self.shared.staged).live.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn take_live(&mut self) {
        let live = self.live();
        if !live.is_empty() {
            self.backlog.push_back(live);
        }
    }

    fn error(&self, error: io::Error) -> LogError {
        LogError::Io { file: self.shared.disk.display(&self.target.new_name()), error }
    }
}

impl Drop for Rewrite {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            lock(&self.shared.staged).live = None;
            // A leftover is harmless: the next start removes it.
            let _ = self.shared.disk.remove(&self.target.new_name());
        }
    }
}

/// Writes the whole state at once, for SAVE and SHUTDOWN. The caller holds the engine's lock.
///
/// # Errors
/// If the disk refuses; the old snapshot stays.
pub fn save_now(log: &Log, source: &dyn DumpSource) -> Result<u64, LogError> {
    let disk = &*log.shared.disk;
    let new_name = format!("{SNAPSHOT_FILE}.save");
    let save = || -> io::Result<u64> {
        let mut file = Appender::create(disk, &new_name)?;
        let mut cursor = Some(Cursor::START);
        while let Some(from) = cursor {
            let (mut out, mut large) = (Effects::new(), Vec::new());
            cursor = source.dump_slice(from, SLICE_BYTES, &mut out, &mut large);
            append(&mut file, &out)?;
            for mut part in large {
                save_part(&mut file, source, &mut part)?;
            }
        }
        file.file().sync()?;
        disk.rename(&new_name, SNAPSHOT_FILE)?;
        disk.sync_directory()?;
        Ok(file.size())
    };
    save().map_err(|error| {
        let _ = disk.remove(&new_name);
        LogError::Io { file: disk.display(&new_name), error }
    })
}

fn save_part(file: &mut Appender, source: &dyn DumpSource, part: &mut Part) -> io::Result<()> {
    loop {
        let mut out = Effects::new();
        let slice = source.dump_part(part, SLICE_BYTES, &mut out);
        append(file, &out)?;
        match slice {
            Slice::More => {}
            Slice::Done => return Ok(()),
            Slice::Frozen(value) => {
                return value.parts().try_for_each(|part| append(file, &part));
            }
        }
    }
}

/// Inserts frozen values where they belong, after what was dumped before them.
fn thaw(frozen: &mut Vec<Frozen>, out: &mut Effects) {
    for value in frozen.drain(..) {
        for part in value.parts() {
            part.iter().flatten().for_each(|operation| out.copy(&operation));
        }
    }
}

fn append(file: &mut Appender, out: &Effects) -> io::Result<()> {
    if out.is_empty() { Ok(()) } else { file.append(out.as_bytes()) }
}

#[cfg(test)]
mod tests;
