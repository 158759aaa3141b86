//! The encoding of members and values of a collection in Redis.
//!
//! Text and numbers are stored as they are, so that other clients can read them and existing
//! collections can be taken over; [`Packed`] holds everything else.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};

/// A type that can be a member or a value of a collection.
pub trait Element: Sized + Send + Sync {
    /// Returns its bytes in Redis. The same value always has the same bytes.
    fn to_bytes(&self) -> Cow<'_, [u8]>;

    /// Decodes a value. Returns `None` if the bytes are not valid.
    fn from_bytes(bytes: Vec<u8>) -> Option<Self>;
}

impl Element for Vec<u8> {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        Some(bytes)
    }
}

impl Element for String {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        String::from_utf8(bytes).ok()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Element for $number {
            fn to_bytes(&self) -> Cow<'_, [u8]> {
                Cow::Owned(itoa::Buffer::new().format(*self).as_bytes().to_vec())
            }

            fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
                std::str::from_utf8(&bytes).ok()?.parse().ok()
            }
        }
    )*};
}
numbers!(u16, u32, u64, i16, i32, i64);

/// Any value that serde can encode, as MessagePack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Packed<T>(
    /// The value.
    pub T,
);

impl<T: Serialize + DeserializeOwned + Send + Sync> Element for Packed<T> {
    fn to_bytes(&self) -> Cow<'_, [u8]> {
        // A value that cannot be encoded has no bytes, and decodes as damaged.
        Cow::Owned(rmp_serde::to_vec_named(&self.0).unwrap_or_default())
    }

    fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        rmp_serde::from_slice(&bytes).ok().map(Packed)
    }
}
