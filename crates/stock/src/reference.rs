//! The name of one movement, and its home: the shard that decides about it.
//!
//! A movement may be repeated by anybody at any time, so everybody must agree, without asking, which
//! shard knows about it. That is why the home is a part of the reference: written behind an `@`, or
//! found by hashing. Whoever lets [`Inventory::reference`](super::Inventory::reference) choose gets a
//! home that is alive, another one each time, and must keep the reference as it is (`order-17@2`).

use std::fmt;

use seawall_client::error::{Error, Result};

/// Longest reference that is accepted.
pub const MAX_REFERENCE_BYTES: usize = 512;

/// Names a hold or a sale of an [`Inventory`](super::Inventory).
///
/// ```
/// use seawall::stock::Reference;
///
/// let reference = Reference::new("order-17")?;
/// assert_eq!(reference.home(3), reference.home(3), "always the same shard of three");
/// assert_eq!(Reference::new("order-17@2")?.home(3), 2);
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference(String);

impl Reference {
    /// A reference of this text.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is empty or longer than [`MAX_REFERENCE_BYTES`].
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        if text.is_empty() || text.len() > MAX_REFERENCE_BYTES {
            return Err(Error::Invalid(format!(
                "a reference has 1 to {MAX_REFERENCE_BYTES} bytes, not {}",
                text.len()
            )));
        }
        Ok(Reference(text))
    }

    pub(super) fn at(name: &str, home: usize) -> Result<Self> {
        Self::new(format!("{name}@{home}"))
    }

    /// The shard that decides about it, of so many.
    #[must_use]
    pub fn home(&self, shards: usize) -> usize {
        let named = self.0.rsplit_once('@').and_then(|(_, home)| home.parse::<usize>().ok());
        let hashed = || xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()) % shards.max(1) as u64;
        named.filter(|home| *home < shards).unwrap_or_else(|| hashed() as usize)
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
