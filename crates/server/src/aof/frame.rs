//! The bytes of a log file: a header, then records.
//!
//! ```text
//! header, 72 bytes: two equal copies of
//!     magic "seawall\n" (8) | version u32 | reserved u32 (0) | file id (16) | crc32 of these (4)
//! record, 16 bytes + payload, little endian:
//!     length u32 | sequence u64 | crc32 u32 | payload
//! ```
//!
//! A record's checksum covers the file's id, the sequence, the length and the payload. The id is
//! random, so bytes of an older file, or a record that a client smuggled into a value, never verify
//! here. Sequences start at 1 and have no gaps, so a lost or repeated record is detected. The
//! header is stored twice because all records depend on it: one damaged copy does no harm.

use crc32fast::Hasher;

/// Length of the file header.
pub(crate) const HEADER_BYTES: usize = 2 * COPY_BYTES;
/// Length of a record before its payload.
pub(crate) const RECORD_BYTES: usize = 16;
/// The largest payload of one record.
pub(crate) const MAX_PAYLOAD_BYTES: usize = u32::MAX as usize;

const COPY_BYTES: usize = 36;
const MAGIC: &[u8; 8] = b"seawall\n";
const VERSION: u32 = 1;

/// A random number that binds records to their file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId(pub(crate) u128);

/// Reason why a header is not usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// The file ends within the header; nothing was ever recorded.
    Short,
    /// The file has another format.
    Foreign,
    /// The log was written by a later version.
    Version(u32),
    /// Both copies are damaged.
    Damaged,
}

/// Encodes a file's header.
pub(crate) fn header(id: FileId) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..32].copy_from_slice(&id.0.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..32]);
    bytes[32..36].copy_from_slice(&crc.to_le_bytes());
    bytes.copy_within(..COPY_BYTES, COPY_BYTES);
    bytes
}

/// Decodes the start of a file, which may be shorter than a header.
pub(crate) fn parse_header(bytes: &[u8]) -> Result<FileId, BadHeader> {
    let prefix = bytes.len().min(MAGIC.len());
    if bytes.len() < HEADER_BYTES {
        let ours = bytes[..prefix] == MAGIC[..prefix];
        return Err(if ours { BadHeader::Short } else { BadHeader::Foreign });
    }
    let (first, second) = (&bytes[..COPY_BYTES], &bytes[COPY_BYTES..HEADER_BYTES]);
    let copy = [first, second]
        .into_iter()
        .find(|copy| copy.starts_with(MAGIC) && crc32fast::hash(&copy[..32]) == u32_at(copy, 32));
    match copy {
        Some(copy) if u32_at(copy, 8) != VERSION => Err(BadHeader::Version(u32_at(copy, 8))),
        Some(copy) => Ok(FileId(u128::from_le_bytes(array(&copy[16..32])))),
        None if first.starts_with(MAGIC) || second.starts_with(MAGIC) => Err(BadHeader::Damaged),
        None => Err(BadHeader::Foreign),
    }
}

/// The fixed part of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) length: u32,
    pub(crate) sequence: u64,
    pub(crate) crc: u32,
}

impl RecordHead {
    /// Decodes the fixed part; `bytes` holds at least [`RECORD_BYTES`].
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        Self {
            length: u32_at(bytes, 0),
            sequence: u64::from_le_bytes(array(&bytes[4..12])),
            crc: u32_at(bytes, 12),
        }
    }
}

/// Computes record checksums for one file.
#[derive(Debug, Clone)]
pub(crate) struct Checksum(Hasher);

impl Checksum {
    pub(crate) fn new(id: FileId) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&id.0.to_le_bytes());
        Self(hasher)
    }

    /// Starts the checksum of a record; the payload follows with `update`.
    pub(crate) fn record(&self, sequence: u64, length: u32) -> Hasher {
        let mut hasher = self.0.clone();
        hasher.update(&sequence.to_le_bytes());
        hasher.update(&length.to_le_bytes());
        hasher
    }

    /// Appends an encoded record; `payload` is at most [`MAX_PAYLOAD_BYTES`].
    pub(crate) fn encode(&self, sequence: u64, payload: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(payload.len()).expect("callers refuse larger payloads");
        let mut hasher = self.record(sequence, length);
        hasher.update(payload);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&sequence.to_le_bytes());
        out.extend_from_slice(&hasher.finalize().to_le_bytes());
        out.extend_from_slice(payload);
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(&bytes[at..at + 4]))
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("callers slice exactly N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: FileId = FileId(0x0123_4567_89ab_cdef_0011_2233_4455_6677);

    #[test]
    fn header_survives_any_single_flip() {
        let good = header(ID);
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse_header(&bytes), Ok(ID), "bit {bit}");
        }
    }

    #[test]
    fn header_of_two_damaged_copies_is_refused() {
        let mut bytes = header(ID);
        bytes[20] ^= 1;
        bytes[20 + COPY_BYTES] ^= 1;
        assert_eq!(parse_header(&bytes), Err(BadHeader::Damaged));
        assert_eq!(parse_header(&[b'x'; HEADER_BYTES]), Err(BadHeader::Foreign));
        assert_eq!(parse_header(b"REDIS"), Err(BadHeader::Foreign));
        for len in 0..HEADER_BYTES {
            assert_eq!(parse_header(&header(ID)[..len]), Err(BadHeader::Short), "{len}");
        }
    }

    #[test]
    fn later_versions_are_named() {
        let mut bytes = header(ID);
        bytes[8] = 2;
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(parse_header(&bytes), Err(BadHeader::Version(2)));
    }

    #[test]
    fn record_of_another_file_does_not_verify() {
        let mut bytes = Vec::new();
        Checksum::new(FileId(1)).encode(1, b"payload", &mut bytes);
        let head = RecordHead::parse(&bytes);
        let mut hasher = Checksum::new(FileId(2)).record(head.sequence, head.length);
        hasher.update(&bytes[RECORD_BYTES..]);
        assert_ne!(hasher.finalize(), head.crc);
    }
}
