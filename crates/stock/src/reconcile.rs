//! Compares an inventory with a ledger, and repairs the differences on request.
//!
//! Shards forget: a receipt or a sale that finished long ago still counts in the units but has no
//! record any more. A movement in the ledger that no shard knows is therefore either *forgotten* or
//! was *never carried out*. Carrying it out would be right for the second and wrong for the first.
//! The units tell them apart: as many units as the shards have without a record are forgotten, the
//! oldest first. Units are interchangeable, so it does not matter which ones. If the units do not
//! add up, nothing is guessed: the totals are reported.
//!
//! Run it when there is little traffic: a movement in transit between Redis and the database shows
//! as a difference.

use std::{collections::BTreeMap, time::Duration};

use seawall_client::error::Result;

use super::{
    inventory::Inventory,
    ledger::{Book, Entry, Ledger},
    levels::Levels,
    receive::Received,
    record::{Record, Standing},
    reference::Reference,
    settle::Settled,
};

/// What to do about differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Reports them only.
    Report,
    /// Brings the inventory to the state of the ledger, by ordinary movements.
    Apply,
}

/// A disagreement between an inventory and a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Difference {
    /// A receipt differs.
    Receipt {
        /// The receipt.
        receipt: String,
        /// Units according to the ledger.
        ledger: u64,
        /// Units at the shards.
        stock: u64,
        /// Whether it was repaired.
        repaired: bool,
    },
    /// A hold or a sale differs.
    Reference {
        /// The reference.
        reference: Reference,
        /// State and units according to the ledger.
        ledger: (Standing, u64),
        /// State and units at its home.
        stock: (Standing, u64),
        /// Whether it was repaired.
        repaired: bool,
    },
    /// The received or sold units whose records the shards have forgotten do not match the
    /// movements that only the ledger has. Forgotten movements are left alone;
    /// [`Inventory::rebuild`] repairs them.
    Totals {
        /// Levels according to the ledger.
        ledger: Levels,
        /// Levels at the shards, before any repair.
        stock: Levels,
    },
}

/// Records and levels of the shards.
#[derive(Default)]
struct Noted {
    levels: Levels,
    receipts: BTreeMap<String, u64>,
    references: BTreeMap<String, (Standing, u64)>,
}

/// A movement in the ledger that no shard knows.
struct Unknown {
    name: String,
    units: u64,
    place: usize,
}

impl Inventory {
    /// Compares the inventory with a ledger. All shards must be reachable.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`seawall_client::Error::Unavailable`] if
    /// the ledger cannot be read, [`seawall_client::Error::Invalid`] if it has more units than can
    /// be counted exactly.
    pub async fn reconcile(&self, ledger: &impl Ledger, repair: Repair) -> Result<Vec<Difference>> {
        let book = Book::read(ledger, self.shards()).await?;
        let mut noted = self.noted().await?;
        let now = self.inner.client.server_millis();
        let (stock, totals) = (noted.levels, book.levels(now));
        let mut differences = Vec::new();
        let received = self.receipts(&book, &mut noted, repair, &mut differences).await?;
        let sold = self.references(&book, &mut noted, repair, &mut differences).await?;
        if !(received && sold) {
            differences.push(Difference::Totals { ledger: totals, stock });
        }
        Ok(differences)
    }

    async fn noted(&self) -> Result<Noted> {
        let mut noted = Noted::default();
        for shard in 0..self.shards() {
            for (field, value) in self.inner.survey(shard).await? {
                if let Some(receipt) = field.strip_prefix("r:") {
                    let units = value.split(' ').nth(1).and_then(|units| units.parse().ok());
                    *noted.receipts.entry(receipt.to_owned()).or_default() += units.unwrap_or(0);
                } else if let Some(reference) = field.strip_prefix("h:")
                    && let Some(record) = Record::from_value(&value)
                {
                    let standing = (record.standing, record.total());
                    noted.references.insert(reference.to_owned(), standing);
                }
            }
            noted.levels = noted.levels + self.inner.look(shard).await?;
        }
        Ok(noted)
    }

