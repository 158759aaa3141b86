//! A [`RecoveryLog`] in files, for services without an outbox table.
//!
//! One file a cache, to which rows and removals are appended; when most of it is of no more use it is
//! written anew. Every step runs on a thread for blocking work under a lock on the directory, so
//! several processes may share it: a process that starts replays what one that died has left.
//!
//! ```text
//! (padding:8? magic:2 kind:u8 id:u64 length:u32 entry checksum:u64)*     what does not fit is skipped
//! ```
//!
//! Invariant: what [`RecoveryLog::add`] has answered for is on the disk, the file's name in its
//! directory included.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use seawall_resilience::random::Randomness;

use crate::recovery::log::{LogFuture, RecoveryLog, RecoveryRow};

const MAGIC: [u8; 2] = [0xc5, b'R'];
const ADDED: u8 = 1;
const REMOVED: u8 = 2;
/// Written before each append: a process may have died in the middle of the last one. A checksum that
/// was cut off could be completed by the first bytes of what comes next, which would then be lost;
/// these bytes are no loss.
const PADDING: [u8; 8] = [0; 8];

/// A [`RecoveryLog`] in a file for each cache. Processes of one machine may share the directory.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use seawall::{Seawall, cache::{Cache, FileRecoveryLog}};
///
/// # let folder = tempfile::tempdir()?;
/// # let directory = folder.path().join("recovery");
/// let log = Arc::new(FileRecoveryLog::open(directory)?);
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").recovery_log(log).build()?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug)]
pub struct FileRecoveryLog {
    directory: Arc<Path>,
    randomness: Randomness,
}

impl FileRecoveryLog {
    /// Opens a log in this directory, which is created if it does not exist.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory)?;
        Ok(FileRecoveryLog { directory: directory.into(), randomness: Randomness::system() })
    }

    /// Sets the source of the rows' ids. Default: the system's.
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Runs one step on a blocking thread, alone on the directory.
    fn step<'a, T: Send + 'static>(
        &'a self,
        cache: &str,
        step: impl FnOnce(&Place) -> io::Result<T> + Send + 'static,
    ) -> LogFuture<'a, T> {
        let (directory, cache) = (Arc::clone(&self.directory), cache.to_owned());
        Box::pin(async move {
            let work = tokio::task::spawn_blocking(move || {
                let lock =
                    OpenOptions::new().create(true).append(true).open(directory.join("lock"))?;
                // Given back when the file is closed.
                // What `File::lock` does, which needs Rust 1.89.
                rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
                step(&Place::new(&directory, &cache))
            });
            work.await.map_err(io::Error::other)?
        })
    }
}

impl RecoveryLog for FileRecoveryLog {
    fn add<'a>(&'a self, cache: &'a str, entries: &'a [Vec<u8>]) -> LogFuture<'a, ()> {
        let mut bytes = Vec::new();
        for entry in entries {
            // Never reused: a late removal of a row removes no other row.
            Record { kind: ADDED, id: self.randomness.u64() | 1, entry }.write(&mut bytes);
        }
        self.step(cache, move |place| place.append(&bytes))
    }

    fn load<'a>(
        &'a self,
        cache: &'a str,
        after: u64,
        limit: usize,
    ) -> LogFuture<'a, Vec<RecoveryRow>> {
        self.step(cache, move |place| {
            let bytes = place.read()?;
            let (rows, _) = rows(&bytes);
            let rows = rows.range(after.saturating_add(1)..).take(limit);
            Ok(rows.map(|(id, entry)| RecoveryRow { id: *id, entry: entry.to_vec() }).collect())
        })
    }

    fn remove<'a>(&'a self, cache: &'a str, ids: &'a [u64]) -> LogFuture<'a, ()> {
        let ids = ids.to_vec();
        self.step(cache, move |place| place.remove(&ids))
    }
}

/// Where the rows of one cache are.
struct Place {
    directory: PathBuf,
    file: PathBuf,
}

impl Place {
    fn new(directory: &Path, cache: &str) -> Self {
        // Names of caches have no separators that matter to file systems, except this one.
        let file = directory.join(format!("{}.rows", cache.replace('/', "%2F")));
        Place { directory: directory.to_owned(), file }
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        match std::fs::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let is_new = !self.file.try_exists()?;
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        file.write_all(&[&PADDING, bytes].concat())?;
        file.sync_data()?;
        if is_new { self.sync_directory() } else { Ok(()) }
    }

    fn remove(&self, ids: &[u64]) -> io::Result<()> {
        let bytes = self.read()?;
        let (mut rows, records) = rows(&bytes);
        let before = rows.len();
        for id in ids {
            rows.remove(id);
        }
        if rows.len() == before {
            return Ok(());
        }
        if rows.is_empty() {
            std::fs::remove_file(&self.file)?;
            return self.sync_directory();
        }
        let mut out = Vec::new();
        if rows.len() * 2 > records {
            for id in ids {
                Record { kind: REMOVED, id: *id, entry: &[] }.write(&mut out);
            }
            return self.append(&out);
        }
        for (id, entry) in rows {
            Record { kind: ADDED, id, entry }.write(&mut out);
        }
        let new = self.file.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&out)?;
        file.sync_data()?;
        std::fs::rename(&new, &self.file)?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

/// What is written at a time.
struct Record<'a> {
    kind: u8,
    id: u64,
    entry: &'a [u8],
}

