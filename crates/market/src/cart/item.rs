//! A cart item and the changes that apply to it.
//!
//! Every addition has a name: the client's key, or a generated one. Redis remembers the names it
//! has executed. So if the reply of a call was lost and the call continued in the database, Redis
//! does not execute it again when it receives it from there.

use crate::submissions::IdempotencyKey;

/// An item, as stored in both Redis and the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// SKU.
    pub sku: u64,
    /// Number of units; 0 for a removal.
    pub count: u32,
    /// Whether it is selected for checkout.
    pub selected: bool,
    /// Price when it was added, in cents.
    pub add_price: i64,
    /// Time when it was added, in milliseconds.
    pub added: i64,
    /// Grows with each change; the higher version wins.
    pub version: i64,
}

/// A change of one user's cart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Adds units of a SKU.
    Add {
        /// SKU.
        sku: u64,
        /// Number of units to add.
        count: u32,
        /// Current price.
        price: i64,
        /// Name that makes the addition take effect once.
        name: Name,
    },
    /// Sets the count or the selection.
    Set {
        /// SKU.
        sku: u64,
        /// New number of units; 0 removes the item.
        count: Option<u32>,
        /// Whether it is selected for checkout.
        selected: Option<bool>,
    },
    /// Removes an item.
    Remove {
        /// SKU.
        sku: u64,
    },
    /// Removes bought items that still have the bought version.
    Take {
        /// SKU and version of each item.
        items: Vec<(u64, i64)>,
    },
}

/// Name of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// Chosen by the client, which may repeat the request.
    Given(IdempotencyKey),
    /// Generated for one attempt. Begins with a space, which no client key contains.
    Ours(String),
}

impl Name {
    /// Generates a unique name.
    pub(crate) fn fresh() -> Self {
        Name::Ours(format!(" {:032x}", rand::random::<u128>()))
    }

    /// Returns the name as text.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Name::Given(key) => key.as_str(),
            Name::Ours(name) => name,
        }
    }

    /// Returns the client's key, if the client chose the name.
    pub(crate) fn given(&self) -> Option<&IdempotencyKey> {
        match self {
            Name::Given(key) => Some(key),
            Name::Ours(_) => None,
        }
    }

    /// Parses a stored name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.starts_with(' ') {
            return Some(Name::Ours(text.to_owned()));
        }
        // Stored names were validated before.
        IdempotencyKey::parse(text).ok().map(Name::Given)
    }
}

/// Reason why a change was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The item is not in the cart.
    NoSuchItem,
    /// The cart has too many SKUs.
    Full,
    /// The item would have too many units.
    TooMany,
    /// Too many changes wait for the database.
    Busy,
}
