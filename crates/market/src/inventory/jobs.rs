//! What keeps stock and database together: rows that Redis has not followed, and differences.
//!
//! A SKU whose stock moves is compared in the rounds that follow, every other one once in a pass. A pass
//! begins once a minute, so that an idle market asks Redis for next to nothing, and whenever this process
//! begins to lead: who leads is known to Redis alone, so a Redis that lost its data begins a new term.

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

/// How often rows are followed that their own request did not note as followed.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);
/// Their own request has so long, in milliseconds.
const GRACE_MS: i64 = 1_000;
/// Steps of one round.
const FOLLOW_STEPS: usize = 50;
/// How often stock and database are compared.
const COMPARE_EVERY: Duration = Duration::from_secs(3);
/// SKUs of one round: those that moved, and as many of the pass, which the next round goes on with.
const COMPARE_SKUS: u32 = 200;
/// A SKU is compared while its last movement is no older than this, in milliseconds: several rounds.
const MOVED_WITHIN_MS: i64 = 10_000;
/// How often a pass over all SKUs begins, in milliseconds.
const PASS_EVERY_MS: i64 = 60_000;

/// A pass over all SKUs.
#[derive(Debug, Default)]
struct Pass {
    /// When it began, by the server's clock, and in which term of this process.
    began: i64,
    term: u64,
    /// The SKU that it goes on behind; none when it is over.
    after: Option<i64>,
}

impl Pass {
    /// Where this round goes on, or begins; none when no pass is due.
    fn place(&mut self, now: i64, term: u64) -> Option<i64> {
        let is_due = self.after.is_none() && now >= self.began + PASS_EVERY_MS;
        if is_due || term != self.term {
            *self = Pass { began: now, term, after: Some(-1) };
        }
        self.after
    }
}

impl Goods {
    /// Starts what runs in the background.
    pub(crate) fn start_jobs(self: &Arc<Self>, jobs: &mut Jobs) {
        let goods = Arc::clone(self);
        jobs.every("stock-follow", FOLLOW_EVERY, move || {
            let goods = Arc::clone(&goods);
            async move { goods.follow().await }
        });
        let goods = Arc::clone(self);
        let (pass, term) = (Arc::new(Mutex::new(Pass::default())), jobs.term());
        jobs.every("stock-compare", COMPARE_EVERY, move || {
            let (goods, pass) = (Arc::clone(&goods), Arc::clone(&pass));
            let term = term.number();
            async move { goods.compare_some(&pass, term).await }
        });
    }

    /// Lets Redis follow what was recorded and not noted as followed.
    async fn follow(&self) -> Result<()> {
        for _ in 0..FOLLOW_STEPS {
            if self.stocks.follow_all(self.context.now() - GRACE_MS).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Compares SKUs that moved, and the next ones of a pass.
    async fn compare_some(&self, pass: &Mutex<Pass>, term: u64) -> Result<()> {
        let lock = || pass.lock().unwrap_or_else(PoisonError::into_inner);
        let (db, now) = (&*self.context.db, self.context.now());
        let mut skus = store::moved_since(db, now - MOVED_WITHIN_MS, COMPARE_SKUS).await?;
        let place = lock().place(now, term);
        let mut passed = None;
        if let Some(after) = place {
            let next = store::stocked_after(db, after, COMPARE_SKUS).await?;
            let is_end = next.len() < COMPARE_SKUS as usize;
            passed = Some(next.last().filter(|_| !is_end).map(|sku| id(*sku)));
            skus.extend(next);
        }
        skus.sort_unstable();
        skus.dedup();
        self.compare(skus).await?;
        // A round that failed is made again.
        if let Some(passed) = passed {
            lock().after = passed;
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
            self.compare(skus).await?;
        }
    }

    /// Compares stock and database, and rebuilds where they differ.
    async fn compare(&self, skus: Vec<u64>) -> Result<()> {
        let (mut apart, mut units) = (0u32, 0u64);
        for sku in skus {
            let stock = self.stocks.of(sku).await?;
            let gap = self.stocks.lasting_gap(sku, &stock).await?;
            match gap {
                Gap::None => continue,
                Gap::Away => {
                    tracing::debug!(sku, "not all shards answer: they are compared later");
                    continue;
                }
                Gap::Units(gap) => units += gap.unsigned_abs(),
                Gap::Lost => {}
            }
            apart += 1;
            tracing::warn!(sku, ?gap, "stock and database differ");
            if let Err(error) = self.stocks.rebuild(sku, &stock, Because::Gap).await {
                tracing::warn!(sku, %error, "the stock could not be rebuilt now");
            }
        }
        metrics::gauge!("seawall_stock_apart_skus").set(f64::from(apart));
        metrics::counter!("seawall_stock_apart_units_total").increment(units);
        Ok(())
    }
}
