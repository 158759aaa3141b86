//! What keeps stock and database together: rows that Redis has not followed, and differences.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
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
/// SKUs of one comparison; the next one goes on behind them.
const COMPARE_SKUS: u32 = 200;

impl Goods {
    /// Starts what runs in the background.
    pub(crate) fn start_jobs(self: &Arc<Self>, jobs: &mut Jobs) {
        let goods = Arc::clone(self);
        jobs.every("stock-follow", FOLLOW_EVERY, move || {
            let goods = Arc::clone(&goods);
            async move { goods.follow().await }
        });
        let goods = Arc::clone(self);
        let place = Arc::new(AtomicI64::new(-1));
        jobs.every("stock-compare", COMPARE_EVERY, move || {
            let (goods, place) = (Arc::clone(&goods), Arc::clone(&place));
            async move { goods.compare(&place).await }
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

    /// Compares stock and database, and rebuilds where they differ.
    async fn compare(&self, place: &AtomicI64) -> Result<()> {
        let after = place.load(Ordering::Relaxed);
        let levels = store::levels(&self.context.db, after, COMPARE_SKUS).await?;
        let last = levels.last().map_or(-1, |(sku, _)| id(*sku));
        let is_end = levels.len() < COMPARE_SKUS as usize;
        place.store(if is_end { -1 } else { last }, Ordering::Relaxed);
        let (mut apart, mut units) = (0u32, 0u64);
        for (sku, _) in levels {
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
