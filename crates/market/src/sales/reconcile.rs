//! Compares flash sales between Redis and the database; the database is authoritative.
//!
//! First by numbers, which costs nothing: `received = stock + live orders`, and not more confirmed
//! than live. If they disagree, by reference: orders that the database has and the sale does not
//! know are adopted, ended orders are given back. Orders that wait and are too old to be on their
//! way are written to the database, as a worker would. Each of these steps is safe whatever happens
//! concurrently. Last the units that are left:
//!
//! ```text
//! left in Redis = stock in the database − orders that wait and are not in the database yet
//! ```
//!
//! They are corrected only if the sale has not moved since it was read, so that an order on its way
//! voids the round and never makes the sum wrong; the next round tries again.
//!
//! Two balanced stores stay balanced while no order is placed or ends and Redis loses nothing. So a
//! round skips a sale that was balanced ([`Even`]) while no order waits, its numbers in the
//! database are unchanged, and no break of Redis was reported; but not for long.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use seawall::stock::{
    Adopted, CancelOutcome, Corrected, FlashSale, Holding, HoldingState, SaleStatus,
};

use super::{
    AFTER_THE_END, MOST_SALES, Sales, millis,
    reservation::{Opening, number},
    store::{self, Numbers, SaleSnapshot},
};
use crate::{
    breaks::Breaks,
    db::Db,
    error::{Error, Result},
};

/// Maximum looks at a sale that keeps moving, in one round.
const LOOKS: usize = 5;
/// Age at which an order that the database does not know is written to it.
const TOO_OLD: Duration = Duration::from_secs(120);

/// Time that a balanced sale is left alone while nothing seems to move.
const STAYS_EVEN: Duration = Duration::from_secs(120);

/// Sales that were balanced when they were last compared.
#[derive(Debug, Default)]
pub(super) struct Even {
    /// Term of this process, and number of Redis returns.
    at: (u64, u64),
    /// By voucher: its numbers in the database at that time, and the time.
    sales: HashMap<u64, (Numbers, i64)>,
}

impl Even {
    /// Clears everything if Redis may have lost data since.
    pub(super) fn at(&mut self, term: u64, breaks: &Breaks) {
        let at = (term, breaks.returns());
        if self.at != at || !breaks.hears_all() {
            *self = Even { at, sales: HashMap::new() };
        }
    }

    /// Returns `true` if a sale with these numbers need not be compared.
    fn has(&self, voucher: u64, numbers: Option<Numbers>, now: i64) -> bool {
        self.sales.get(&voucher).is_some_and(|(before, compared)| {
            Some(*before) == numbers && now < compared + millis(STAYS_EVEN)
        })
    }
}

/// Findings and repairs of one sale.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Orders that the sale did not know.
    adopted: u64,
    /// Ended orders whose unit had not been returned to the sale.
    returned: u64,
    /// Correction of the units left.
    corrected: i64,
    /// Whether it moved too much to be compared completely.
    unfinished: bool,
}

/// Differences by reference.
#[derive(Debug, Default)]
struct Differences {
    /// User and order.
    unknown: Vec<(u64, u64)>,
    ended: Vec<u64>,
    /// Orders on their way that the database does not know.
    waiting: u64,
}

impl Report {
    /// Returns `result` if the comparison was completed.
    pub(super) fn finished<T>(self, result: T) -> Result<T> {
        if self.unfinished {
            let cause = "it moves too much to be compared with the database".into();
            return Err(Error::Unavailable { what: "the sale", cause });
        }
        Ok(result)
    }
}

impl Sales {
    /// Writes overdue orders to the database, compares every sale that did not end long ago, and
    /// repairs.
    pub(crate) async fn reconcile_all(&self) -> Result<()> {
        self.reconcile_others(&mut Even::default()).await
    }

    /// Like [`Sales::reconcile_all`], but skips sales known to be balanced.
    pub(super) async fn reconcile_others(&self, even: &mut Even) -> Result<()> {
        if self.reservations.anybody_waits().await? {
            even.sales.clear();
            self.bring_old().await?;
        }
        let (db, now) = (&*self.context.db, self.context.now());
        let vouchers = store::sales_after(db, now - millis(AFTER_THE_END), MOST_SALES).await?;
        let current: HashSet<u64> = vouchers.iter().copied().collect();
        even.sales.retain(|voucher, _| current.contains(voucher));
        for voucher in vouchers {
            let numbers = store::numbers(db, voucher).await?;
            if even.has(voucher, numbers, now) {
                continue;
            }
            even.sales.remove(&voucher);
            let report = match self.reconcile(voucher).await {
                Ok(report) => report,
                Err(error @ Error::Unavailable { .. }) => return Err(error),
                Err(error) => {
                    tracing::error!(voucher, %error, "a sale cannot be compared");
                    continue;
                }
            };
            count(&report);
            if report != Report::default() {
                tracing::warn!(voucher, ?report, "a sale was not even");
            } else if let Some(numbers) = numbers {
                even.sales.insert(voucher, (numbers, now));
            }
        }
        Ok(())
    }

    /// Writes orders to the database that should have arrived there.
    async fn bring_old(&self) -> Result<()> {
        let old = self.context.now() - millis(TOO_OLD);
        for order in self.reservations.waiting_since(old).await? {
            tracing::warn!(order = order.id, "the database had not heard of an order");
            match self.bring_one(&order).await {
                Ok(()) => {}
                Err(error @ Error::Unavailable { .. }) => return Err(error),
                // One that cannot be written must not block the others.
                Err(error) => {
                    tracing::error!(order = order.id, %error, "an order cannot be written");
                    continue;
                }
            }
            metrics::counter!("market_sale_differences_total", "kind" => "brought").increment(1);
        }
        Ok(())
    }

