//! What a database says about an inventory: the truth that a lost shard is put together from.

use std::{collections::BTreeMap, error::Error as StdError};

use seawall_client::error::{Error, Result};

use super::{
    levels::Levels,
    record::Standing,
    reference::Reference,
    sale::{LAST_MILLIS, MAX_UNITS},
};

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
    pub(super) receipts: BTreeMap<String, Receipt>,
    pub(super) references: BTreeMap<String, Entry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Receipt {
    pub(super) units: u64,
    /// The how manieth movement it is.
    pub(super) place: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) standing: Standing,
    pub(super) units: u64,
    pub(super) until_millis: i64,
    /// The how manieth movement it is.
    pub(super) place: usize,
}

impl Book {
    /// Reads a ledger of an inventory with so many shards.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it has more units than can be counted exactly.
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

    /// Refuses what scripts could not count exactly. Sums of what it lets through do not overflow.
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

    /// What the ledger comes to at a moment of the server's clock: a hold that has ended is over.
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
