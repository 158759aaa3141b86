//! Who holds: an owner, and each of its holds.
//!
//! Both are chosen at random before anything is sent. That is what makes taking and giving back
//! idempotent: a command whose reply was lost is sent again with the same ids and finds what it did
//! the first time, and a release can only ever hit the very hold it belongs to.

use std::{fmt, str::FromStr};

use seawall_client::error::{Error, Result};

/// Who holds a lock: the same owner may enter again, from another call or another process.
///
/// ```
/// use seawall::lock::OwnerId;
///
/// let owner = OwnerId::random();
/// let handed_over: OwnerId = owner.to_string().parse()?;
/// assert_eq!(handed_over, owner);
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerId(u128);

impl OwnerId {
    /// An owner like no other.
    #[must_use]
    pub fn random() -> Self {
        OwnerId(rand::random())
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnerId({self})")
    }
}

impl FromStr for OwnerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if digits => Ok(OwnerId(id)),
            _ => Err(Error::Invalid("an owner's id is 32 hexadecimal digits".into())),
        }
    }
}

/// One hold of an owner; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldId(u64);

impl HoldId {
    pub(super) fn random() -> Self {
        HoldId(rand::random())
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
