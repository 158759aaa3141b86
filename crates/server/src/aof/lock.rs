//! One writer per directory.
//!
//! A `LOCK` file is held with the operating system's advisory lock, which ends with the process:
//! there is no stale lock to clean up after a crash. The file names its holder for the operator.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::LogError;

const LOCK_FILE: &str = "LOCK";

/// Holds the directory until dropped.
#[derive(Debug)]
#[must_use = "the directory is free again when this is dropped"]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Acquires the lock of `directory`, which must exist.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another server or tool holds it.
    pub fn take(directory: &Path) -> Result<Self, LogError> {
        let path = directory.join(LOCK_FILE);
        let io = |error| LogError::Io { file: path.display().to_string(), error };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                // Limit: the holder's text is shown, so only one line of it is read.
                let mut text = String::new();
                let _ = file.take(64).read_to_string(&mut text);
                let holder = match text.trim() {
                    own if own == name() => format!("another server of this process ({own})"),
                    other => format!("another server ({other})"),
                };
                return Err(LogError::Locked {
                    directory: directory.display().to_string(),
                    holder,
                });
            }
            Err(error) => return Err(io(error.into())),
        }
        file.set_len(0).map_err(io)?;
        writeln!(file, "{}", name()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// What this process writes into a lock file.
fn name() -> String {
    format!("process {}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_who_holds_it() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let lock = DirectoryLock::take(directory.path()).expect("free");
        let refused = DirectoryLock::take(directory.path()).expect_err("held").to_string();
        let own = format!("is in use by another server of this process ({})", name());
        assert!(refused.contains(&own), "{refused}");
        // As another process leaves it; the lock itself is the file's, whatever is written there.
        std::fs::write(directory.path().join(LOCK_FILE), "process 0\n").expect("a file");
        let refused = DirectoryLock::take(directory.path()).expect_err("held").to_string();
        assert!(refused.contains("is in use by another server (process 0)"), "{refused}");
        drop(lock);
        let _again = DirectoryLock::take(directory.path()).expect("free again");
    }
}