    /// Compares receipts. Returns `false` if the units of forgotten receipts do not add up.
    async fn receipts(
        &self,
        book: &Book,
        noted: &mut Noted,
        repair: Repair,
        differences: &mut Vec<Difference>,
    ) -> Result<bool> {
        let remembered = noted.receipts.values().sum();
        let (mut missing, mut unknown) = (Vec::new(), Vec::new());
        for (receipt, entry) in &book.receipts {
            match noted.receipts.remove(receipt) {
                Some(stock) if stock == entry.units => {}
                Some(stock) => missing.push((receipt.clone(), entry.units, stock)),
                None if entry.units == 0 => {}
                None => {
                    let (name, units, place) = (receipt.clone(), entry.units, entry.place);
                    unknown.push(Unknown { name, units, place });
                }
            }
        }
        let lost = without_forgotten(unknown, noted.levels.received, remembered);
        let adds_up = lost.is_some();
        missing.extend(lost.unwrap_or_default().into_iter().map(|it| (it.name, it.units, 0)));
        for (receipt, ledger, stock) in missing {
            let repaired = repair == Repair::Apply && stock < ledger && {
                let received = self.receive(&receipt, ledger).await?;
                matches!(received, Received::Complete { .. })
            };
            differences.push(Difference::Receipt { receipt, ledger, stock, repaired });
        }
        for (receipt, stock) in std::mem::take(&mut noted.receipts) {
            differences.push(Difference::Receipt { receipt, ledger: 0, stock, repaired: false });
        }
        Ok(adds_up)
    }

    /// Compares holds and sales. Returns `false` if the units of forgotten sales do not add up.
    async fn references(
        &self,
        book: &Book,
        noted: &mut Noted,
        repair: Repair,
        differences: &mut Vec<Difference>,
    ) -> Result<bool> {
        let sold = noted.references.values().filter(|(standing, _)| *standing == Standing::Sold);
        let remembered = sold.map(|(_, units)| units).sum();
        let now = self.inner.client.server_millis();
        let nothing = (Standing::Unknown, 0);
        let mut unknown = Vec::new();
        for (text, entry) in &book.references {
            let stock = noted.references.remove(text).unwrap_or(nothing);
            if entry.standing == Standing::Sold && stock.0 == Standing::Unknown {
                let (name, units, place) = (text.clone(), entry.units, entry.place);
                unknown.push(Unknown { name, units, place });
            } else if !agrees(entry, stock, now) {
                self.differ(text, *entry, stock, repair, differences).await?;
            }
        }
        let lost = without_forgotten(unknown, noted.levels.sold, remembered);
        let adds_up = lost.is_some();
        for Unknown { name, .. } in lost.unwrap_or_default() {
            let entry = book.references[&name];
            self.differ(&name, entry, nothing, repair, differences).await?;
        }
        for (text, stock) in std::mem::take(&mut noted.references) {
            if matches!(stock.0, Standing::Held | Standing::Sold) {
                let entry =
                    Entry { standing: Standing::Unknown, units: 0, until_millis: 0, place: 0 };
                self.differ(&text, entry, stock, repair, differences).await?;
            }
        }
        Ok(adds_up)
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

    /// Brings one reference to the state of the ledger. Returns `false` if no movement can do that.
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
                let left = entry.until_millis - self.inner.client.server_millis();
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

/// Returns `true` if both mean the same. A reference may be over in different ways, and a hold is
/// over when its time has come, whether or not a sweeper has released it.
fn agrees(entry: &Entry, (standing, units): (Standing, u64), now_millis: i64) -> bool {
    match entry.standing {
        Standing::Held if entry.until_millis <= now_millis => standing != Standing::Sold,
        Standing::Held | Standing::Sold => entry.standing == standing && entry.units == units,
        _ => !matches!(standing, Standing::Held | Standing::Sold),
    }
}

/// Removes the forgotten movements: the oldest ones whose units make up what the shards have beyond
/// their records. Returns `None` if the units of the oldest movements do not add up to that number.
fn without_forgotten(
    mut unknown: Vec<Unknown>,
    there: u64,
    remembered: u64,
) -> Option<Vec<Unknown>> {
    let mut forgotten = there.saturating_sub(remembered);
    unknown.sort_by_key(|unknown| unknown.place);
    let mut count = 0;
    while forgotten > 0 {
        forgotten = forgotten.checked_sub(unknown.get(count)?.units)?;
        count += 1;
    }
    Some(unknown.split_off(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_as_far_as_there_are_units_without_a_record() {
        let lost = |units: &[u64], there, remembered| {
            let unknown = units.iter().enumerate().rev().map(|(place, &units)| Unknown {
                name: place.to_string(),
                units,
                place,
            });
            let lost = without_forgotten(unknown.collect(), there, remembered)?;
            Some(lost.into_iter().map(|unknown| unknown.place).collect::<Vec<_>>())
        };
        assert_eq!(lost(&[], 9, 9), Some(vec![]));
        assert_eq!(lost(&[5, 4], 9, 9), Some(vec![0, 1]), "all were lost");
        assert_eq!(lost(&[5, 4], 9, 0), Some(vec![]), "all are forgotten");
        assert_eq!(lost(&[5, 4], 7, 2), Some(vec![1]), "the older one is");
        assert_eq!(lost(&[5, 4], 6, 2), None);
        assert_eq!(lost(&[], 9, 8), None);
        assert_eq!(lost(&[5], 3, 4), Some(vec![0]), "a part that was not told yet");
    }
}
