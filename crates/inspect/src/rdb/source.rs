//! The bytes of an RDB file in order, with their offset and their checksum.
//!
//! Invariant: nothing is allocated because of a claimed length alone; buffers grow with the bytes
//! that actually arrive.

use std::io::{self, Read};

use super::{RdbError, crc64, lzf};

const BUFFER: usize = 256 << 10;
/// A string grows in steps of this size, as its bytes arrive.
const STEP: usize = 1 << 20;
/// A compressed string may not claim to be longer than a string can be in Redis.
const MAX_STRING: u64 = 512 << 20;

pub(super) struct Source<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Position in the buffer up to which the checksum is computed.
    summed: usize,
    crc: u64,
    /// Offset of the first byte of the buffer.
    base: u64,
    /// Buffer for compressed strings whose contents are needed.
    squeezed: Vec<u8>,
}

/// A length, or the encoding of the string that follows.
pub(super) enum Length {
    Plain(u64),
    Int(i64),
    Squeezed,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Source { input, buffer, start: 0, end: 0, summed: 0, crc: 0, base: 0, squeezed: Vec::new() }
    }

    /// Returns the number of bytes that were read.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.start as u64
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> RdbError {
        RdbError::Corrupt { offset: self.offset(), what: what.into() }
    }

    /// Returns the checksum of everything up to here.
    pub(super) fn checksum(&mut self) -> u64 {
        self.crc = crc64::update(self.crc, &self.buffer[self.summed..self.start]);
        self.summed = self.start;
        self.crc
    }

    fn refill(&mut self) -> Result<(), RdbError> {
        self.checksum();
        self.base += self.start as u64;
        (self.start, self.end, self.summed) = (0, 0, 0);
        loop {
            match self.input.read(&mut self.buffer) {
                Ok(0) => return Err(RdbError::Truncated { offset: self.base }),
                Ok(read) => {
                    self.end = read;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RdbError::Io(error)),
            }
        }
    }

    pub(super) fn byte(&mut self) -> Result<u8, RdbError> {
        if self.start == self.end {
            self.refill()?;
        }
        self.start += 1;
        Ok(self.buffer[self.start - 1])
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut bytes = [0; N];
        if self.end - self.start >= N {
            bytes.copy_from_slice(&self.buffer[self.start..self.start + N]);
            self.start += N;
        } else {
            for byte in &mut bytes {
                *byte = self.byte()?;
            }
        }
        Ok(bytes)
    }

    pub(super) fn skip(&mut self, mut bytes: u64) -> Result<(), RdbError> {
        while bytes > 0 {
            if self.start == self.end {
                self.refill()?;
            }
            let part = bytes.min((self.end - self.start) as u64);
            self.start += part as usize;
            bytes -= part;
        }
        Ok(())
    }

    /// Appends this number of bytes.
    fn append(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<(), RdbError> {
        let mut left = bytes;
        out.reserve(bytes.min(STEP as u64) as usize);
        while left > 0 {
            if self.start == self.end {
                self.refill()?;
            }
            let part = left.min((self.end - self.start) as u64) as usize;
            out.extend_from_slice(&self.buffer[self.start..self.start + part]);
            self.start += part;
            left -= part as u64;
        }
        Ok(())
    }

    /// Reads a length or the kind of an encoded string.
    fn header(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        Ok(match first >> 6 {
            0 => Length::Plain(u64::from(first & 0x3f)),
            1 => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            2 if first == 0x80 => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            2 if first == 0x81 => Length::Plain(u64::from_be_bytes(self.array()?)),
            3 => match first & 0x3f {
                0 => Length::Int(i8::from_le_bytes(self.array()?).into()),
                1 => Length::Int(i16::from_le_bytes(self.array()?).into()),
                2 => Length::Int(i32::from_le_bytes(self.array()?).into()),
                3 => Length::Squeezed,
                other => {
                    return Err(self.corrupt(format!("a string of the unknown encoding {other}")));
                }
            },
            _ => return Err(self.corrupt(format!("a length that begins with {first:#04x}"))),
        })
    }

    pub(super) fn length(&mut self) -> Result<u64, RdbError> {
        match self.header()? {
            Length::Plain(length) => Ok(length),
            _ => Err(self.corrupt("an encoded string where a length belongs")),
        }
    }

    /// Reads the two lengths of a compressed string: in the file, and expanded.
    fn squeezed_lengths(&mut self) -> Result<(u64, u64), RdbError> {
        let (squeezed, whole) = (self.length()?, self.length()?);
        if whole > MAX_STRING || squeezed > MAX_STRING {
            return Err(self.corrupt(format!("a compressed string of {whole} bytes")));
        }
        Ok((squeezed, whole))
    }

    /// Skips a string. Returns its kind and its length.
    pub(super) fn skip_string(&mut self) -> Result<Skipped, RdbError> {
        match self.header()? {
            Length::Plain(length) => {
                self.skip(length)?;
                Ok(Skipped { length, integer: false })
            }
            Length::Int(number) => Ok(Skipped { length: digits(number), integer: true }),
            Length::Squeezed => {
                let (squeezed, length) = self.squeezed_lengths()?;
                self.skip(squeezed)?;
                Ok(Skipped { length, integer: false })
            }
        }
    }

    /// Reads a string, at most `keep` bytes of it. Returns its whole length.
    pub(super) fn string(&mut self, keep: usize, out: &mut Vec<u8>) -> Result<u64, RdbError> {
        out.clear();
        match self.header()? {
            Length::Plain(length) => {
                let kept = length.min(keep as u64);
                self.append(kept, out)?;
                self.skip(length - kept)?;
                Ok(length)
            }
            Length::Int(number) => {
                out.extend_from_slice(number.to_string().as_bytes());
                Ok(out.len() as u64)
            }
            Length::Squeezed => {
                let (squeezed, length) = self.squeezed_lengths()?;
                let mut input = std::mem::take(&mut self.squeezed);
                input.clear();
                self.append(squeezed, &mut input)?;
                let limit = keep.min(length as usize);
                let expanded = lzf::expand(&input, limit, out);
                self.squeezed = input;
                match expanded {
                    Some(()) if out.len() == limit => Ok(length),
                    _ => {
                        Err(self.corrupt("a compressed string that does not expand to its length"))
                    }
                }
            }
        }
    }

    /// Reads a packed collection. Returns its length, and the number of entries that `count` finds
    /// in it.
    ///
    /// `count` gets the first bytes, and all bytes if the first ones are not enough.
    pub(super) fn packed(
        &mut self,
        count: impl Fn(&[u8]) -> Count,
        out: &mut Vec<u8>,
    ) -> Result<(u64, u64), RdbError> {
        const HEAD: usize = 16;
        out.clear();
        let length = match self.header()? {
            Length::Plain(length) => {
                self.append(length.min(HEAD as u64), out)?;
                let mut counted = count(out);
                if matches!(counted, Count::NeedsAll) {
                    self.append(length - out.len() as u64, out)?;
                    counted = count(out);
                } else {
                    self.skip(length - out.len() as u64)?;
                }
                return self.counted(counted, length);
            }
            Length::Int(_) => {
                return Err(self.corrupt("a number where a packed collection belongs"));
            }
            Length::Squeezed => self.squeezed_lengths()?,
        };
        let (squeezed, length) = length;
        let mut input = std::mem::take(&mut self.squeezed);
        input.clear();
        let read = self.append(squeezed, &mut input);
        let expand = |limit: usize, out: &mut Vec<u8>| {
            lzf::expand(&input, limit, out).filter(|()| out.len() == limit)
        };
        let mut counted = Count::Damaged;
        if read.is_ok() && expand(HEAD.min(length as usize), out).is_some() {
            counted = count(out);
            if matches!(counted, Count::NeedsAll) {
                counted = expand(length as usize, out).map_or(Count::Damaged, |()| count(out));
            }
        }
        self.squeezed = input;
        read?;
        self.counted(counted, length)
    }

    fn counted(&self, counted: Count, length: u64) -> Result<(u64, u64), RdbError> {
        match counted {
            Count::Entries(entries) => Ok((length, entries)),
            Count::NeedsAll | Count::Damaged => {
                Err(self.corrupt("a packed collection that makes no sense"))
            }
        }
    }
}

/// A string that was skipped.
pub(super) struct Skipped {
    pub(super) length: u64,
    /// Stored as a number.
    pub(super) integer: bool,
}

/// Result of counting a packed collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Entries(u64),
    /// The first bytes are not enough; all of them are needed.
    NeedsAll,
    Damaged,
}

fn digits(number: i64) -> u64 {
    let sign = u64::from(number < 0);
    sign + number.unsigned_abs().checked_ilog10().map_or(1, |log| u64::from(log) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number_as_text() {
        for number in [0, 9, 10, -1, -10, 127, -128, 99_999, i64::from(i32::MIN), i64::MIN] {
            assert_eq!(digits(number), number.to_string().len() as u64, "{number}");
        }
    }
}
