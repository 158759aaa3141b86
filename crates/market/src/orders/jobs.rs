//! Background jobs of goods orders: payment time-outs, due refunds, order lists.
//!
//! Unpaid orders are found in the database by status and time, not by a queue: the index exists
//! anyway, nothing must be kept in step with it, and no order can be missed.

use std::{sync::Arc, time::Duration};

use super::{Orders, store};
use crate::{error::Result, jobs::Jobs};

/// Longest pause between two searches for unpaid orders; shorter if the payment time-out is short.
const LONGEST_LOOK: Duration = Duration::from_secs(5);
const SHORTEST_LOOK: Duration = Duration::from_millis(200);
/// Orders per round.
const ROUND: u32 = 200;
/// Interval between searches for due refunds.
const REFUND_EVERY: Duration = Duration::from_secs(2);
/// Time that the process that ended an order has to refund it, in milliseconds.
const REFUND_GRACE_MS: i64 = 3_000;
/// Interval between comparisons of order lists with the database.
const COMPARE_EVERY: Duration = Duration::from_secs(60);

impl Orders {
    /// Starts the background jobs.
    pub(crate) fn start_jobs(self: &Arc<Self>, jobs: &mut Jobs) -> Result<()> {
        let worker = self.lists.start_worker(&self.context)?;
        jobs.spawn("order-lists-repair", |mut stop| async move {
            stop.asked().await;
            let drained = worker.shutdown().await;
            tracing::debug!(?drained, "order lists are repaired");
        });
        let look = (self.context.config.unpaid_after / 10).clamp(SHORTEST_LOOK, LONGEST_LOOK);
        let orders = Arc::clone(self);
        jobs.every("orders-unpaid", look, move || {
            let orders = Arc::clone(&orders);
            async move { orders.time_out_all().await }
        });
        let orders = Arc::clone(self);
        jobs.every("orders-refund", REFUND_EVERY, move || {
            let orders = Arc::clone(&orders);
            async move { orders.settle_refunds().await }
        });
        let orders = Arc::clone(self);
        jobs.every("order-lists", COMPARE_EVERY, move || {
            let orders = Arc::clone(&orders);
            async move { orders.lists.compare(orders.context.now()).await }
        });
        Ok(())
    }

    async fn time_out_all(&self) -> Result<()> {
        let before = self.unpaid_limit(self.context.now());
        for (user, order) in store::unpaid_since(&self.context.db, before, ROUND).await? {
            if let Err(error) = self.time_out(user, order).await {
                tracing::warn!(order, %error, "an order could not time out now");
            }
        }
        Ok(())
    }

    async fn settle_refunds(&self) -> Result<()> {
        let before = self.context.now() - REFUND_GRACE_MS;
        for order in store::refunds_due(&self.context.db, before, ROUND).await? {
            if let Err(error) = self.settle_refund(order).await {
                tracing::warn!(order, %error, "a refund has to wait");
            }
        }
        Ok(())
    }
}
