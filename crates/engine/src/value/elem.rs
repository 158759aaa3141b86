//! An element as commands see it: bytes, wherever and however they are stored.
//!
//! Compact collections keep integers as integers. Reading one writes its decimal digits into the
//! element itself, so that callers never care and nothing is allocated.

use std::ops::Deref;

/// The longest decimal `i64`, with its sign.
const MAX_DIGITS: usize = 20;

/// One element of a collection; it dereferences to its bytes.
#[derive(Clone, Copy)]
pub(crate) enum Elem<'a> {
    /// Bytes that lie in the collection as they are.
    Bytes(&'a [u8]),
    /// An integer that is stored as such.
    Int(Digits),
}

/// A number written out in decimal.
#[derive(Clone, Copy)]
pub(crate) struct Digits {
    bytes: [u8; MAX_DIGITS],
    len: u8,
}

impl Elem<'_> {
    /// The element for a number.
    #[inline]
    pub(crate) fn int(value: i64) -> Self {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        let mut bytes = [0; MAX_DIGITS];
        bytes[..text.len()].copy_from_slice(text);
        Self::Int(Digits { bytes, len: text.len() as u8 })
    }
}

impl Deref for Elem<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Int(digits) => &digits.bytes[..digits.len as usize],
        }
    }
}

impl AsRef<[u8]> for Elem<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Elem<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl std::fmt::Debug for Elem<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::Elem;

    #[test]
    fn numbers_read_as_their_digits() {
        for n in [0, -1, 42, i64::MIN, i64::MAX] {
            let elem = Elem::int(n);
            assert_eq!(*elem, *n.to_string().as_bytes());
            assert_eq!(elem, Elem::Bytes(n.to_string().as_bytes()));
        }
    }
}
