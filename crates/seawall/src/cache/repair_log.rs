//! Where invalidations wait that Redis did not take, so that a restart does not lose them.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::PathBuf,
};

/// Keeps entries whose invalidation is still to be done, across restarts.
///
/// An outbox table is the best one. Here it is in memory, with the SQL that it stands for:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::{collections::BTreeSet, io, sync::{Arc, Mutex}};
/// use seawall::{Seawall, cache::{Cache, RepairLog}};
///
/// #[derive(Default)]
/// struct Outbox {
///     rows: Mutex<BTreeSet<(String, Vec<u8>)>>, // primary key (cache, entry)
/// }
///
/// impl RepairLog for Outbox {
///     fn add(&self, cache: &str, entries: &[Vec<u8>]) -> io::Result<()> {
///         // insert into outbox values (cache, entry), … on conflict do nothing
///         let rows = entries.iter().map(|entry| (cache.to_owned(), entry.clone()));
///         self.rows.lock().unwrap().extend(rows);
///         Ok(())
///     }
///
///     fn load(&self, cache: &str) -> io::Result<Vec<Vec<u8>>> {
///         // select entry from outbox where cache = …
///         let rows = self.rows.lock().unwrap();
///         Ok(rows.iter().filter(|row| row.0 == cache).map(|row| row.1.clone()).collect())
///     }
///
///     fn keep_only(&self, cache: &str, entries: &[Vec<u8>]) -> io::Result<()> {
///         // delete from outbox where cache = … and entry not in (…)
///         self.rows.lock().unwrap().retain(|row| row.0 != cache || entries.contains(&row.1));
///         Ok(())
///     }
/// }
///
/// // What an earlier process left behind is invalidated in the background.
/// let outbox = Arc::new(Outbox::default());
/// outbox.add("shop", &[b"shop:42".to_vec()])?;
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").repair_log(outbox.clone()).build()?;
/// while !outbox.load("shop")?.is_empty() {
///     tokio::task::yield_now().await;
/// }
/// assert!(!shops.explain(&42).await?.waits_for_repair);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub trait RepairLog: Send + Sync {
    /// Adds entries of a cache; they are on stable storage when this returns. An empty entry stands
    /// for all entries of the cache: too many were waiting.
    ///
    /// # Errors
    /// When they could not be written.
    fn add(&self, cache: &str, entries: &[Vec<u8>]) -> io::Result<()>;

    /// What is left from before, at start.
    ///
    /// # Errors
    /// When it cannot be read.
    fn load(&self, cache: &str) -> io::Result<Vec<Vec<u8>>>;

    /// Everything of this cache is done, except these.
    ///
    /// # Errors
    /// When that could not be written; the entries will be invalidated once more after a restart.
    fn keep_only(&self, cache: &str, entries: &[Vec<u8>]) -> io::Result<()>;
}

/// A [`RepairLog`] in a file for each cache, for services without an outbox table. Each process needs
/// a directory of its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use seawall::{Seawall, cache::{Cache, FileRepairLog}};
///
/// # let folder = tempfile::tempdir()?;
/// # let directory = folder.path().join("repairs");
/// let log = Arc::new(FileRepairLog::open(directory)?);
/// let seawall = Seawall::connect("embedded:").await?;
/// let shops: Cache<u64, String> = seawall.cache("shop").repair_log(log).build()?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
///
/// ```text
/// (length:u32 entry checksum:u32)*     a damaged tail is ignored
/// ```
#[derive(Debug)]
pub struct FileRepairLog {
    directory: PathBuf,
}

impl FileRepairLog {
    /// A log in this directory, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        std::fs::create_dir_all(&directory)?;
        Ok(FileRepairLog { directory })
    }

    fn path(&self, cache: &str) -> PathBuf {
        // Names of caches have no separators that matter to file systems, except this one.
        self.directory.join(format!("{}.repairs", cache.replace('/', "%2F")))
    }

    fn write(file: &mut File, entries: &[Vec<u8>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            bytes.extend_from_slice(&(entry.len() as u32).to_be_bytes());
            bytes.extend_from_slice(entry);
            bytes.extend_from_slice(&checksum(entry).to_be_bytes());
        }
        file.write_all(&bytes)?;
        file.sync_data()
    }
}

fn checksum(entry: &[u8]) -> u32 {
    xxhash_rust::xxh3::xxh3_64(entry) as u32
}

impl RepairLog for FileRepairLog {
    fn add(&self, cache: &str, entries: &[Vec<u8>]) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(self.path(cache))?;
        Self::write(&mut file, entries)
    }

    fn load(&self, cache: &str) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        match File::open(self.path(cache)) {
            Ok(mut file) => file.read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut rest = bytes.as_slice();
        let mut entries = Vec::new();
        while let Some((length, tail)) = rest.split_first_chunk::<4>()
            && let Some((entry, tail)) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)
            && let Some((sum, tail)) = tail.split_first_chunk::<4>()
            && u32::from_be_bytes(*sum) == checksum(entry)
        {
            entries.push(entry.to_vec());
            rest = tail;
        }
        if !rest.is_empty() {
            // What is added from now on must not lie behind the damage.
            let good = (bytes.len() - rest.len()) as u64;
            OpenOptions::new().write(true).open(self.path(cache))?.set_len(good)?;
        }
        Ok(entries)
    }

    fn keep_only(&self, cache: &str, entries: &[Vec<u8>]) -> io::Result<()> {
        let path = self.path(cache);
        if entries.is_empty() {
            return match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let new = path.with_extension("new");
        Self::write(&mut File::create(&new)?, entries)?;
        std::fs::rename(new, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_gives_back_what_was_added_and_bears_damage() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log = FileRepairLog::open(folder.path()).expect("an empty folder");
        assert!(log.load("shop").expect("nothing there").is_empty());
        log.add("shop", &[b"a".to_vec(), b"b".to_vec()]).expect("room for two");
        log.add("shop", &[b"c\0:".to_vec()]).expect("room for one more");
        let all = log.load("shop").expect("readable");
        assert_eq!(all, [b"a".to_vec(), b"b".to_vec(), b"c\0:".to_vec()]);
        let path = log.path("shop");
        let bytes = std::fs::read(&path).expect("readable");
        for length in 0..bytes.len() {
            std::fs::write(&path, &bytes[..length]).expect("writable");
            assert!(
                all.starts_with(&log.load("shop").expect("readable")),
                "a prefix, cut at {length}"
            );
        }
        std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("writable");
        assert_eq!(log.load("shop").expect("readable").len(), 2);
        log.add("shop", &[b"d".to_vec()]).expect("room for one more");
        assert_eq!(
            log.load("shop").expect("readable"),
            [b"a".to_vec(), b"b".to_vec(), b"d".to_vec()],
            "what was added after the damage counts"
        );
        log.keep_only("shop", &[]).expect("removable");
        assert!(log.load("shop").expect("nothing there").is_empty());
    }
}
