//! Appends records to one file, and removes what a failed write left behind.
//!
//! Invariant: between calls the file ends with a complete record, or the appender knows that it
//! does not ([`Appender::append`] then truncates it first).

use std::io;
use std::sync::Arc;

use super::disk::{Disk, DiskFile, write_all_at};
use super::frame::{Checksum, FileId, HEADER_BYTES, MAX_PAYLOAD_BYTES, header};
use super::reader::Reader;

/// Encoding memory that is kept between records.
const KEPT_BYTES: usize = 1 << 20;

/// The end of a log file.
#[derive(Debug)]
pub(crate) struct Appender {
    file: Arc<dyn DiskFile>,
    checksum: Checksum,
    next_sequence: u64,
    size: u64,
    torn: bool,
    scratch: Vec<u8>,
}

impl Appender {
    /// Creates an empty log file; it is durable only after a sync of the file and the directory.
    pub(crate) fn create(disk: &dyn Disk, name: &str) -> io::Result<Self> {
        let file = disk.create(name)?;
        let id = FileId(disk.fresh_id());
        write_all_at(&*file, &header(id), 0)?;
        Ok(Self::at(file, Checksum::new(id), 1, HEADER_BYTES as u64))
    }

    /// Continues after a log's last good record, and cuts off what a load dropped.
    pub(crate) fn resume(
        file: Arc<dyn DiskFile>,
        end: u64,
        last_sequence: u64,
    ) -> io::Result<Self> {
        let reader = Reader::open(&*file)?.map_err(|_| io::ErrorKind::InvalidData)?;
        let checksum = reader.checksum().clone();
        if file.size()? != end {
            file.truncate(end)?;
            file.sync()?;
        }
        Ok(Self::at(file, checksum, last_sequence + 1, end))
    }

    fn at(file: Arc<dyn DiskFile>, checksum: Checksum, next_sequence: u64, size: u64) -> Self {
        Self { file, checksum, next_sequence, size, torn: false, scratch: Vec::new() }
    }

    /// Returns the file, so that another thread can sync it.
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// Returns the bytes in the file.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Writes one record. After an error the file is unchanged, or will be restored before the next
    /// write.
    pub(crate) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        if payload.len() > MAX_PAYLOAD_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.torn {
            self.file.truncate(self.size)?;
            self.torn = false;
        }
        self.scratch.clear();
        self.checksum.encode(self.next_sequence, payload, &mut self.scratch);
        if let Err(error) = write_all_at(&*self.file, &self.scratch, self.size) {
            self.torn = self.file.truncate(self.size).is_err();
            return Err(error);
        }
        self.size += self.scratch.len() as u64;
        self.next_sequence += 1;
        if self.scratch.capacity() > KEPT_BYTES {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// Removes all records and starts over under a new id.
    pub(crate) fn restart(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let id = FileId(disk.fresh_id());
        self.file.truncate(0)?;
        write_all_at(&*self.file, &header(id), 0)?;
        *self = Self::at(self.file.clone(), Checksum::new(id), 1, HEADER_BYTES as u64);
        Ok(())
    }
}
