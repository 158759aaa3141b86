//! Keys built from typed parts, so that no call site concatenates strings.
//!
//! Parts are joined by `:`. No part, whatever its bytes, can run into its neighbour or change the
//! slot of the key: `%`, `:`, `{` and `}` inside a part are written as `%25`, `%3A`, `%7B` and
//! `%7D`. All other bytes are written unchanged; keys need not be text.

use std::net::IpAddr;

use smallvec::SmallVec;

use crate::error::{Error, Result};

/// Maximum length of a key. Redis accepts 512 MB; a key of that size is a mistake.
pub const MAX_KEY_BYTES: usize = 4096;

/// A key under construction. Keys of up to 64 bytes need no allocation.
#[derive(Debug, Clone, Default)]
pub struct KeyBuffer(SmallVec<[u8; 64]>);

impl KeyBuffer {
    /// Creates a buffer that starts with these bytes, unescaped.
    #[must_use]
    pub fn starting_with(bytes: &[u8]) -> Self {
        KeyBuffer(SmallVec::from_slice(bytes))
    }

    /// Appends a part, with separators and braces escaped.
    pub fn push_part(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'%' => self.0.extend_from_slice(b"%25"),
                b':' => self.0.extend_from_slice(b"%3A"),
                b'{' => self.0.extend_from_slice(b"%7B"),
                b'}' => self.0.extend_from_slice(b"%7D"),
                _ => self.0.push(byte),
            }
        }
    }

    /// Appends parts that are already escaped.
    pub fn push_written(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends the separator that ends a part.
    pub fn push_separator(&mut self) {
        self.0.push(b':');
    }

    /// Returns the bytes written so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A value that can be part of a key: numbers, text, bytes, addresses, and tuples of these.
///
/// ```
/// use seawall::key::KeyPart;
///
/// assert_eq!(("user", 42, "a:b").to_key()?, b"user:42:a%3Ab");
/// # Ok::<(), seawall::Error>(())
/// ```
pub trait KeyPart {
    /// Appends this part to `key`.
    fn write(&self, key: &mut KeyBuffer);

    /// Returns the parts as a complete key.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key is empty or longer than [`MAX_KEY_BYTES`].
    fn to_key(&self) -> Result<Vec<u8>> {
        let mut key = KeyBuffer::default();
        self.write(&mut key);
        check(&key, 0)?;
        Ok(key.0.into_vec())
    }
}

/// Builds a key from an unescaped prefix and a part.
pub fn with_prefix(prefix: &[u8], part: &(impl KeyPart + ?Sized)) -> Result<KeyBuffer> {
    let mut key = KeyBuffer::starting_with(prefix);
    part.write(&mut key);
    check(&key, prefix.len())?;
    Ok(key)
}

fn check(key: &KeyBuffer, prefix_bytes: usize) -> Result<()> {
    let length = key.0.len();
    if length == prefix_bytes {
        return Err(Error::Invalid("an empty key names nothing".into()));
    }
    if length > MAX_KEY_BYTES {
        return Err(Error::Invalid(format!(
            "a key of {length} bytes is longer than the {MAX_KEY_BYTES} that are allowed; use a digest of it"
        )));
    }
    Ok(())
}

impl KeyPart for str {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self.as_bytes());
    }
}

impl KeyPart for String {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self.as_bytes());
    }
}

impl KeyPart for [u8] {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self);
    }
}

impl KeyPart for Vec<u8> {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self);
    }
}

impl<T: KeyPart + ?Sized> KeyPart for &T {
    fn write(&self, key: &mut KeyBuffer) {
        (**self).write(key);
    }
}

impl<const N: usize> KeyPart for [u8; N] {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self);
    }
}

impl KeyPart for bool {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(if *self { b"true" } else { b"false" });
    }
}

impl KeyPart for char {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// In the usual text form, so `::1` becomes `%3A%3A1`.
impl KeyPart for IpAddr {
    fn write(&self, key: &mut KeyBuffer) {
        key.push_part(self.to_string().as_bytes());
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl KeyPart for $number {
            fn write(&self, key: &mut KeyBuffer) {
                key.0.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

macro_rules! tuples {
    ($($first:ident $($rest:ident)*;)*) => {$(
        impl<$first: KeyPart, $($rest: KeyPart),*> KeyPart for ($first, $($rest,)*) {
            #[expect(non_snake_case, reason = "a type's name stands for its value")]
            fn write(&self, key: &mut KeyBuffer) {
                let ($first, $($rest,)*) = self;
                $first.write(key);
                $(key.push_separator(); $rest.write(key);)*
            }
        }
    )*};
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn empty_and_huge_keys_are_refused_with_a_sentence() {
        assert!("".to_key().expect_err("empty").to_string().contains("empty"));
        let huge = "x".repeat(MAX_KEY_BYTES + 1);
        assert!(huge.to_key().expect_err("huge").to_string().contains("digest"));
        assert!(with_prefix(b"cache:", "").is_err());
    }

    #[test]
    fn every_kind_of_part_is_written_as_people_write_it() {
        let key = (true, 'ä', [1u8, b':'], "::1".parse::<IpAddr>().expect("an address"), -7, "x");
        assert_eq!(key.to_key().expect("a key"), "true:ä:\u{1}%3A:%3A%3A1:-7:x".as_bytes());
    }

    proptest! {
        #[test]
        fn different_parts_never_make_the_same_key(
            a in proptest::collection::vec(any::<u8>(), 0..6), b in proptest::collection::vec(any::<u8>(), 0..6),
            c in proptest::collection::vec(any::<u8>(), 0..6), d in proptest::collection::vec(any::<u8>(), 0..6),
        ) {
            let (one, other) = ((a.clone(), b.clone()), (c.clone(), d.clone()));
            prop_assert_eq!(one.to_key()? == other.to_key()?, one == other);
            prop_assert!(!one.to_key()?.contains(&b'{'), "a part cannot choose the slot");
        }
    }
}
