//! Keeps stock and database in step: applies log rows that Redis has not followed, and compares the
//! two.
//!
//! A SKU whose stock moves is compared in the following rounds, every other SKU once per pass. A
//! pass begins whenever Redis may have lost data: when it is back after a break, and when this
//! process becomes the leader (only Redis knows the leader, so a Redis without its data starts a
//! new term). Otherwise passes are rare, so that an idle market sends Redis almost nothing; but
//! they run once a minute where a break may go unnoticed, and until a pass has reached every shard.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Goods,
    stock::{Because, Gap},
    store,
};
use crate::{db::id, error::Result, jobs::Jobs};

/// Interval at which rows are followed that their own request did not mark as followed.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// Time that a row's own request has for this, in milliseconds.
const GRACE_MS: i64 = 1_000;
/// Steps per round.
const FOLLOW_STEPS: usize = 50;
/// Interval between comparisons of stock and database.
const COMPARE_EVERY: Duration = Duration::from_secs(3);
/// SKUs per round: those that moved, and as many of the pass, which the next round continues.
const COMPARE_SKUS: u32 = 200;
/// A SKU is compared while its last movement is at most this old, in milliseconds: several rounds.
const MOVED_WITHIN_MS: i64 = 10_000;
/// Interval between passes over all SKUs without a reason, in milliseconds.
const PASS_EVERY_MS: i64 = 20 * 60_000;
/// The interval if a break of some server may have gone unnoticed, or a server did not answer.
const UNSURE_PASS_EVERY_MS: i64 = 60_000;

/// Reason for a pass: the term of this process, and the number of Redis returns.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Reason {
    term: u64,
    returns: u64,
}

/// Whether all SKUs of a round could be compared and repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Reached {
    All,
    Some,
}

/// A pass over all SKUs.
#[derive(Debug, Default)]
struct Pass {
    /// Start time by the server's clock, and the reason.
    began: i64,
    reason: Reason,
    /// Whether some shard did not answer.
    missed: bool,
    /// SKU after which the pass continues; `None` if it is complete.
    after: Option<i64>,
}

impl Pass {
    /// Returns the SKU after which this round continues or begins; `None` if no pass is due.
    fn place(&mut self, now: i64, reason: Reason, hears_all: bool) -> Option<i64> {
        let is_sure = hears_all && !self.missed;
        let pause = if is_sure { PASS_EVERY_MS } else { UNSURE_PASS_EVERY_MS };
        let is_due = self.after.is_none() && now >= self.began + pause;
        if is_due || reason != self.reason {
            *self = Pass { began: now, reason, missed: false, after: Some(-1) };
        }
        self.after
    }
}

impl Goods {
    /// Starts the background jobs.
    pub(crate) fn start_jobs(self: &Arc<Self>, jobs: &mut Jobs) {
        let goods = Arc::clone(self);
        jobs.every("stock-follow", FOLLOW_EVERY, move || {
            let goods = Arc::clone(&goods);
            async move { goods.follow().await }
        });
        let goods = Arc::clone(self);
        let pass = Arc::new(Mutex::new(Pass::default()));
        let (term, breaks) = (jobs.term(), jobs.breaks());
        jobs.every("stock-compare", COMPARE_EVERY, move || {
            let (goods, pass) = (Arc::clone(&goods), Arc::clone(&pass));
            let reason = Reason { term: term.number(), returns: breaks.returns() };
            let hears_all = breaks.hears_all();
            async move { goods.compare_some(&pass, reason, hears_all).await }
        });
    }

