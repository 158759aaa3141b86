//! Values stored inside collections: user ids, note ids, names.
//!
//! A [`Member`] is written as the bytes that `redis-cli` shows and parsed strictly: bytes that
//! another program wrote cause an error that quotes them, never a wrong value.

use std::{borrow::Cow, hash::Hash};

use crate::error::{Error, Result};

/// Maximum length of a member.
pub const MAX_MEMBER_BYTES: usize = 1024;

/// A value that can be a member of a set, a sorted set or a geo set.
///
/// ```
/// use seawall::member::Member;
///
/// assert_eq!(42_u64.to_member()?.as_ref(), b"42");
/// assert_eq!(u64::from_member(b"42")?, 42);
/// assert!(u64::from_member(b"forty-two").is_err());
/// # Ok::<(), seawall::Error>(())
/// ```
pub trait Member: Clone + Eq + Hash + Ord + Send + Sync + 'static {
    /// Returns the bytes that represent this value in Redis.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the member is empty or longer than [`MAX_MEMBER_BYTES`].
    fn to_member(&self) -> Result<Cow<'_, [u8]>>;

    /// Parses the value from its bytes in Redis.
    ///
    /// # Errors
    /// [`Error::Unexpected`] if the bytes do not represent a value of this type.
    fn from_member(bytes: &[u8]) -> Result<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Member for $number {
            fn to_member(&self) -> Result<Cow<'_, [u8]>> {
                Ok(Cow::Owned(itoa::Buffer::new().format(*self).as_bytes().to_vec()))
            }

            fn from_member(bytes: &[u8]) -> Result<Self> {
                let number: Option<$number> =
                    std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok());
                number.ok_or_else(|| strange(bytes))
            }
        }
    )*};
}
numbers!(u16, u32, u64, i32, i64);

impl Member for String {
    fn to_member(&self) -> Result<Cow<'_, [u8]>> {
        checked(self.as_bytes())
    }

    fn from_member(bytes: &[u8]) -> Result<Self> {
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| strange(bytes))
    }
}

impl Member for Vec<u8> {
    fn to_member(&self) -> Result<Cow<'_, [u8]>> {
        checked(self)
    }

    fn from_member(bytes: &[u8]) -> Result<Self> {
        Ok(bytes.to_vec())
    }
}

fn checked(bytes: &[u8]) -> Result<Cow<'_, [u8]>> {
    if bytes.is_empty() {
        return Err(Error::Invalid("an empty member names nothing".into()));
    }
    if bytes.len() > MAX_MEMBER_BYTES {
        return Err(Error::Invalid(format!(
            "a member of {} bytes is longer than the {MAX_MEMBER_BYTES} that are allowed; use an id",
            bytes.len()
        )));
    }
    Ok(Cow::Borrowed(bytes))
}

fn strange(bytes: &[u8]) -> Error {
    let shown = &bytes[..bytes.len().min(64)];
    Error::unexpected(format!("the member {:?} is not ours", String::from_utf8_lossy(shown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_and_bad_ones_are_refused() {
        assert_eq!(i64::from_member(&(-5_i64).to_member().unwrap()).unwrap(), -5);
        let name = "a:{b}%".to_owned();
        assert_eq!(String::from_member(&name.to_member().unwrap()).unwrap(), name);
        assert!(String::new().to_member().is_err());
        assert!(vec![0; MAX_MEMBER_BYTES + 1].to_member().is_err());
        assert!(String::from_member(b"\xff").is_err());
        assert!(u64::from_member(b"").is_err());
    }
}
