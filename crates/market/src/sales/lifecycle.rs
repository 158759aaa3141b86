//! Life of an order after it was placed: paid, cancelled, refunded, timed out.
//!
//! A conditional update (`WHERE status = ?`) decides every step; a second caller learns that
//! nothing changed. An order that ends releases its unit and its user's purchase right in the same
//! transaction (`live` becomes NULL, the stock goes up), so `total = stock + live orders` holds at
//! every moment. Redis is told after the commit, by the order's id, any number of times;
//! [`reconcile`](super::reconcile) finds what it was not told.
//!
//! Money: `pay_type` is written before a charge is requested, so that a charge whose order ended
//! meanwhile, or whose process died, is known and refunded. A payment that comes too late is
//! charged and refunded at once, and `refund_time` records when.
//!
//! An order can no longer be paid from the moment at which the time-out round may end it, whether
//! or not the round has run: the update that records a payment has the inverse condition of
//! [`store::since`]. A payment that comes too late ends the order in place of the round.
//!
//! Decided: the unit of a refunded order is returned, too, so that the equation above always holds;
//! the sale's window decides whether it can be sold again.

use super::{Order, Sales, Status, millis, store};
use crate::{
    db::{Db, id},
    error::{Error, Result},
    payments::Charged,
};

/// The only payment type.
const PAY_TYPE: i64 = 1;

impl Sales {
    /// Pays for an order.
    ///
    /// Paying again changes nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`]: `ORDER_QUEUED`, `PAID_LATE` (the order ended before the payment came;
    /// the money was refunded), `PAYMENT_DECLINED`, `NOT_UNPAID`. [`Error::NotFound`] as
    /// [`Sales::find`].
    pub async fn pay(&self, user: u64, order: u64) -> Result<Order> {
        let before = self.find(user, order).await?;
        match before.status {
            Status::Paid => return Ok(before),
            Status::Unpaid => {}
            Status::Cancelled if before.refund_time.is_none() => {}
            Status::Cancelled => return Err(late()),
            Status::Queued => return Err(still_queued()),
            Status::Used | Status::Refunding | Status::Refunded | Status::Failed => {
                return Err(Error::conflict("NOT_UNPAID", "this order is not to be paid"));
            }
        }
        let db = &*self.context.db;
        let cents = store::price(db, before.voucher_id).await?;
        mark_charge(db, &before).await?;
        let reference = payment(order);
        let charged = self.context.payments.charge(&reference, cents).await?;
        let step = match charged {
            Charged::Accepted => {
                let now = self.context.now();
                let after = now.saturating_sub(millis(self.context.config.unpaid_after));
                Some(set_paid(db, &before, Paying { now, after }).await?)
            }
            Charged::Declined => None,
        };
        let mut after = self.find(user, order).await?;
        if step == Some(Step::TooLate) && after.status == Status::Unpaid {
            self.end(&[after], Status::Unpaid, Status::Cancelled).await?;
            after = self.find(user, order).await?;
        }
        match after.status {
            _ if step == Some(Step::Done) => Ok(after),
            // A concurrent request of the same user paid.
            Status::Paid => Ok(after),
            Status::Cancelled => {
                self.give_money_back(&after).await?;
                Err(late())
            }
            Status::Unpaid => Err(Error::conflict("PAYMENT_DECLINED", "the payment was declined")),
            _ => Err(Error::conflict("NOT_UNPAID", "this order is not to be paid")),
        }
    }

    /// Cancels an unpaid order.
    ///
    /// Cancelling again changes nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`]: `ORDER_QUEUED`, `NOT_UNPAID`. [`Error::NotFound`] as [`Sales::find`].
    pub async fn cancel(&self, user: u64, order: u64) -> Result<Order> {
        let before = self.find(user, order).await?;
        match before.status {
            Status::Cancelled => return Ok(before),
            Status::Unpaid => {}
            Status::Queued => return Err(still_queued()),
            _ => return Err(Error::conflict("NOT_UNPAID", "this order cannot be cancelled")),
        }
        self.end(&[before], Status::Unpaid, Status::Cancelled).await?;
        let after = self.find(user, order).await?;
        match after.status {
            Status::Cancelled => Ok(after),
            _ => Err(Error::conflict("NOT_UNPAID", "this order cannot be cancelled")),
        }
    }

    /// Requests a refund of a paid order; the money follows a little later.
    ///
    /// Requesting again changes nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`]: `ORDER_QUEUED`, `NOT_PAID`. [`Error::NotFound`] as [`Sales::find`].
    pub async fn refund(&self, user: u64, order: u64) -> Result<Order> {
        let before = self.find(user, order).await?;
        if before.status == Status::Queued {
            return Err(still_queued());
        }
        if before.status == Status::Paid {
            ask_back(&self.context.db, &before, self.context.now()).await?;
        }
        let after = self.find(user, order).await?;
        match after.status {
            Status::Refunding | Status::Refunded => Ok(after),
            _ => Err(Error::conflict("NOT_PAID", "this order is not paid")),
        }
    }

    /// Ends those of these orders that are still in the state `from`. Their units and their users'
    /// purchase rights are released in the database, then in Redis.
    pub(super) async fn end(&self, orders: &[Order], from: Status, to: Status) -> Result<()> {
        let ended = release(&self.context.db, orders, from, to, self.context.now()).await?;
        for order in &ended {
            if let Err(error) = self.reservations.give_back(order).await {
                let order = order.id;
                tracing::warn!(order, %error, "a unit goes back to its sale with the next comparison");
            }
        }
        Ok(())
    }

