//! An item of a cart, and what can be done to it.

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
        /// What the client calls this, so that it may repeat it.
        submission: Option<IdempotencyKey>,
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
