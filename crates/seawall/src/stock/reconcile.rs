//! Comparing an inventory with a ledger, and making it right where that is asked for.
//!
//! Run it when little moves: what is on its way between Redis and the database shows as a difference.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{
    inventory::Inventory,
    ledger::{Book, Entry, Ledger},
    receive::Received,
    record::{Record, Standing},
    reference::Reference,
    settle::Settled,
};
use crate::error::Result;

/// What is done about differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// They are reported.
    Report,
    /// The inventory is brought to what the ledger says, by ordinary movements.
    Apply,
}

/// Where an inventory and a ledger disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// About a receipt.
    Receipt {
        /// Which.
        receipt: String,
        /// Units by the ledger.
        ledger: u64,
        /// Units at the shards.
        stock: u64,
        /// Whether it was made right.
        repaired: bool,
    },
    /// About a hold or a sale.
    Reference {
        /// Which.
        reference: Reference,
        /// By the ledger.
        ledger: (Standing, u64),
        /// At its home.
        stock: (Standing, u64),
        /// Whether it was made right.
        repaired: bool,
    },
}

impl Inventory {
    /// Compares with a ledger; all shards must be reachable.
    ///
    /// # Errors
    /// As [`Link::send`](crate::Link::send); [`crate::Error::Unavailable`] when the ledger cannot be
    /// read.
    pub async fn reconcile(&self, ledger: &impl Ledger, repair: Repair) -> Result<Vec<Difference>> {
        let book = Book::read(ledger).await?;
        let mut receipts: BTreeMap<String, u64> = BTreeMap::new();
        let mut references: BTreeMap<String, (Standing, u64)> = BTreeMap::new();
        for shard in 0..self.shards() {
            for (field, value) in self.inner.survey(shard).await? {
                if let Some(receipt) = field.strip_prefix("r:") {
                    let units = value.split(' ').nth(1).and_then(|units| units.parse().ok());
                    *receipts.entry(receipt.to_owned()).or_default() += units.unwrap_or(0);
                } else if let Some(reference) = field.strip_prefix("h:")
                    && let Some(record) = Record::from_value(&value)
                {
                    references.insert(reference.to_owned(), (record.standing, record.total()));
                }
            }
        }
        let mut differences = Vec::new();
        for (receipt, units) in &book.receipts {
            let stock = receipts.remove(receipt).unwrap_or(0);
            if stock != *units {
                let repaired = repair == Repair::Apply && stock < *units && {
                    let received = self.receive(receipt, *units).await?;
                    matches!(received, Received::Complete { .. })
                };
                let (receipt, ledger) = (receipt.clone(), *units);
                differences.push(Difference::Receipt { receipt, ledger, stock, repaired });
            }
        }
        for (receipt, stock) in receipts {
            differences.push(Difference::Receipt { receipt, ledger: 0, stock, repaired: false });
        }
        for (text, entry) in &book.references {
            let stock = references.remove(text).unwrap_or((Standing::Unknown, 0));
            if !agrees(entry, stock) {
                self.differ(text, *entry, stock, repair, &mut differences).await?;
            }
        }
        for (text, stock) in references {
            if matches!(stock.0, Standing::Held | Standing::Sold) {
                let entry = Entry { standing: Standing::Unknown, units: 0, until_millis: 0 };
                self.differ(&text, entry, stock, repair, &mut differences).await?;
            }
        }
        Ok(differences)
    }

    async fn differ(
        &self,
        text: &str,
        entry: Entry,
        stock: (Standing, u64),
        repair: Repair,
        differences: &mut Vec<Difference>,
    ) -> Result<()> {
        let reference = Reference::new(text)?;
        let repaired = repair == Repair::Apply && self.make_right(&reference, entry, stock).await?;
        let ledger = (entry.standing, entry.units);
        differences.push(Difference::Reference { reference, ledger, stock, repaired });
        Ok(())
    }

    /// Brings one reference to what the ledger says, where a movement does that.
    async fn make_right(
        &self,
        reference: &Reference,
        entry: Entry,
        (stock, _): (Standing, u64),
    ) -> Result<bool> {
        let done = |settled| matches!(settled, Settled::Now { .. } | Settled::Before { .. });
        Ok(match (entry.standing, stock) {
            (Standing::Sold, Standing::Held | Standing::Unknown) => {
                self.sell_now(reference, entry.units).await?.is_yours()
            }
            (Standing::Held, Standing::Unknown) => {
                let left = entry.until_millis - self.inner.link.server_millis();
                let left = Duration::from_millis(u64::try_from(left).unwrap_or(0).max(1));
                self.hold(reference, entry.units, left).await?.is_yours()
            }
            (Standing::Sold | Standing::Held, _) => false,
            (_, Standing::Held) => done(self.release(reference).await?),
            (_, Standing::Sold) => done(self.take_back(reference).await?),
            _ => false,
        })
    }
}

/// Whether both mean the same: what is over may be over in different ways.
fn agrees(entry: &Entry, (standing, units): (Standing, u64)) -> bool {
    match entry.standing {
        Standing::Held | Standing::Sold => entry.standing == standing && entry.units == units,
        _ => !matches!(standing, Standing::Held | Standing::Sold),
    }
}