    /// Refunds a cancelled order, and records it.
    pub(super) async fn give_money_back(&self, order: &Order) -> Result<()> {
        self.context.payments.refund(&payment(order.id)).await?;
        let mut tx = self.context.db.write().await?;
        let now = self.context.now();
        sqlx::query(
            "UPDATE voucher_order SET refund_time = ?, update_time = ? \
             WHERE id = ? AND status = 'CANCELLED' AND refund_time IS NULL",
        )
        .bind(now)
        .bind(now)
        .bind(id(order.id))
        .execute(tx.query())
        .await?;
        tx.commit().await
    }

    /// Makes a requested refund, and ends the order.
    pub(super) async fn finish_refund(&self, order: &Order) -> Result<()> {
        self.context.payments.refund(&payment(order.id)).await?;
        self.end(std::slice::from_ref(order), Status::Refunding, Status::Refunded).await
    }
}

/// Whether this call made the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    /// The order was in another state, or too old.
    TooLate,
}

/// Time of a payment.
#[derive(Debug, Clone, Copy)]
struct Paying {
    now: i64,
    /// Only orders newer than this wait for a payment.
    after: i64,
}

fn payment(order: u64) -> String {
    format!("voucher-order-{order}")
}

fn still_queued() -> Error {
    Error::conflict("ORDER_QUEUED", "the order is still on its way; try again in a moment")
}

fn late() -> Error {
    let msg = "the order had ended before the payment came; the money went back";
    Error::conflict("PAID_LATE", msg)
}

/// Records that a charge is requested. The row's time does not change: a payment attempt does not
/// postpone the time-out.
async fn mark_charge(db: &Db, order: &Order) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query(
        "UPDATE voucher_order SET pay_type = ? WHERE id = ? \
         AND status IN ('UNPAID', 'CANCELLED') AND pay_type IS NULL",
    )
    .bind(PAY_TYPE)
    .bind(id(order.id))
    .execute(tx.query())
    .await?;
    tx.commit().await
}

/// Records a payment of an order that is newer than the limit.
async fn set_paid(db: &Db, order: &Order, paying: Paying) -> Result<Step> {
    let mut tx = db.write().await?;
    let done = sqlx::query(
        "UPDATE voucher_order SET status = 'PAID', pay_time = ?, update_time = ? \
         WHERE id = ? AND status = 'UNPAID' AND (create_time > ? OR update_time > ?)",
    )
    .bind(paying.now)
    .bind(paying.now)
    .bind(id(order.id))
    .bind(paying.after)
    .bind(paying.after)
    .execute(tx.query())
    .await?;
    tx.commit().await?;
    Ok(if done.rows_affected() == 1 { Step::Done } else { Step::TooLate })
}

async fn ask_back(db: &Db, order: &Order, now: i64) -> Result<()> {
    let mut tx = db.write().await?;
    sqlx::query(
        "UPDATE voucher_order SET status = 'REFUNDING', update_time = ? \
         WHERE id = ? AND status = 'PAID'",
    )
    .bind(now)
    .bind(id(order.id))
    .execute(tx.query())
    .await?;
    tx.commit().await
}

/// Ends those of these orders that are live and in the state `from`, in one transaction with their
/// stock. Returns them.
async fn release(
    db: &Db,
    orders: &[Order],
    from: Status,
    to: Status,
    now: i64,
) -> Result<Vec<Order>> {
    let mut by_voucher = std::collections::BTreeMap::<u64, Vec<&Order>>::new();
    for order in orders {
        by_voucher.entry(order.voucher_id).or_default().push(order);
    }
    let mut ended = Vec::with_capacity(orders.len());
    let mut tx = db.write().await?;
    for (voucher, orders) in by_voucher {
        // The sale's row is locked first, as everywhere; the excess is taken back below.
        let hoped = i64::try_from(orders.len()).unwrap_or(i64::MAX);
        add_stock(tx.query(), voucher, hoped, now).await?;
        let mut done = 0;
        for order in orders {
            let rows = sqlx::query(
                "UPDATE voucher_order SET status = ?, live = NULL, refund_time = ?, \
                 update_time = ? WHERE id = ? AND status = ? AND live = 1",
            )
            .bind(to.word())
            .bind((to == Status::Refunded).then_some(now))
            .bind(now)
            .bind(id(order.id))
            .bind(from.word())
            .execute(tx.query())
            .await?;
            if rows.rows_affected() == 1 {
                done += 1;
                ended.push(order.clone());
            }
        }
        if done < hoped {
            add_stock(tx.query(), voucher, done - hoped, now).await?;
        }
    }
    tx.commit().await?;
    Ok(ended)
}

async fn add_stock(
    connection: &mut sqlx::AnyConnection,
    voucher: u64,
    units: i64,
    now: i64,
) -> Result<()> {
    sqlx::query(
        "UPDATE seckill_voucher SET stock = stock + ?, update_time = ? WHERE voucher_id = ?",
    )
    .bind(units)
    .bind(now)
    .bind(id(voucher))
    .execute(connection)
    .await?;
    Ok(())
}
