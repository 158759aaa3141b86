//! An item of a cart, and what can be done to it.
//!
//! Units that are added always have a name: that of the client, or one of ours. Redis knows the names of
//! what it carried out; so a call whose reply was lost, and that went on in the database, is not
//! carried out again when Redis gets it from there.

use crate::submissions::IdempotencyKey;

/// An item as Redis and the database both have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// What.
    pub sku: u64,
    /// How many; 0 for a removal.
    pub count: u32,
    /// Whether it is to be bought.
    pub selected: bool,
    /// The price when it was put in, in cents.
    pub add_price: i64,
    /// When it was put in, in milliseconds.
    pub added: i64,
    /// Grows with each change; the newer one counts.
    pub version: i64,
}

/// A change of one user's cart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// More units of a SKU, or the first.
    Add {
        /// What.
        sku: u64,
        /// How many more.
        count: u32,
        /// What it costs now.
        price: i64,
        /// What it is called, so that it is done once.
        name: Name,
    },
    /// Another number, or selected or not.
    Set {
        /// What.
        sku: u64,
        /// How many, from now on; 0 removes.
        count: Option<u32>,
        /// Whether it is to be bought.
        selected: Option<bool>,
    },
    /// Away with it.
    Remove {
        /// What.
        sku: u64,
    },
    /// Away with what was bought, where it is still of the version that was.
    Take {
        /// SKU and version.
        items: Vec<(u64, i64)>,
    },
}

/// What a change is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    /// By the client, who may repeat it.
    Given(IdempotencyKey),
    /// By us, for one attempt. Begins with a space, which no client's name has.
    Ours(String),
}

impl Name {
    /// One that nobody else has.
    pub(crate) fn fresh() -> Self {
        Name::Ours(format!(" {:032x}", rand::random::<u128>()))
    }

    /// The characters.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Name::Given(key) => key.as_str(),
            Name::Ours(name) => name,
        }
    }

    /// What the client calls it.
    pub(crate) fn given(&self) -> Option<&IdempotencyKey> {
        match self {
            Name::Given(key) => Some(key),
            Name::Ours(_) => None,
        }
    }

    /// The same from its characters.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.starts_with(' ') {
            return Some(Name::Ours(text.to_owned()));
        }
        // What was kept was checked before.
        IdempotencyKey::parse(text).ok().map(Name::Given)
    }
}

/// Why a change was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is not in the cart.
    NoSuchItem,
    /// There are too many SKUs.
    Full,
    /// There would be too many units of one SKU.
    TooMany,
    /// Too many changes wait for the database.
    Busy,
}
