//! What a database says about an inventory: the truth that a lost shard is put together from.

use std::{collections::BTreeMap, error::Error as StdError};

use super::{record::Standing, reference::Reference};
use crate::error::{Error, Result};

/// One movement, as a database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Movement {
    /// Units came in.
    Received {
        /// The receipt.
        receipt: String,
        /// How many.
        units: u64,
    },
    /// Units are held.
    Held {
        /// For whom.
        reference: Reference,
        /// How many.
        units: u64,
        /// Until when, in milliseconds since 1970.
        until_millis: i64,
    },
    /// Units are sold.
    Sold {
        /// To whom.
        reference: Reference,
        /// How many.
        units: u64,
    },
    /// What was held was released.
    Released {
        /// By whom.
        reference: Reference,
    },
    /// What was sold was taken back.
    TakenBack {
        /// From whom.
        reference: Reference,
    },
}

/// Something that knows all movements of a SKU. Later ones replace earlier ones of the same reference.
pub trait Ledger {
    /// All movements, in their order. Asked when nothing moves any more at the shards to be rebuilt,
    /// so that a movement which was answered before is among them if its writer waited for the
    /// database.
    fn movements(
        &self,
    ) -> impl Future<Output = Result<Vec<Movement>, Box<dyn StdError + Send + Sync>>> + Send;
}

impl Ledger for Vec<Movement> {
    async fn movements(&self) -> Result<Vec<Movement>, Box<dyn StdError + Send + Sync>> {
        Ok(self.clone())
    }
}

/// What a ledger comes to.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) receipts: BTreeMap<String, u64>,
    pub(super) references: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) standing: Standing,
    pub(super) units: u64,
    pub(super) until_millis: i64,
}

impl Book {
    pub(super) async fn read(ledger: &impl Ledger) -> Result<Self> {
        let movements = ledger.movements().await.map_err(|error| {
            Error::Unavailable(format!("the ledger cannot be read: {error}").into())
        })?;
        let mut book = Book::default();
        for movement in movements {
            let (reference, entry) = match movement {
                Movement::Received { receipt, units } => {
                    book.receipts.insert(receipt, units);
                    continue;
                }
                Movement::Held { reference, units, until_millis } => {
                    (reference, Entry { standing: Standing::Held, units, until_millis })
                }
                Movement::Sold { reference, units } => {
                    (reference, Entry { standing: Standing::Sold, units, until_millis: 0 })
                }
                Movement::Released { reference } => (reference, over(Standing::Released)),
                Movement::TakenBack { reference } => (reference, over(Standing::TakenBack)),
            };
            book.references.insert(reference.as_str().to_owned(), entry);
        }
        Ok(book)
    }
}

fn over(standing: Standing) -> Entry {
    Entry { standing, units: 0, until_millis: 0 }
}
