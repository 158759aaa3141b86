//! A compact copy of the state while the server runs: log rewrites and snapshots, without fork.
//!
//! The keys are walked in a fixed order, in slices; between slices clients go on writing, and
//! everything they stage is looked at before the next slice. At any moment the new file holds,
//! for exactly the keys in front of the cursor, their current state:
//!
//! | keys of a live operation          | what happens                                      |
//! |-----------------------------------|---------------------------------------------------|
//! | all in front of the cursor        | copied                                            |
//! | all behind it                     | skipped: they will be dumped as they are then     |
//! | some in front                     | the written ones in front are dumped once more    |
//! | everywhere (FLUSHALL, FUNCTION …) | copied                                            |
//! | moves keys past it (SWAPDB)       | the rewrite starts over                           |
//!
//! The engine is already past *all* live operations when they are looked at. So a key that is
//! dumped once more has seen them all, and no other operation on it may be copied: those turn
//! into further dumps until nothing changes ([`route`]).
//!
//! A large key is put *aside*: it counts as not dumped, although the cursor has passed it, until it
//! was dumped in slices of its own. Meanwhile the file holds a part of it, which follows the
//! operations on the key (`seawall_engine::Part`).
//!
//! When the cursor is through: sync, then under the log's own lock the last operations, another
//! sync, rename, sync of the directory. The old log receives everything until then, so a crash at
//! any point finds one complete file.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use seawall_engine::effects::{self, Effects, Operation};
use seawall_engine::{Cursor, Engine, Frozen, Part, Reach, Slice, Touch};

use super::appender::Appender;
use super::shared::{Shared, lock, try_lock};
use super::writer::Log;
use super::{LOG_FILE, LogError, SNAPSHOT_FILE};

/// Encoded bytes a slice aims at.
const SLICE_BYTES: usize = 64 << 10;
/// The new file is synced whenever it grew by this much, so that the last sync is short and those of
/// the log do not queue behind a long one.
const SYNC_EVERY_BYTES: u64 = 4 << 20;
/// How often operations like SWAPDB may start a rewrite over; then it is done in one slice.
const MAX_RESTARTS: u32 = 4;

/// What a rewrite needs from the engine.
pub trait DumpSource {
    /// Dumps keys from `cursor` on until about `budget_bytes` are encoded; the first slice also
    /// dumps what belongs to no key. Large keys are listed instead. Returns where to go on, `None` at
    /// the end.
    fn dump_slice(
        &self,
        cursor: Cursor,
        budget_bytes: usize,
        out: &mut Effects,
        large: &mut Vec<Part>,
    ) -> Option<Cursor>;

    /// Whether a key is dumped in parts.
    fn is_large(&self, db: u32, key: &[u8]) -> bool;

    /// Dumps more of a large key.
    fn dump_part(&self, part: &mut Part, budget_bytes: usize, out: &mut Effects) -> Slice;

