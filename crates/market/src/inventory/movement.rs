//! Movements of stock, as the database and Redis both know them.

/// Why units move; in the order in which they can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    /// A delivery came in.
    Receipt,
    /// An order took them.
    Sale,
    /// An order gave them back.
    Return,
}

impl Reason {
    /// As the database has it.
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

/// One movement of one SKU. Its reference and reason name it: it happens once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Movement {
    /// The row of the log.
    pub(crate) id: u64,
    /// What moves.
    pub(crate) sku: u64,
    /// How many come; fewer than none when they go.
    pub(crate) delta: i64,
    /// Why.
    pub(crate) reason: Reason,
    /// A receipt's id, or the reference under which an order holds its units.
    pub(crate) reference: String,
}

impl Movement {
    /// How many units move.
    pub(super) fn units(&self) -> u64 {
        self.delta.unsigned_abs()
    }

    /// A receipt's name in Redis.
    pub(super) fn receipt(&self) -> String {
        format!("in:{}", self.reference)
    }

    /// The name of a receipt that brings back what Redis has forgotten to have sold.
    pub(super) fn returned(&self) -> String {
        format!("back:{}", self.reference)
    }
}

/// The reference of an order's units, which the shard `home` decides about.
pub(crate) fn reference(order: u64, home: usize) -> String {
    format!("o{order}@{home}")
}