    /// Compares one sale, and repairs it.
    pub(crate) async fn reconcile(&self, voucher: u64) -> Result<Report> {
        let (db, sale) = (&*self.context.db, self.reservations.sale(voucher)?);
        let Some(status) = sale.status().await? else {
            let _: Opening = self.reservations.open(voucher).await?;
            return Ok(Report::default());
        };
        let Some(numbers) = store::numbers(db, voucher).await? else {
            return Ok(Report::default());
        };
        if agrees(&status, numbers) {
            return Ok(Report::default());
        }
        even_out(db, &sale, voucher).await
    }
}

/// Compares one sale by reference, and repairs it.
pub(super) async fn even_out(db: &Db, sale: &FlashSale, voucher: u64) -> Result<Report> {
    let mut report = Report::default();
    for _ in 0..LOOKS {
        // In this order: any movement after the first look voids the last step.
        let Some(seen) = sale.status().await? else { return Ok(report) };
        let held = sale.holdings().await?;
        let Some(snapshot) = store::snapshot(db, voucher).await? else { return Ok(report) };
        let differences = compare(&held, &snapshot);
        if repair(sale, &differences, &mut report).await? {
            continue;
        }
        let waiting = i64::try_from(differences.waiting).unwrap_or(i64::MAX);
        let left = u64::try_from(snapshot.stock.saturating_sub(waiting)).unwrap_or(0);
        if left == seen.left {
            return Ok(report);
        }
        if let Corrected::Corrected(_) = sale.correct_left(&seen, left).await? {
            report.corrected += left.cast_signed() - seen.left.cast_signed();
            return Ok(report);
        }
    }
    report.unfinished = true;
    Ok(report)
}

/// Repairs differences by reference. Returns `true` if there were any.
async fn repair(sale: &FlashSale, differences: &Differences, report: &mut Report) -> Result<bool> {
    let before = *report;
    for (user, order) in &differences.unknown {
        if sale.adopt(user, order).await? == Adopted::Adopted {
            report.adopted += 1;
        }
    }
    for order in &differences.ended {
        if sale.give_back(order).await? == CancelOutcome::Returned {
            report.returned += 1;
        }
    }
    Ok(*report != before)
}

/// Returns `true` if the numbers are consistent. Confirmations come a little after their rows.
fn agrees(status: &SaleStatus, numbers: Numbers) -> bool {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let unconfirmed = numbers.live.saturating_sub(signed(status.confirmed));
    signed(status.received) == numbers.stock.saturating_add(numbers.live)
        && (0..=signed(status.reserved)).contains(&unconfirmed)
}

fn compare(held: &[Holding], snapshot: &SaleSnapshot) -> Differences {
    let mut differences = Differences::default();
    let rows: HashMap<u64, bool> =
        snapshot.orders.iter().map(|order| (order.id, order.live)).collect();
    let mut known = HashSet::new();
    for holding in held.iter().filter(|holding| holding.state != HoldingState::GivenBack) {
        let Some(order) = number(&holding.reference) else { continue };
        known.insert(order);
        match rows.get(&order) {
            Some(true) => {}
            Some(false) => differences.ended.push(order),
            None => differences.waiting += 1,
        }
    }
    let live = snapshot.orders.iter().filter(|order| order.live && !known.contains(&order.id));
    differences.unknown = live.map(|order| (order.user_id, order.id)).collect();
    differences
}

fn count(report: &Report) {
    let kinds = [
        ("adopted", report.adopted),
        ("returned", report.returned),
        ("corrected", report.corrected.unsigned_abs()),
    ];
    metrics::counter!("market_sale_comparisons_total").increment(1);
    for (kind, found) in kinds {
        metrics::counter!("market_sale_differences_total", "kind" => kind).increment(found);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::store::Written, *};
    use crate::sales::reservation::Window;

    fn held(reference: &str, state: HoldingState) -> Holding {
        Holding { reference: reference.into(), user: b"7".to_vec(), state, at_millis: 1 }
    }

    #[test]
    fn a_sale_is_left_alone_only_while_it_seems_to_stand_still() {
        let numbers = Numbers { stock: 5, live: 2 };
        let even = Even { at: (1, 0), sales: HashMap::from([(7, (numbers, 1_000))]) };
        let soon = 1_000 + millis(STAYS_EVEN) - 1;
        assert!(even.has(7, Some(numbers), soon));
        assert!(!even.has(7, Some(numbers), soon + 1), "not for long");
        assert!(!even.has(7, Some(Numbers { stock: 6, live: 1 }), soon), "an order ended");
        assert!(!even.has(8, Some(numbers), soon), "it was never compared");
    }

    #[test]
    fn references_are_sorted_into_what_has_to_be_done() {
        let row = |id, live| Written { id, user_id: id * 10, live };
        let orders = vec![row(1, true), row(2, false), row(3, true), row(4, false)];
        let snapshot = SaleSnapshot { stock: 5, window: Window { begin: 0, end: 1 }, orders };
        let held = [
            held("1", HoldingState::Reserved),
            held("2", HoldingState::Confirmed),
            held("4", HoldingState::GivenBack),
            held("5", HoldingState::Reserved),
        ];
        let differences = compare(&held, &snapshot);
        assert_eq!(differences.unknown, [(30, 3)]);
        assert_eq!(differences.ended, [2]);
        assert_eq!(differences.waiting, 1, "5 has no row");
    }
}