    /// Follows an operation on a key that is dumped in part; no when it is to be begun anew.
    fn follow(&self, part: &mut Part, operation: &Operation<'_>, out: &mut Effects) -> bool;

    /// Brings what is dumped of a key up to date, behind all operations on it; no when it is to be
    /// begun anew.
    fn catch_up(&self, part: &mut Part, out: &mut Effects) -> bool;

    /// Dumps one key as `DEL` and the commands that rebuild it, if it exists.
    fn dump_key(&self, db: u32, key: &[u8], out: &mut Effects);

    /// Where a key is, or would be; stable while the key lives. It is dumped when this is in front
    /// of the cursor.
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

/// Gives a rewrite its looks at the engine.
pub trait SharedSource: Send + Sync {
    /// Locks the engine, stages all its effects, and shows it to `look`. Does nothing and returns
    /// false while the engine is between two states, inside a script.
    fn visit(&self, look: &mut dyn FnMut(&dyn DumpSource)) -> bool;
}

/// What a rewrite produces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A new log in the old one's place.
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

/// How far a rewrite is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Call again.
    More,
    /// Call again a little later: a script runs.
    Later,
    /// The new file, of this many bytes, is in place.
    Finished(u64),
}

/// A rewrite under way. Dropping it gives up: the old file stays.
pub struct Rewrite {
    shared: Arc<Shared>,
    target: Target,
    file: Option<Appender>,
    /// Everything in front is dumped; `None` means all is.
    cursor: Option<Cursor>,
    /// Large keys in front of the cursor that are not dumped, or only the first of them in part.
    aside: VecDeque<Part>,
    restarts: u32,
    synced_bytes: u64,
    settled: bool,
}

impl Rewrite {
    /// Starts a rewrite; `None` when one is under way.
    ///
    /// # Errors
    /// When the new file cannot be created.
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
            cursor: Some(Cursor::START),
            aside: VecDeque::new(),
            restarts: 0,
            synced_bytes: 0,
            settled: false,
        };
        let created = Appender::create(&*rewrite.shared.disk, &target.new_name());
        rewrite.file = Some(created.map_err(|error| rewrite.error(error))?);
        Ok(Some(rewrite))
    }

    /// Does the next slice; blocks for a slice's time in the engine and for the disk outside it.
    ///
    /// # Errors
    /// When the disk refuses; the old file stays and the rewrite is to be dropped.
    pub fn step(&mut self, source: &dyn SharedSource) -> Result<Step, LogError> {
        let step = if self.cursor.is_some() || !self.aside.is_empty() {
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
            let live = self.take_live();
            start_over |= !route(&live, self.cursor, &mut self.aside, engine, &mut out);
            if start_over {
                out.clear();
                self.cursor = Some(Cursor::START);
                self.aside.clear();
            }
            while self.dump_more(engine, &mut out, &mut frozen) && whole {
                thaw(&mut frozen, &mut out);
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
        // Nobody holds the engine here.
        for part in frozen.iter().flat_map(Frozen::parts) {
            append(file, &part)?;
        }
        if file.size() >= self.synced_bytes + SYNC_EVERY_BYTES {
            file.file().sync()?;
            self.synced_bytes = file.size();
        }
        Ok(Step::More)
    }

    /// Dumps one slice; no when there is nothing left.
    fn dump_more(
        &mut self,
        engine: &dyn DumpSource,
        out: &mut Effects,
        frozen: &mut Vec<Frozen>,
    ) -> bool {
        if let Some(part) = self.aside.front_mut() {
            match engine.dump_part(part, SLICE_BYTES, out) {
                Slice::More => return true,
                Slice::Done => {}
                Slice::Frozen(value) => frozen.push(value),
            }
            self.aside.pop_front();
            return true;
        }
        let Some(cursor) = self.cursor else { return false };
        let mut large = Vec::new();
        self.cursor = engine.dump_slice(cursor, SLICE_BYTES, out, &mut large);
        self.aside.extend(large);
        true
    }

    /// Syncs the bulk while clients go on.
    fn settle(&mut self) -> io::Result<Step> {
        self.file.as_ref().expect("a rewrite has its file until it finishes").file().sync()?;
        self.settled = true;
        Ok(Step::More)
    }

    /// The last operations, and the new file takes the old one's place.
    fn finish(&mut self, source: &dyn SharedSource) -> io::Result<Step> {
        let shared = Arc::clone(&self.shared);
        let mut out = Effects::new();
        let mut taken = None;
        let mut busy = false;
        let visited = source.visit(&mut |engine| {
            // The engine does not wait for somebody who writes; this comes again.
            let appender = match (self.target, try_lock(&shared.appender)) {
                (Target::Snapshot, _) => None,
                (Target::Log, None) => {
                    busy = true;
                    return;
                }
                (Target::Log, appender) => appender,
            };
            let live = self.take_live();
            let routed = route(&live, None, &mut self.aside, engine, &mut out);
            debug_assert!(routed, "behind the end nothing can be out of place");
            lock(&shared.staged).live = None;
            // The engine goes on from here; what it stages now belongs behind the new file's end.
            taken = appender.map(|appender| (appender, shared.take_staged()));
        });
        if !visited || busy {
            return Ok(Step::Later);
        }
        let mut file = self.file.take().expect("a rewrite has its file until it finishes");
        let placed = append(&mut file, &out).and_then(|()| {
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
            // A failure is kept for whoever writes next.
            let _ = shared.flush();
            return Err(error);
        }
        let directory = shared.disk.sync_directory();
        match &directory {
            Ok(()) => shared.replaced(size, position),
            // A crash may find either file, so neither may be relied on.
            Err(error) => shared.distrust(error),
        }
        let old = appender.replace(file);
        shared.has_file.store(true, Ordering::Release);
        drop(appender);
        // Freeing a large file's blocks takes time, and nobody waits here.
        drop(old);
        directory?;
        // What was staged meanwhile was left to us; a failure is kept for whoever writes next.
        let _ = shared.flush();
        shared.publish();
        shared.notify();
        Ok(Step::Finished(size))
    }

    fn take_live(&self) -> Vec<u8> {
        lock(&self.shared.staged).live.as_mut().map(std::mem::take).unwrap_or_default()
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

/// Writes the whole state in one go, for SAVE and SHUTDOWN; the caller holds the engine.
///
/// # Errors
/// When the disk refuses; the old snapshot stays.
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

/// Puts frozen values where they belong, behind what was dumped before them.
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

/// Translates live operations for a file that holds the keys in front of `cursor` except those
/// aside; false when the rewrite must start over.
fn route(
    live: &[u8],
    cursor: Option<Cursor>,
    aside: &mut VecDeque<Part>,
    engine: &dyn DumpSource,
    out: &mut Effects,
) -> bool {
    if cursor == Some(Cursor::START) {
        return true;
    }
    let mut known = Vec::new();
    for operation in effects::operations(live) {
        let operation = operation.expect("the engine encodes whole operations");
        if cursor.is_none() && aside.is_empty() {
            out.copy(&operation);
            continue;
        }
        let mut touches = Vec::new();
        let reach = engine.reach(&operation, &mut touches);
        if reach == Reach::Shuffles {
            return false;
        }
        known.push((operation, reach, touches));
    }
    let dumped = |touch: &Touch<'_>| {
        let passed = cursor.is_none_or(|cursor| engine.place(touch.db, touch.key) < cursor);
        passed && !aside.iter().any(|part| is_of(part, touch))
    };
    let mut again: HashSet<(u32, &[u8])> = HashSet::new();
    loop {
        let before = again.len();
        for (_, _, touches) in &known {
            let inside = touches.iter().filter(|touch| dumped(touch)).count();
            let mixed = inside > 0 && inside < touches.len();
            if mixed || touches.iter().any(|touch| again.contains(&(touch.db, touch.key))) {
                let written = touches.iter().filter(|touch| touch.written && dumped(touch));
                again.extend(written.map(|touch| (touch.db, touch.key)));
            }
        }
        if again.len() == before {
            break;
        }
    }
    for (operation, reach, touches) in &known {
        let copied = match reach {
            Reach::Everywhere => true,
            _ => {
                !touches.is_empty()
                    && touches
                        .iter()
                        .all(|touch| dumped(touch) && !again.contains(&(touch.db, touch.key)))
            }
        };
        if copied {
            out.copy(operation);
        }
    }
    if let Some(part) = aside.front_mut().filter(|part| part.done > 0) {
        bring_along(part, &known, engine, out);
    }
    for (db, key) in again {
        if engine.is_large(db, key) {
            out.push(db, &[b"DEL", key]);
            aside.push_back(Part::new(db, key));
        } else {
            engine.dump_key(db, key, out);
        }
    }
    true
}

fn is_of(part: &Part, touch: &Touch<'_>) -> bool {
    part.db == touch.db && *part.key == *touch.key
}

/// Lets what the file holds of a key follow the operations on it.
fn bring_along(
    part: &mut Part,
    known: &[(Operation<'_>, Reach, Vec<Touch<'_>>)],
    engine: &dyn DumpSource,
    out: &mut Effects,
) {
    let mut on = true;
    for (operation, reach, touches) in known {
        let written = touches.iter().any(|touch| touch.written && is_of(part, touch));
        on = on
            && match reach {
                Reach::Everywhere => false,
                _ => !written || engine.follow(part, operation, out),
            };
    }
    if !on || !engine.catch_up(part, out) {
        part.restart(out);
    }
}

#[cfg(test)]
mod tests;
