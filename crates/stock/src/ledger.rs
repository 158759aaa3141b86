//! What a database says about an inventory: the source of truth for rebuilding a lost shard.

use std::{collections::BTreeMap, error::Error as StdError};

use seawall_client::error::{Error, Result};

use super::{
    levels::Levels,
    record::Standing,
    reference::Reference,
    sale::{LAST_MILLIS, MAX_UNITS},
};

/// One movement, as recorded in a database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Movement {
    /// Units were received.
    Received {
        /// The receipt.
        receipt: String,
        /// Number of units.
        units: u64,
    },
    /// Units are held.
    Held {
        /// The reference of the hold.
        reference: Reference,
        /// Number of units.
        units: u64,
        /// When the hold ends, in milliseconds since 1970.
        until_millis: i64,
    },
    /// Units are sold.
    Sold {
        /// The reference of the sale.
        reference: Reference,
        /// Number of units.
        units: u64,
    },
    /// A hold was released.
    Released {
        /// The reference of the hold.
        reference: Reference,
    },
    /// A sale was taken back.
    TakenBack {
        /// The reference of the sale.
        reference: Reference,
    },
}

/// A source that knows all movements of a SKU. Later movements replace earlier ones of the same
/// reference.
pub trait Ledger {
    /// Returns all movements in order. Called when the shards to be rebuilt accept no more
    /// movements, so the result includes every movement that was answered before, provided its
    /// writer waited for the database.
    fn movements(
        &self,
    ) -> impl Future<Output = Result<Vec<Movement>, Box<dyn StdError + Send + Sync>>> + Send;
}

impl Ledger for Vec<Movement> {
    async fn movements(&self) -> Result<Vec<Movement>, Box<dyn StdError + Send + Sync>> {
        Ok(self.clone())
    }
}

/// Totals of a ledger.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) receipts: BTreeMap<String, Receipt>,
    pub(super) references: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Receipt {
    pub(super) units: u64,
    /// Position of the movement in the ledger.
    pub(super) place: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) standing: Standing,
    pub(super) units: u64,
    pub(super) until_millis: i64,
    /// Position of the movement in the ledger.
    pub(super) place: usize,
}

impl Book {
    /// Reads the ledger of an inventory with `shards` shards.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it has more units than can be counted exactly.
    pub(super) async fn read(ledger: &impl Ledger, shards: usize) -> Result<Self> {
        let movements = ledger.movements().await.map_err(|error| {
            Error::Unavailable(format!("the ledger cannot be read: {error}").into())
        })?;
        let mut book = Book::default();
        for (place, movement) in movements.into_iter().enumerate() {
            let (reference, standing, units, until_millis) = match movement {
                Movement::Received { receipt, units } => {
                    book.receipts.insert(receipt, Receipt { units, place });
                    continue;
                }
                Movement::Held { reference, units, until_millis } => {
                    (reference, Standing::Held, units, until_millis)
                }
                Movement::Sold { reference, units } => (reference, Standing::Sold, units, 0),
                Movement::Released { reference } => (reference, Standing::Released, 0, 0),
                Movement::TakenBack { reference } => (reference, Standing::TakenBack, 0, 0),
            };
            let until_millis = until_millis.clamp(0, LAST_MILLIS);
            let entry = Entry { standing, units, until_millis, place };
            book.references.insert(reference.as_str().to_owned(), entry);
        }
        book.check(shards)?;
        Ok(book)
    }

    /// Refuses numbers that scripts could not count exactly. Sums of accepted numbers do not
    /// overflow.
    fn check(&self, shards: usize) -> Result<()> {
        let most = MAX_UNITS * shards as u64;
        let too_many = |what: &str, units: u128, most: u64| {
            Err(Error::Invalid(format!(
                "the ledger has {units} units {what}; {most} can be counted exactly"
            )))
        };
        let received = || self.receipts.values().map(|receipt| receipt.units);
        let taken = || self.references.values().map(|entry| entry.units);
        if let Some(units) = received().chain(taken()).find(|units| *units > MAX_UNITS) {
            return too_many("in one movement", units.into(), MAX_UNITS);
        }
        let sums: [u128; 2] = [received().map(u128::from).sum(), taken().map(u128::from).sum()];
        match sums.into_iter().find(|sum| *sum > most.into()) {
            Some(sum) => too_many("in all", sum, most),
            None => Ok(()),
        }
    }

    /// Returns the levels according to the ledger at a time of the server's clock: an expired hold
    /// no longer counts as held.
    pub(super) fn levels(&self, now_millis: i64) -> Levels {
        let received = self.receipts.values().map(|receipt| receipt.units).sum();
        let mut levels = Levels { received, ..Levels::default() };
        for entry in self.references.values() {
            match entry.standing {
                Standing::Sold => levels.sold += entry.units,
                Standing::Held if entry.until_millis > now_millis => levels.held += entry.units,
                _ => {}
            }
        }
        levels.left = levels.received.saturating_sub(levels.held + levels.sold);
        levels
    }
}
