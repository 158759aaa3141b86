//! The bytes of one packed entry: a head, the content, and a tail to walk backwards with.
//!
//! | first byte | meaning |
//! | --- | --- |
//! | `00..7f` | the number 0 to 127 itself |
//! | `80..bf` | a string of 0 to 63 bytes, which follow |
//! | `c0..df` | a number of 13 bits: five here, eight in the next byte |
//! | `e0..e6` | a number in the next 2 to 8 bytes, little-endian |
//! | `f0..f7` | a string, its length in the next 1 to 8 bytes, little-endian |
//!
//! The tail is the length of head and content in groups of seven bits, read from the end: the last
//! byte holds the lowest bits, and a set high bit says that the byte before belongs to it too. Most
//! entries need one byte of it.

use super::super::elem::Elem;
use crate::number::parse_i64;

const SHORT_STRING: u8 = 0x80;
const SMALL_INT: u8 = 0xc0;
const WIDE_INT: u8 = 0xe0;
const LONG_STRING: u8 = 0xf0;
const SMALL_INT_RANGE: std::ops::Range<i64> = -(1 << 12)..(1 << 12);

/// An entry about to be written: everything but the string it may contain.
pub(super) struct Draft<'a> {
    head: Short,
    text: &'a [u8],
    tail: Short,
}

/// Up to ten bytes: a head is at most nine long, a tail at most ten.
#[derive(Default)]
struct Short {
    bytes: [u8; 10],
    len: usize,
}

impl Short {
    #[inline]
    const fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    #[inline]
    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<'a> Draft<'a> {
    pub(super) fn new(item: &'a [u8]) -> Self {
        let mut head = Short::default();
        let mut text = item;
        if let Some(n) = parse_i64(item) {
            text = &[];
            write_int(&mut head, n);
        } else if item.len() < 64 {
            head.push(SHORT_STRING | item.len() as u8);
        } else {
            let bytes = (item.len() as u64).to_le_bytes();
            let used = 8 - (item.len() as u64).leading_zeros() as usize / 8;
            head.push(LONG_STRING | (used - 1) as u8);
            head.extend(&bytes[..used]);
        }
        let tail = tail(head.len + text.len());
        Self { head, text, tail }
    }

    /// How many bytes it takes.
    pub(super) fn len(&self) -> usize {
        self.head.len + self.text.len() + self.tail.len
    }

    /// Writes it into a slice of exactly its length.
    pub(super) fn write(&self, to: &mut [u8]) {
        let (head, rest) = to.split_at_mut(self.head.len);
        let (text, tail) = rest.split_at_mut(self.text.len());
        head.copy_from_slice(self.head.get());
        text.copy_from_slice(self.text);
        tail.copy_from_slice(self.tail.get());
    }

    pub(super) fn append(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.head.get());
        to.extend_from_slice(self.text);
        to.extend_from_slice(self.tail.get());
    }
}

/// How many bytes an item takes when packed.
pub(crate) fn packed_len(item: &[u8]) -> usize {
    Draft::new(item).len()
}

fn write_int(head: &mut Short, n: i64) {
    if let Ok(tiny @ 0..=127) = u8::try_from(n) {
        head.push(tiny);
    } else if SMALL_INT_RANGE.contains(&n) {
        let bits = (n - SMALL_INT_RANGE.start) as u16;
        head.push(SMALL_INT | (bits >> 8) as u8);
        head.push(bits as u8);
    } else {
        // One bit more than the magnitude needs, for the sign.
        let bits = 65 - (n ^ (n >> 63)).leading_zeros() as usize;
        let used = bits.div_ceil(8).max(2);
        head.push(WIDE_INT | (used - 2) as u8);
        head.extend(&n.to_le_bytes()[..used]);
    }
}

#[inline]
fn tail(size: usize) -> Short {
    let len = tail_len(size);
    let mut tail = Short::default();
    for group in (0..len).rev() {
        // The lowest bits come last; every byte that has another before it carries the mark.
        let mark = if group + 1 < len { 0x80 } else { 0 };
        tail.push((size >> (7 * group)) as u8 & 0x7f | mark);
    }
    tail
}

#[inline]
const fn tail_len(size: usize) -> usize {
    if size < 0x80 {
        return 1;
    }
    let bits = usize::BITS - size.leading_zeros();
    (bits as usize).div_ceil(7)
}

