//! The name of one movement, and its home: the shard that decides about it.
//!
//! Any process may repeat a movement at any time, so all processes must agree, without
//! communication, which shard knows about it. Therefore the home is part of the reference: written
//! after an `@`, or found by hashing. [`Inventory::reference`](super::Inventory::reference) picks a
//! reachable home, in rotation; the caller must then keep the reference as it is (`order-17@2`).

use std::fmt;

use seawall_client::error::{Error, Result};

/// Maximum length of a reference in bytes.
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
    /// Creates a reference from a text.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is empty or longer than [`MAX_REFERENCE_BYTES`].
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

    /// Returns the shard that decides about it, in an inventory with `shards` shards.
    #[must_use]
    pub fn home(&self, shards: usize) -> usize {
        let named = self.0.rsplit_once('@').and_then(|(_, home)| home.parse::<usize>().ok());
        let hashed = || xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()) % shards.max(1) as u64;
        named.filter(|home| *home < shards).unwrap_or_else(|| hashed() as usize)
    }

    /// Returns the text of the reference.
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
