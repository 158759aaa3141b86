//! Variable-length numbers inside a node: seven bits a byte, the high bit says "more follows".
//!
//! Forward numbers have their low bits first. Backward numbers are the same bytes mirrored, so that
//! a reader positioned after one can read it from the right.

/// Reads a node's bytes from left to right.
///
/// Invariant: nodes are written only by this module's callers, so a read never leaves them.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Reader<'a> {
    /// A reader that starts at `pos`.
    pub(super) fn at(bytes: &'a [u8], pos: usize) -> Reader<'a> {
        Reader { bytes, pos }
    }

    /// Where the next read starts.
    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    /// One byte.
    pub(super) fn byte(&mut self) -> u8 {
        let byte = self.bytes[self.pos];
        self.pos += 1;
        byte
    }

    /// A number.
    pub(super) fn number(&mut self) -> u64 {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    }

    /// A number that is small if its sign-extended magnitude is.
    pub(super) fn signed(&mut self) -> i64 {
        let value = self.number();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    /// Bytes behind their length.
    pub(super) fn text(&mut self) -> &'a [u8] {
        let len = self.number() as usize;
        let text = &self.bytes[self.pos..self.pos + len];
        self.pos += len;
        text
    }
}

/// Reads the backward number that ends at `end`; answers it and where it begins.
pub(super) fn read_backward(bytes: &[u8], end: usize) -> (usize, usize) {
    let mut value = 0;
    let mut shift = 0;
    let mut pos = end;
    loop {
        pos -= 1;
        value |= usize::from(bytes[pos] & 0x7f) << shift;
        if bytes[pos] & 0x80 == 0 {
            return (value, pos);
        }
        shift += 7;
    }
}

/// The number of bytes of a number.
pub(super) fn number_bytes(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// The number of bytes of a text with its length.
pub(super) fn text_bytes(text: &[u8]) -> usize {
    number_bytes(text.len() as u64) + text.len()
}

/// Folds the sign into the lowest bit.
pub(super) fn fold_sign(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Appends a number.
pub(super) fn push_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Appends a backward number.
pub(super) fn push_backward(bytes: &mut Vec<u8>, value: u64) {
    let start = bytes.len();
    push_number(bytes, value);
    bytes[start..].reverse();
}

/// Appends a text with its length.
pub(super) fn push_text(bytes: &mut Vec<u8>, text: &[u8]) {
    push_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_both_ways() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = vec![0xff];
            push_number(&mut bytes, value);
            assert_eq!(bytes.len() - 1, number_bytes(value));
            assert_eq!(Reader::at(&bytes, 1).number(), value);
            let end = bytes.len();
            push_backward(&mut bytes, value);
            assert_eq!(read_backward(&bytes, bytes.len()), (value as usize, end));
        }
        for value in [0, -1, 1, i64::MIN, i64::MAX] {
            let mut bytes = Vec::new();
            push_number(&mut bytes, fold_sign(value));
            assert_eq!(Reader::at(&bytes, 0).signed(), value);
        }
    }
}