/// What an entry holds, before numbers are written out.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Raw<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}

impl<'a> Raw<'a> {
    /// What an item would be stored as.
    pub(super) fn of(item: &'a [u8]) -> Self {
        parse_i64(item).map_or(Self::Bytes(item), Self::Int)
    }

    #[inline]
    pub(super) fn elem(self) -> Elem<'a> {
        match self {
            Self::Int(n) => Elem::int(n),
            Self::Bytes(bytes) => Elem::Bytes(bytes),
        }
    }
}

/// Reads the entry at the start of `bytes`; returns it with its whole length.
#[inline]
pub(super) fn read(bytes: &[u8]) -> (Raw<'_>, usize) {
    let first = bytes[0];
    let (raw, size) = match first {
        0..=0x7f => return (Raw::Int(i64::from(first)), 2),
        0x80..=0xbf => {
            let size = 1 + usize::from(first & 0x3f);
            (Raw::Bytes(&bytes[1..size]), size)
        }
        0xc0..=0xdf => {
            let bits = i64::from(first & 0x1f) << 8 | i64::from(bytes[1]);
            (Raw::Int(bits + SMALL_INT_RANGE.start), 2)
        }
        0xe0..=0xef => {
            let size = 3 + usize::from(first & 0x0f);
            (Raw::Int(read_int(&bytes[1..size])), size)
        }
        0xf0..=0xff => {
            let start = 2 + usize::from(first & 0x0f);
            let mut le = [0; 8];
            le[..start - 1].copy_from_slice(&bytes[1..start]);
            let size = start + u64::from_le_bytes(le) as usize;
            (Raw::Bytes(&bytes[start..size]), size)
        }
    };
    (raw, size + tail_len(size))
}

/// The whole length of the entry at the start of `bytes`.
#[inline]
pub(super) fn whole_len(bytes: &[u8]) -> usize {
    match bytes[0] {
        0..=0x7f => 2,
        short @ 0x80..=0xbf => 2 + usize::from(short & 0x3f),
        0xc0..=0xdf => 3,
        _ => read(bytes).1,
    }
}

/// The whole length of the entry that ends where `bytes` ends.
#[inline]
pub(super) fn last_len(bytes: &[u8]) -> usize {
    let (mut size, mut used) = (0, 0);
    for &byte in bytes.iter().rev() {
        size |= usize::from(byte & 0x7f) << (7 * used);
        used += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    size + used
}

fn read_int(bytes: &[u8]) -> i64 {
    let mut le = [0; 8];
    le[8 - bytes.len()..].copy_from_slice(bytes);
    // The shift back fills with the sign.
    i64::from_le_bytes(le) >> (64 - 8 * bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn survives(item: &[u8]) -> usize {
        let draft = Draft::new(item);
        let mut bytes = vec![7; 3];
        draft.append(&mut bytes);
        let mut copy = vec![0; draft.len()];
        draft.write(&mut copy);
        assert_eq!(bytes[3..], copy);
        let (raw, len) = read(&copy);
        assert_eq!(&*raw.elem(), item);
        assert!(raw == Raw::of(item));
        assert_eq!((len, last_len(&bytes)), (copy.len(), copy.len()));
        assert_eq!(whole_len(&copy), len);
        len
    }

    #[test]
    fn sizes_are_those_of_a_compact_encoding() {
        for (item, size) in [
            ("0", 2),
            ("127", 2),
            ("-1", 3),
            ("4095", 3),
            ("-4096", 3),
            ("4096", 4),
            ("32767", 4),
            ("-32768", 4),
            ("32768", 5),
            ("2147483647", 6),
            ("-9223372036854775808", 10),
            ("", 2),
            ("a", 3),
            ("007", 5),
        ] {
            assert_eq!(survives(item.as_bytes()), size, "{item}");
        }
        for len in [63, 64, 126, 127, 128, 255, 256, 16_380, 16_384, 65_535, 65_536, 3_000_000] {
            survives(&vec![b'x'; len]);
        }
    }

    proptest! {
        #[test]
        fn numbers_survive(n: i64, shift in 0..64u32) {
            survives((n >> shift).to_string().as_bytes());
        }

        #[test]
        fn strings_survive(item in proptest::collection::vec(any::<u8>(), 0..300)) {
            survives(&item);
        }
    }
}
