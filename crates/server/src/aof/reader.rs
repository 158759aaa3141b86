//! Reads a log as a stream, in bounded memory, and distinguishes a torn end from damage.
//!
//! A power cut leaves a torn end: everything after the first bad record is bad too. Damage by a
//! disk or a person leaves good records after the bad one, and skipping it would silently lose
//! acknowledged writes. The two are distinguished by searching forward, byte by byte, for a record
//! that verifies; the sequence, which must lie within what the rest of the file can hold, makes
//! that search cheap.
//!
//! Limit: if a power cut persisted later pages of the unsynced end before earlier ones, the search
//! finds a good record and the log is refused, although nothing acknowledged under `always` is
//! affected; the operator decides with `--check --repair`.

use std::io;

use seawall_engine::effects;

use super::LogError;
use super::disk::{Disk, DiskFile, read_full_at};
use super::frame::{BadHeader, Checksum, HEADER_BYTES, RECORD_BYTES, RecordHead, parse_header};

/// Bytes per read; larger payloads are verified before memory is allocated for them.
const CHUNK_BYTES: usize = 256 << 10;
/// Maximum checksum work of one forward search, as a multiple of the bytes searched. A value can be
/// crafted to look like record heads, and each would be verified.
const SEARCH_WORK: u64 = 64;

/// The end of a log that was not written completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torn {
    /// Where the good part ends.
    pub offset: u64,
    /// Number of bytes that follow and are dropped.
    pub bytes: u64,
}

/// Result of loading a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Loaded {
    /// Complete records.
    pub records: u64,
    /// Operations in them.
    pub operations: u64,
    /// Where the good part ends and appending continues; 0 if even the header is missing.
    pub end: u64,
    /// Sequence number of the last record; 0 if there is none.
    pub last_sequence: u64,
    /// The torn end that was dropped after `end`, to be reported.
    pub torn: Option<Torn>,
}

