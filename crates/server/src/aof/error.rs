//! Errors of a log, worded so that an operator knows what to do.

use std::io;

/// Reason why a log could not be opened, read or repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The disk failed.
    #[error("{file}: {error}")]
    Io {
        /// The file or directory.
        file: String,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Another process writes to the directory, or another server of this process.
    #[error("{directory} is in use by {holder}: stop that one or choose another directory")]
    Locked {
        /// The directory.
        directory: String,
        /// The server that holds it, with the text that it wrote into the lock file.
        holder: String,
    },
    /// The file is not a Seawall log.
    #[error(
        "{file} is not a Seawall log: move it away, or bring a Redis command stream in with \
         --import"
    )]
    Foreign {
        /// The file.
        file: String,
    },
    /// A later version of Seawall wrote the file.
    #[error("{file} has format version {version}, which this program is too old to read")]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
    },
    /// Bytes are damaged and valid records follow, so it is not merely a torn end.
    #[error(
        "{file} is damaged at offset {offset} ({reason}), and valid records follow at offset \
         {next_valid}: restore a copy, or cut the log there with --check --repair, which loses \
         {lost_bytes} bytes from that offset on (it keeps them in a side file)"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where the first bad record begins.
        offset: u64,
        /// What is wrong with it.
        reason: &'static str,
        /// Where the next good record begins.
        next_valid: u64,
        /// Bytes from `offset` to the end.
        lost_bytes: u64,
    },
    /// Both copies of the file's header are damaged.
    #[error(
        "{file} has a damaged header, so no record can be verified: restore a copy, or set the \
         file aside with --check --repair and start empty"
    )]
    Header {
        /// The file.
        file: String,
    },
    /// A record verifies but contains something that the engine cannot execute.
    #[error("{file}: the record at offset {offset} cannot be applied: {reason}")]
    Unusable {
        /// The file.
        file: String,
        /// Where the record begins.
        offset: u64,
        /// The error of the decoder or the engine.
        reason: String,
    },
}