impl<'a> Record<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.push(self.kind);
        out.extend_from_slice(&self.id.to_be_bytes());
        out.extend_from_slice(&(self.entry.len() as u32).to_be_bytes());
        out.extend_from_slice(self.entry);
        let checksum = xxhash_rust::xxh3::xxh3_64(&out[start..]);
        out.extend_from_slice(&checksum.to_be_bytes());
    }

    /// Returns the record at the beginning, and what comes after it.
    fn read(bytes: &'a [u8]) -> Option<(Record<'a>, &'a [u8])> {
        let rest = bytes.strip_prefix(&MAGIC[..])?;
        let (kind, rest) = rest.split_first()?;
        let (id, rest) = rest.split_first_chunk::<8>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (entry, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        let (checksum, rest) = rest.split_first_chunk::<8>()?;
        let covered = &bytes[..bytes.len() - rest.len() - 8];
        let right = xxhash_rust::xxh3::xxh3_64(covered) == u64::from_be_bytes(*checksum);
        right.then_some((Record { kind: *kind, id: u64::from_be_bytes(*id), entry }, rest))
    }
}

/// Returns the rows that are left, and how many records the file has.
fn rows(bytes: &[u8]) -> (BTreeMap<u64, &[u8]>, usize) {
    let (mut rows, mut records, mut rest) = (BTreeMap::new(), 0, bytes);
    while !rest.is_empty() {
        let Some((record, after)) = Record::read(rest) else {
            // A write that was cut off; the next record begins somewhere behind it.
            rest = &rest[1..];
            continue;
        };
        records += 1;
        match record.kind {
            ADDED => drop(rows.insert(record.id, record.entry)),
            _ => drop(rows.remove(&record.id)),
        }
        rest = after;
    }
    (rows, records)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn entries(log: &FileRecoveryLog) -> Vec<Vec<u8>> {
        let rows = log.load("shop", 0, 1000).await.expect("readable");
        let mut entries: Vec<Vec<u8>> = rows.into_iter().map(|row| row.entry).collect();
        entries.sort();
        entries
    }

    fn names(names: &[&str]) -> Vec<Vec<u8>> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    #[tokio::test]
    async fn the_file_gives_back_what_was_added_and_bears_damage() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = FileRecoveryLog::open(folder.path()).expect("an empty folder");
        assert!(entries(&log).await.is_empty());
        log.add("shop", &names(&["a", "b"])).await.expect("room for two");
        log.add("shop", &names(&["c\0:"])).await.expect("room for one more");
        let path = folder.path().join("shop.rows");
        let bytes = std::fs::read(&path).expect("readable");
        let all = entries(&log).await;
        assert_eq!(all, names(&["a", "b", "c\0:"]));
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).expect("writable");
            log.add("shop", &names(&["z"])).await.expect("room for one more");
            let left = entries(&log).await;
            assert_eq!(left.last(), Some(&b"z".to_vec()), "added behind a cut at {length}");
            assert!(all.starts_with(&left[..left.len() - 1]), "a prefix, cut at {length}");
        }
    }

    /// An added row whose checksum ends with these bytes.
    fn row_that_ends_with(end: &[u8]) -> Vec<u8> {
        (1..)
            .map(|id| {
                let mut bytes = Vec::new();
                Record { kind: ADDED, id, entry: b"cut" }.write(&mut bytes);
                bytes
            })
            .find(|bytes| bytes.ends_with(end))
            .expect("one of the ids")
    }

    #[tokio::test]
    async fn a_row_behind_a_cut_that_it_could_complete_is_kept() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = FileRecoveryLog::open(folder.path()).expect("an empty folder");
        for end in [&MAGIC[..1], &MAGIC, &PADDING[..1], &PADDING[..2]] {
            let bytes = row_that_ends_with(end);
            let cut = &bytes[..bytes.len() - end.len()];
            std::fs::write(folder.path().join("shop.rows"), cut).expect("writable");
            log.add("shop", &names(&["z"])).await.expect("room");
            let left = entries(&log).await;
            assert_eq!(left.last(), Some(&b"z".to_vec()), "added behind a cut of {end:?}");
        }
    }

    #[tokio::test]
    async fn only_what_is_named_is_removed_whoever_added_it() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Two processes with one directory.
        let [one, other] = [0, 1].map(|_| FileRecoveryLog::open(folder.path()).expect("a folder"));
        for number in 0..50 {
            one.add("shop", &names(&[&format!("one-{number:02}")])).await.expect("room");
        }
        let seen = one.load("shop", 0, 1000).await.expect("readable");
        other.add("shop", &names(&["other"])).await.expect("room");
        for row in &seen {
            one.remove("shop", &[row.id]).await.expect("removable");
            one.remove("shop", &[row.id]).await.expect("gone is no error");
        }
        assert_eq!(entries(&one).await, names(&["other"]));
        let last = other.load("shop", 0, 1).await.expect("readable");
        other.remove("shop", &[last[0].id]).await.expect("removable");
        assert!(!folder.path().join("shop.rows").exists(), "an empty log takes no room");
    }

    #[tokio::test]
    async fn pages_end_with_a_short_one() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = FileRecoveryLog::open(folder.path()).expect("an empty folder");
        let all: Vec<Vec<u8>> = (0..25_u8).map(|number| vec![number]).collect();
        log.add("shop", &all).await.expect("room");
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = log.load("shop", after, 10).await.expect("readable");
            let short = page.len() < 10;
            after = page.last().map_or(after, |row| row.id);
            seen.extend(page.into_iter().map(|row| row.entry));
            if short {
                break;
            }
        }
        seen.sort();
        assert_eq!(seen, all);
    }
}