    /// Makes Redis follow rows that are not marked as followed.
    async fn follow(&self) -> Result<()> {
        for _ in 0..FOLLOW_STEPS {
            if self.stocks.follow_all(self.context.now() - GRACE_MS).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Compares SKUs that moved, and the next ones of a pass.
    async fn compare_some(
        &self,
        pass: &Mutex<Pass>,
        reason: Reason,
        hears_all: bool,
    ) -> Result<()> {
        let lock = || pass.lock().unwrap_or_else(PoisonError::into_inner);
        let (db, now) = (&*self.context.db, self.context.now());
        let mut skus = store::moved_since(db, now - MOVED_WITHIN_MS, COMPARE_SKUS).await?;
        let place = lock().place(now, reason, hears_all);
        let mut passed = None;
        if let Some(after) = place {
            let next = store::stocked_after(db, after, COMPARE_SKUS).await?;
            let is_end = next.len() < COMPARE_SKUS as usize;
            passed = Some(next.last().filter(|_| !is_end).map(|sku| id(*sku)));
            skus.extend(next);
        }
        skus.sort_unstable();
        skus.dedup();
        let reached = self.compare(skus).await?;
        // A failed round is repeated.
        if let Some(passed) = passed {
            let mut pass = lock();
            pass.after = passed;
            pass.missed |= reached == Reached::Some;
        }
        Ok(())
    }

    /// Compares every SKU.
    pub(crate) async fn compare_all(&self) -> Result<()> {
        let mut after = -1;
        loop {
            let skus = store::stocked_after(&self.context.db, after, COMPARE_SKUS).await?;
            let Some(last) = skus.last() else { return Ok(()) };
            after = id(*last);
            let _: Reached = self.compare(skus).await?;
        }
    }

    /// Compares stock and database, and rebuilds SKUs that differ.
    async fn compare(&self, skus: Vec<u64>) -> Result<Reached> {
        let (mut apart, mut units) = (0u32, 0u64);
        let mut reached = Reached::All;
        for sku in skus {
            let stock = self.stocks.of(sku).await?;
            let gap = self.stocks.lasting_gap(sku, &stock).await?;
            match gap {
                Gap::None => continue,
                Gap::Away => {
                    tracing::debug!(sku, "not all shards answer: they are compared later");
                    reached = Reached::Some;
                    continue;
                }
                Gap::Units(gap) => units += gap.unsigned_abs(),
                Gap::Lost => {}
            }
            apart += 1;
            tracing::warn!(sku, ?gap, "stock and database differ");
            if let Err(error) = self.stocks.rebuild(sku, &stock, Because::Gap).await {
                tracing::warn!(sku, %error, "the stock could not be rebuilt now");
                reached = Reached::Some;
            }
        }
        metrics::gauge!("seawall_stock_apart_skus").set(f64::from(apart));
        metrics::counter!("seawall_stock_apart_units_total").increment(units);
        Ok(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Reason = Reason { term: 1, returns: 0 };

    /// A pass that began at 1 and is complete.
    fn over(missed: bool) -> Pass {
        Pass { began: 1, reason: FIRST, missed, after: None }
    }

    #[test]
    fn a_pass_begins_at_once_when_redis_may_have_lost_something() {
        for reason in [Reason { term: 2, returns: 0 }, Reason { term: 1, returns: 1 }] {
            assert_eq!(over(false).place(2, FIRST, true), None, "nothing happened");
            assert_eq!(over(false).place(2, reason, true), Some(-1), "{reason:?}");
        }
        let mut under_way = Pass { after: Some(7), ..over(false) };
        assert_eq!(under_way.place(2, FIRST, true), Some(7), "it goes on");
        assert_eq!(under_way.place(2, Reason { term: 1, returns: 1 }, true), Some(-1));
    }

    #[test]
    fn passes_are_far_apart_only_where_every_break_is_heard_and_every_shard_answered() {
        let begins = |missed, hears_all, now| over(missed).place(now, FIRST, hears_all).is_some();
        let (soon, later) = (1 + UNSURE_PASS_EVERY_MS, 1 + PASS_EVERY_MS);
        assert!(!begins(false, true, later - 1) && begins(false, true, later));
        assert!(!begins(true, true, soon - 1) && begins(true, true, soon));
        assert!(!begins(false, false, soon - 1) && begins(false, false, soon));
    }
}