/// Reads the log `name` from `disk` and passes each record's operations to `apply`. Reports
/// progress as (bytes read, total bytes) after each record.
///
/// # Errors
/// If the file is damaged before valid records, has another format, cannot be read, or `apply`
/// refuses.
pub fn load(
    disk: &dyn Disk,
    name: &str,
    mut apply: impl FnMut(effects::Operation<'_>) -> Result<(), String>,
    mut progress: impl FnMut(u64, u64),
) -> Result<Option<Loaded>, LogError> {
    let io = |error| LogError::Io { file: disk.display(name), error };
    let Some(file) = disk.open(name).map_err(io)? else { return Ok(None) };
    let size = file.size().map_err(io)?;
    let mut loaded = Loaded::default();
    let mut reader = match Reader::open(&*file).map_err(io)? {
        Ok(reader) => reader,
        Err(BadHeader::Short) => {
            loaded.torn = (size > 0).then_some(Torn { offset: 0, bytes: size });
            return Ok(Some(loaded));
        }
        Err(bad) => return Err(header_error(bad, disk.display(name))),
    };
    loop {
        let offset = reader.offset;
        match reader.next().map_err(io)? {
            Next::End => break,
            Next::Record { sequence, payload } => {
                for operation in effects::operations(payload) {
                    let unusable =
                        |reason| LogError::Unusable { file: disk.display(name), offset, reason };
                    let operation = operation.map_err(|bad| unusable(bad.to_string()))?;
                    loaded.operations += 1;
                    apply(operation).map_err(unusable)?;
                }
                loaded.records += 1;
                loaded.last_sequence = sequence;
            }
            Next::Bad(reason) => {
                if let Some(next_valid) = reader.find_valid().map_err(io)? {
                    let file = disk.display(name);
                    let lost_bytes = size - offset;
                    return Err(LogError::Damaged { file, offset, reason, next_valid, lost_bytes });
                }
                loaded.torn = Some(Torn { offset, bytes: size - offset });
                break;
            }
        }
        progress(reader.offset, size);
    }
    loaded.end = reader.offset;
    Ok(Some(loaded))
}

/// Returns the error for a header that cannot be read.
pub(crate) fn header_error(bad: BadHeader, file: String) -> LogError {
    match bad {
        BadHeader::Foreign | BadHeader::Short => LogError::Foreign { file },
        BadHeader::Version(version) => LogError::Version { file, version },
        BadHeader::Damaged => LogError::Header { file },
    }
}

/// What the reader finds at its offset.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// A record that verifies; the reader moved past it.
    Record { sequence: u64, payload: &'a [u8] },
    /// Exactly the end of the file.
    End,
    /// Anything else; the reader does not move.
    Bad(&'static str),
}

/// A position in a log file.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    file: &'a dyn DiskFile,
    size: u64,
    checksum: Checksum,
    /// Where the next record begins.
    pub(crate) offset: u64,
    /// The sequence number that it must have.
    expected: u64,
    window: Window,
    large: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Reads the header. The file's size is read now; later growth is not seen.
    pub(crate) fn open(file: &'a dyn DiskFile) -> io::Result<Result<Self, BadHeader>> {
        let size = file.size()?;
        let mut window = Window::for_size(size);
        let id = match parse_header(window.get(file, 0, HEADER_BYTES)?) {
            Ok(id) => id,
            Err(bad) => return Ok(Err(bad)),
        };
        Ok(Ok(Self {
            file,
            size,
            checksum: Checksum::new(id),
            offset: HEADER_BYTES as u64,
            expected: 1,
            window,
            large: Vec::new(),
        }))
    }

    /// Returns the checksum of this file's records.
    pub(crate) fn checksum(&self) -> &Checksum {
        &self.checksum
    }

    /// Reads the record at the offset.
    pub(crate) fn next(&mut self) -> io::Result<Next<'_>> {
        let left = self.size - self.offset;
        if left == 0 {
            return Ok(Next::End);
        }
        let head = self.window.get(self.file, self.offset, RECORD_BYTES)?;
        if head.len() < RECORD_BYTES {
            return Ok(Next::Bad("the file ends within a record"));
        }
        let head = RecordHead::parse(head);
        if head.sequence != self.expected {
            return Ok(Next::Bad("its sequence is wrong"));
        }
        if u64::from(head.length) > left - RECORD_BYTES as u64 {
            return Ok(Next::Bad("it is longer than the file"));
        }
        if self.sum(self.offset, head)? != head.crc {
            return Ok(Next::Bad("its checksum is wrong"));
        }
        let start = self.offset + RECORD_BYTES as u64;
        let length = head.length as usize;
        self.offset = start + u64::from(head.length);
        self.expected += 1;
        let payload = if length <= CHUNK_BYTES {
            self.window.get(self.file, start, length)?
        } else {
            // The checksum matched, so the length can be trusted.
            self.large.resize(length, 0);
            let got = read_full_at(self.file, &mut self.large, start)?;
            &self.large[..got]
        };
        if payload.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Next::Record { sequence: head.sequence, payload })
    }

    /// Searches after a bad record for one that verifies. Returns its offset.
    pub(crate) fn find_valid(&mut self) -> io::Result<Option<u64>> {
        let mut work = (self.size - self.offset).saturating_mul(SEARCH_WORK);
        let most = self.expected + (self.size - self.offset) / RECORD_BYTES as u64;
        let mut at = self.offset + 1;
        while at + RECORD_BYTES as u64 <= self.size {
            let head = RecordHead::parse(self.window.get(self.file, at, RECORD_BYTES)?);
            let left = self.size - at - RECORD_BYTES as u64;
            let plausible =
                (self.expected..=most).contains(&head.sequence) && u64::from(head.length) <= left;
            if plausible {
                // Too many bytes that look like records: refusing is the safe answer.
                let Some(rest) = work.checked_sub(u64::from(head.length)) else {
                    return Ok(Some(at));
                };
                work = rest;
                if self.sum(at, head)? == head.crc {
                    return Ok(Some(at));
                }
            }
            at += 1;
        }
        Ok(None)
    }

    /// Computes the checksum of the record at `at`, in chunks.
    fn sum(&mut self, at: u64, head: RecordHead) -> io::Result<u32> {
        let mut hasher = self.checksum.record(head.sequence, head.length);
        let start = at + RECORD_BYTES as u64;
        let end = start + u64::from(head.length);
        if head.length as usize <= CHUNK_BYTES {
            hasher.update(self.window.get(self.file, start, head.length as usize)?);
            return Ok(hasher.finalize());
        }
        let mut chunk = Window::for_size(u64::from(head.length));
        let mut position = start;
        while position < end {
            let wanted = (end - position).min(CHUNK_BYTES as u64) as usize;
            let bytes = chunk.get(self.file, position, wanted)?;
            if bytes.is_empty() {
                break;
            }
            hasher.update(bytes);
            position += bytes.len() as u64;
        }
        Ok(hasher.finalize())
    }
}

/// A buffered piece of the file.
#[derive(Debug)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
    most: usize,
}

impl Window {
    /// A window for a file of `size` bytes, so that small files take little memory.
    fn for_size(size: u64) -> Self {
        Self { start: 0, bytes: Vec::new(), most: size.min(2 * CHUNK_BYTES as u64) as usize }
    }

    /// Returns up to `length` bytes at `offset`, fewer only at the end; `length` is at most a
    /// chunk.
    fn get(&mut self, file: &dyn DiskFile, offset: u64, length: usize) -> io::Result<&[u8]> {
        let covered =
            offset >= self.start && offset + length as u64 <= self.start + self.bytes.len() as u64;
        if !covered {
            self.bytes.resize(self.most.max(length), 0);
            let got = read_full_at(file, &mut self.bytes, offset)?;
            self.bytes.truncate(got);
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.bytes[from..(from + length).min(self.bytes.len())])
    }
}
