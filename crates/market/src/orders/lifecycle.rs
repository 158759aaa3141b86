//! Life of an order after it was placed: paid, cancelled, refunded, timed out.
//!
//! The start of a payment is recorded before anything is charged. So a process that ends the order
//! meanwhile knows that money may have to be refunded, and the job refunds it even if both
//! processes die.
//!
//! An order can no longer be paid from the moment at which the job may end it, whether or not the
//! job has run: both use [`Orders::unpaid_limit`], and the payment checks it within the deciding
//! update. A payment that comes too late ends the order in place of the job.

use super::{
    Order, Orders, Status,
    store::{self, Paying},
    unknown,
};
use crate::{
    error::{Error, Result},
    inventory::movement::Reason,
    payments::Charged,
};

impl Orders {
    /// Pays for an order.
    ///
    /// Succeeds if it is already paid.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the order has ended: a charge is refunded then.
    pub async fn pay(&self, user: u64, id: u64) -> Result<Order> {
        let (db, order) = (&self.context.db, self.find(user, id).await?);
        match order.status {
            Status::Unpaid => {}
            Status::Paid => return Ok(order),
            Status::Cancelled => return self.too_late(&order).await,
            Status::Refunding | Status::Refunded => return Err(refunded()),
        }
        if !store::begin_payment(db, id, self.paying_now()).await? {
            return self.not_waiting(user, id).await;
        }
        let cents = u64::try_from(order.total).unwrap_or(0);
        let charged = self.context.payments.charge(&payment(id), cents).await?;
        if charged == Charged::Declined {
            return self.pay_again(user, id).await;
        }
        if store::pay(db, id, self.paying_now()).await? {
            return self.find(user, id).await;
        }
        self.not_waiting(user, id).await
    }

    fn paying_now(&self) -> Paying {
        let now = self.context.now();
        Paying { now, after: self.unpaid_limit(now) }
    }

    /// Returns the creation time up to which orders no longer wait for payment.
    pub(super) fn unpaid_limit(&self, now: i64) -> i64 {
        let limit = i64::try_from(self.context.config.unpaid_after.as_millis());
        now.saturating_sub(limit.unwrap_or(i64::MAX))
    }

    /// Handles an order that no longer waits for payment: it changed, or it is too old.
    async fn not_waiting(&self, user: u64, id: u64) -> Result<Order> {
        let order = self.find(user, id).await?;
        if order.status == Status::Unpaid {
            self.end(&order, (Status::Unpaid, Status::Cancelled)).await?;
        }
        self.pay_again(user, id).await
    }

    /// Handles a declined payment, or an order that changed during the payment.
    async fn pay_again(&self, user: u64, id: u64) -> Result<Order> {
        let order = self.find(user, id).await?;
        match order.status {
            Status::Paid => Ok(order),
            Status::Cancelled => self.too_late(&order).await,
            Status::Refunding | Status::Refunded => Err(refunded()),
            Status::Unpaid => Err(Error::conflict("PAYMENT_DECLINED", "the payment was declined")),
        }
    }

    /// Refunds a charge for an order that had ended.
    async fn too_late(&self, order: &Order) -> Result<Order> {
        self.give_money_back(order.id).await?;
        let msg = "the order was cancelled before the payment came; what was paid is refunded";
        Err(Error::conflict("PAID_LATE", msg))
    }

    async fn give_money_back(&self, order: u64) -> Result<()> {
        self.context.payments.refund(&payment(order)).await?;
        store::refunded(&self.context.db, order, self.context.now()).await
    }

    /// Cancels an order.
    ///
    /// Succeeds if it is already cancelled.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it is paid.
    pub async fn cancel(&self, user: u64, id: u64) -> Result<Order> {
        let order = self.find(user, id).await?;
        if order.status == Status::Unpaid {
            self.end(&order, (Status::Unpaid, Status::Cancelled)).await?;
        }
        let order = self.find(user, id).await?;
        match order.status {
            Status::Cancelled => Ok(order),
            _ => Err(Error::conflict("NOT_UNPAID", "it is paid; ask for a refund")),
        }
    }

    /// Returns an order and refunds the money.
    ///
    /// Succeeds if it is already refunded.
    ///
    /// # Errors
    /// [`Error::Conflict`] if it is not paid.
    pub async fn refund(&self, user: u64, id: u64) -> Result<Order> {
        let order = self.find(user, id).await?;
        if order.status == Status::Paid {
            self.end(&order, (Status::Paid, Status::Refunding)).await?;
        }
        let order = self.find(user, id).await?;
        match order.status {
            Status::Refunded => return Ok(order),
            Status::Refunding => {}
            _ => return Err(Error::conflict("NOT_PAID", "only what is paid can be refunded")),
        }
        self.give_money_back(id).await?;
        self.find(user, id).await
    }

    /// Ends an order and returns its units; does nothing if another process ended it first.
    async fn end(&self, order: &Order, step: (Status, Status)) -> Result<()> {
        let movements = self.movements(order, Reason::Return).await?;
        let now = self.context.now();
        if store::end(&self.context.db, order.id, step, &movements, now).await? {
            self.goods.stocks().follow(&movements).await;
        }
        Ok(())
    }

    /// Cancels an order that was not paid in time.
    pub(super) async fn time_out(&self, user: u64, id: u64) -> Result<()> {
        let order = store::by_id(&self.context.db, user, id).await?.ok_or_else(unknown)?;
        if order.status == Status::Unpaid {
            self.end(&order, (Status::Unpaid, Status::Cancelled)).await?;
            tracing::info!(order = id, "not paid in time");
        }
        Ok(())
    }

    /// Makes a due refund whose process died.
    pub(super) async fn settle_refund(&self, order: u64) -> Result<()> {
        self.give_money_back(order).await
    }
}

/// Returns the payment reference of an order at the provider.
fn payment(order: u64) -> String {
    format!("goods-{order}")
}

fn refunded() -> Error {
    Error::conflict("NOT_UNPAID", "it was refunded")
}
