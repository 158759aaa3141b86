//! Ids of owners and of their holds.
//!
//! Both are chosen at random before anything is sent. This makes acquiring and releasing
//! idempotent: a command whose reply was lost is sent again with the same ids and finds what it did
//! the first time, and a release can only affect the hold it belongs to.

use std::{fmt, str::FromStr};

use seawall_client::error::{Error, Result};
use seawall_resilience::random::Randomness;

/// Identifies the owner of a lock.
///
/// The same owner may re-enter, from another call or another process.
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
    /// Creates a new random owner id.
    #[must_use]
    pub fn random() -> Self {
        Self::draw(&Randomness::system())
    }

    /// Creates a new owner id from a handle's source.
    pub(super) fn draw(randomness: &Randomness) -> Self {
        OwnerId(randomness.u128())
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

/// Identifies one hold of an owner; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HoldId(u64);

impl HoldId {
    pub(super) fn draw(randomness: &Randomness) -> Self {
        HoldId(randomness.u64())
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
