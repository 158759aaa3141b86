//! The few disk operations that the log needs, as a trait, so that tests can simulate power cuts
//! and full disks.
//!
//! One [`Disk`] is one directory. Files are written at explicit offsets through a shared reference,
//! so that a sync can run in another thread while records are appended. [`DirectoryDisk`] is the
//! real one; the simulated one lives in [`super::sim`].

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that holds the log's files.
pub trait Disk: Send + Sync + Debug {
    /// Opens an existing file. Returns `None` if there is none.
    ///
    /// # Errors
    /// If the file exists and cannot be opened for reading and writing.
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>>;

    /// Creates an empty file, replacing any file of that name.
    ///
    /// # Errors
    /// If the disk refuses.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Replaces one file with another atomically; durable only after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// If the disk refuses.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; a missing file is not an error.
    ///
    /// # Errors
    /// If the disk refuses.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes created, renamed and removed names durable.
    ///
    /// # Errors
    /// If the disk reports a failure; the names may then be lost.
    fn sync_directory(&self) -> io::Result<()>;

    /// Returns a number that no other file of this log has, so that stale bytes never verify.
    fn fresh_id(&self) -> u128;

    /// Returns the file's name for messages.
    fn display(&self, name: &str) -> String;
}

/// An open file.
pub trait DiskFile: Send + Sync + Debug {
    /// Reads at `offset`. Returns 0 at the end of the file.
    ///
    /// # Errors
    /// If the disk fails.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at `offset`. Returns the number of bytes written.
    ///
    /// # Errors
    /// If the disk fails or is full.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Returns the file's length in bytes.
    ///
    /// # Errors
    /// If the disk fails.
    fn size(&self) -> io::Result<u64>;

    /// Truncates the file.
    ///
    /// # Errors
    /// If the disk fails.
    fn truncate(&self, size: u64) -> io::Result<()>;

    /// Makes everything written before the call durable.
    ///
    /// # Errors
    /// If it did not: bytes written since the last success may be lost, even if a later call
    /// succeeds, because the system may have dropped the dirty pages.
    fn sync(&self) -> io::Result<()>;
}

/// Writes everything or fails; after an error an unknown part may be in the file.
pub(crate) fn write_all_at(file: &dyn DiskFile, bytes: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until the buffer is full or the file ends. Returns the number of bytes read.
pub(crate) fn read_full_at(
    file: &dyn DiskFile,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// A directory of the real file system.
#[derive(Debug, Clone)]
pub struct DirectoryDisk {
    directory: PathBuf,
}

impl DirectoryDisk {
    /// Uses `directory`, and creates it if it is missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl Disk for DirectoryDisk {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
        match OpenOptions::new().read(true).write(true).open(self.path(name)) {
            Ok(file) => Ok(Some(Arc::new(RealFile(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        Ok(Arc::new(RealFile(options.open(self.path(name))?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    fn fresh_id(&self) -> u128 {
        // Each RandomState has new keys from the system's random source.
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        half() << 64 | half()
    }

    fn display(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.0.set_len(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
