//! Flash sales compared between Redis and the database; the database is right.
//!
//! First by numbers, which costs nothing: `received = stock + orders that stand`, and no more
//! confirmed than stand. Where they do not agree, by reference: what the database has and the sale does
//! not know is adopted, what ended is given back. What waits and is too old to be on its way is brought
//! to the database, as a worker would. Each of these is safe whatever happens at the same time. Last the
//! units that are left:
//!
//! ```text
//! left in Redis = stock in the database − orders that wait and are not in the database yet
//! ```
//!
//! corrected only if the sale has not moved since it was looked at, so that an order on its way makes
//! the round void and never the sum wrong; the next round tries again.
//!
//! Two stores that were even stay so while nobody buys, nothing ends and Redis forgets nothing. So a round
//! leaves a sale alone that was even ([`Even`]) while no order waits, its numbers in the database are
//! what they were, and no break of Redis was heard; but not for long.

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

/// How often a sale that keeps moving is looked at in one round.
const LOOKS: usize = 5;
/// An order that the database has not heard of after this long is brought to it.
const TOO_OLD: Duration = Duration::from_secs(120);

/// For how long a sale that was even is left alone while nothing seems to move.
const STAYS_EVEN: Duration = Duration::from_secs(120);

/// Sales that were even when they were last compared.
#[derive(Debug, Default)]
pub(super) struct Even {
    /// The term of this process, and how often Redis was back after a break.
    at: (u64, u64),
    /// By voucher: its numbers in the database then, and when that was.
    sales: HashMap<u64, (Numbers, i64)>,
}

impl Even {
    /// Forgets everything where Redis may have forgotten something since.
    pub(super) fn at(&mut self, term: u64, breaks: &Breaks) {
        let at = (term, breaks.returns());
        if self.at != at || !breaks.hears_all() {
            *self = Even { at, sales: HashMap::new() };
        }
    }

    /// Whether a sale with these numbers need not be looked at.
    fn has(&self, voucher: u64, numbers: Option<Numbers>, now: i64) -> bool {
        self.sales.get(&voucher).is_some_and(|(before, compared)| {
            Some(*before) == numbers && now < compared + millis(STAYS_EVEN)
        })
    }
}

/// What a comparison of one sale found and repaired.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Orders that the sale did not know.
    adopted: u64,
    /// Orders that had ended, and whose unit the sale did not have back.
    returned: u64,
    /// By how much the units left were wrong.
    corrected: i64,
    /// Whether it moved too much to be compared to the end.
    unfinished: bool,
}

/// What differs between the two, by reference.
#[derive(Debug, Default)]
struct Differences {
    /// User and order.
    unknown: Vec<(u64, u64)>,
    ended: Vec<u64>,
    /// Orders on their way that the database has not heard of.
    waiting: u64,
}

impl Report {
    /// A result, once all was compared.
    pub(super) fn finished<T>(self, result: T) -> Result<T> {
        if self.unfinished {
            let cause = "it moves too much to be compared with the database".into();
            return Err(Error::Unavailable { what: "the sale", cause });
        }
        Ok(result)
    }
}

impl Sales {
    /// Brings to the database what it should have heard of, compares every sale that is not long over,
    /// and repairs.
    pub(crate) async fn reconcile_all(&self) -> Result<()> {
        self.reconcile_others(&mut Even::default()).await
    }

    /// The same, for sales that are not known to be even.
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

    /// Brings orders to the database that it should have heard of.
    async fn bring_old(&self) -> Result<()> {
        let old = self.context.now() - millis(TOO_OLD);
        for order in self.reservations.waiting_since(old).await? {
            tracing::warn!(order = order.id, "the database had not heard of an order");
            match self.bring_one(&order).await {
                Ok(()) => {}
                Err(error @ Error::Unavailable { .. }) => return Err(error),
                // One that cannot be written must not keep the others from it.
                Err(error) => {
                    tracing::error!(order = order.id, %error, "an order cannot be written");
                    continue;
                }
            }
            metrics::counter!("market_sale_differences_total", "kind" => "brought").increment(1);
        }
        Ok(())
    }

    /// Compares one sale, and repairs.
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

/// Compares one sale by reference, and repairs.
pub(super) async fn even_out(db: &Db, sale: &FlashSale, voucher: u64) -> Result<Report> {
    let mut report = Report::default();
    for _ in 0..LOOKS {
        // In this order: what moves after the first look makes the last step void.
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

/// Repairs what differs by reference; true when anything did.
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

/// Whether the numbers can belong together. Confirmations come a little after the rows they stand for.
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
