//! `--check` and `--repair`: reports what a log holds, and truncates it where it is damaged.
//!
//! Checking never writes. Repairing first saves what it cuts off in a side file, synced before the
//! log is touched, so no repair destroys the only copy of any data.

use std::fmt;
use std::io;

use seawall_engine::effects;

use super::LogError;
use super::disk::{Disk, DiskFile, read_full_at, write_all_at};
use super::frame::{BadHeader, HEADER_BYTES};
use super::reader::{Next, Reader, Torn, header_error};

/// Verdict on a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every byte is valid.
    Whole,
    /// The end is torn, as after a power cut; a start drops it with a warning.
    Torn(Torn),
    /// Damage with valid records after it; a start is refused.
    Damaged {
        /// Where the first bad record begins, and how many bytes follow.
        cut: Torn,
        /// Where the next good record begins.
        next_valid: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// A record verifies but is not a list of operations; a start is refused.
    Unreadable(Torn),
    /// Both copies of the header are damaged; a start is refused.
    Header(Torn),
}

/// Result of [`check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The file's name for messages.
    pub file: String,
    /// Good records before any damage.
    pub records: u64,
    /// Operations in them.
    pub operations: u64,
    /// Bytes of the good part, header included.
    pub bytes: u64,
    /// Sequence number of the last good record.
    pub last_sequence: u64,
    /// The verdict.
    pub verdict: Verdict,
}

impl Report {
    /// Returns where a repair would cut, or `None` if there is nothing to cut.
    pub fn cut(&self) -> Option<Torn> {
        match self.verdict {
            Verdict::Whole => None,
            Verdict::Torn(cut) | Verdict::Unreadable(cut) | Verdict::Header(cut) => Some(cut),
            Verdict::Damaged { cut, .. } => Some(cut),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} records, {} operations, {} bytes, last sequence {}",
            self.file, self.records, self.operations, self.bytes, self.last_sequence
        )?;
        match self.verdict {
            Verdict::Whole => write!(f, "whole: nothing to repair"),
            Verdict::Torn(cut) => write!(
                f,
                "torn end: {} bytes from offset {} on are not a whole record; a start drops them",
                cut.bytes, cut.offset
            ),
            Verdict::Damaged { cut, next_valid, reason } => write!(
                f,
                "damaged at offset {} ({reason}); valid records follow at offset {next_valid}; \
                 a start is refused; --repair cuts {} bytes",
                cut.offset, cut.bytes
            ),
            Verdict::Unreadable(cut) => write!(
                f,
                "the record at offset {} verifies but holds no operations; a start is refused; \
                 --repair cuts {} bytes",
                cut.offset, cut.bytes
            ),
            Verdict::Header(cut) => write!(
                f,
                "the header is damaged, so no record can be verified; a start is refused; \
                 --repair sets all {} bytes aside",
                cut.bytes
            ),
        }
    }
}

/// Verifies the log `name`. Returns `None` if there is no such file.
///
/// # Errors
/// If it cannot be read, or is not a log.
pub fn check(disk: &dyn Disk, name: &str) -> Result<Option<Report>, LogError> {
    let io = |error| LogError::Io { file: disk.display(name), error };
    let Some(file) = disk.open(name).map_err(io)? else { return Ok(None) };
    let size = file.size().map_err(io)?;
    let mut report = Report {
        file: disk.display(name),
        records: 0,
        operations: 0,
        bytes: 0,
        last_sequence: 0,
        verdict: Verdict::Whole,
    };
    let everything = Torn { offset: 0, bytes: size };
    let mut reader = match Reader::open(&*file).map_err(io)? {
        Ok(reader) => reader,
        Err(BadHeader::Short) => {
            report.verdict = if size == 0 { Verdict::Whole } else { Verdict::Torn(everything) };
            return Ok(Some(report));
        }
        Err(BadHeader::Damaged) => {
            report.verdict = Verdict::Header(everything);
            return Ok(Some(report));
        }
        Err(bad) => return Err(header_error(bad, report.file)),
    };
    report.bytes = HEADER_BYTES as u64;
    loop {
        let cut = Torn { offset: reader.offset, bytes: size - reader.offset };
        match reader.next().map_err(io)? {
            Next::End => break,
            Next::Record { sequence, payload } => {
                let Some(operations) = count(payload) else {
                    report.verdict = Verdict::Unreadable(cut);
                    break;
                };
                report.records += 1;
                report.operations += operations;
                report.last_sequence = sequence;
                report.bytes = reader.offset;
            }
            Next::Bad(reason) => {
                report.verdict = match reader.find_valid().map_err(io)? {
                    Some(next_valid) => Verdict::Damaged { cut, next_valid, reason },
                    None => Verdict::Torn(cut),
                };
                break;
            }
        }
    }
    Ok(Some(report))
}

/// Truncates a log where [`check`] found it bad. Returns the name of the side file that keeps the
/// rest.
///
/// # Errors
/// If the disk refuses; the log is truncated only after the side file is durable.
pub fn repair(disk: &dyn Disk, name: &str, report: &Report) -> Result<Option<String>, LogError> {
    let Some(cut) = report.cut() else { return Ok(None) };
    let io = |error| LogError::Io { file: disk.display(name), error };
    let Some(file) = disk.open(name).map_err(io)? else { return Ok(None) };
    let side_name = format!("{name}.cut-{}", cut.offset);
    let side = disk.create(&side_name).map_err(io)?;
    copy(&*file, cut, &*side).map_err(io)?;
    side.sync().map_err(io)?;
    disk.sync_directory().map_err(io)?;
    if cut.offset == 0 {
        disk.remove(name).map_err(io)?;
        disk.sync_directory().map_err(io)?;
    } else {
        file.truncate(cut.offset).map_err(io)?;
        file.sync().map_err(io)?;
    }
    Ok(Some(side_name))
}

fn count(payload: &[u8]) -> Option<u64> {
    let mut operations = 0;
    for operation in effects::operations(payload) {
        operation.ok()?;
        operations += 1;
    }
    Some(operations)
}

fn copy(from: &dyn DiskFile, range: Torn, to: &dyn DiskFile) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut done = 0;
    while done < range.bytes {
        let wanted = (range.bytes - done).min(buffer.len() as u64) as usize;
        let got = read_full_at(from, &mut buffer[..wanted], range.offset + done)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all_at(to, &buffer[..got], done)?;
        done += got as u64;
    }
    Ok(())
}
