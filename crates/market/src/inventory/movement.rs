//! Movements of stock, as stored in the database and in Redis.

/// Reason of a movement; ordered as the movements of a unit are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A delivery was received.
    Receipt,
    /// An order took the units.
    Sale,
    /// An order returned the units.
    Return,
}

impl Reason {
    /// Returns the word stored in the database.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Reason::Receipt => "RECEIPT",
            Reason::Sale => "SALE",
            Reason::Return => "RETURN",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        [Reason::Receipt, Reason::Sale, Reason::Return].into_iter().find(|it| it.word() == word)
    }
}

/// One movement of one SKU. Reference and reason identify it: it happens once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Movement {
    /// Id of the log row.
    pub(crate) id: u64,
    /// SKU.
    pub(crate) sku: u64,
    /// Change of the units on hand; negative if units leave.
    pub(crate) delta: i64,
    /// Reason.
    pub(crate) reason: Reason,
    /// Receipt id, or the reference under which an order holds its units.
    pub(crate) reference: String,
}

impl Movement {
    /// Returns the number of units.
    pub(super) fn units(&self) -> u64 {
        self.delta.unsigned_abs()
    }

    /// Returns the name of a receipt in Redis.
    pub(super) fn receipt(&self) -> String {
        format!("in:{}", self.reference)
    }

    /// Returns the name of a receipt that brings back units whose sale Redis has forgotten.
    pub(super) fn returned(&self) -> String {
        format!("back:{}", self.reference)
    }
}

/// Returns the reference of an order's units; `home` is the shard that decides about them.
pub(crate) fn reference(order: u64, home: usize) -> String {
    format!("o{order}@{home}")
}
