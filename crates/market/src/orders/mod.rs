//! Orders of goods: placed from a checkout, paid, cancelled, refunded.
//!
//! ```text
//! hold the units in Redis      all items or none; a hold ends by itself
//! one transaction              order, items, stock and its log; the database decides for good
//! sell what is held            followed by a job if this process dies here
//! cart, order list             behind; both may be repeated
//! ```
//!
//! A crash before the commit leaves holds that expire. A crash after it leaves an order whose stock
//! is followed from the log. The order has the id of its checkout and a key of its client, so a
//! repeated request returns the same order.
//!
//! ```text
//! UNPAID ─▶ PAID ─▶ REFUNDING ─▶ REFUNDED
//!    └────▶ CANCELLED (by its owner, or because it was not paid in time)
//! ```
//!
//! Each step is one conditional update, and the step that succeeds returns the units in the same
//! transaction: exactly once. Money follows: a possible charge for an order that has ended is
//! refunded, now or by a job.

pub(crate) mod http;
mod jobs;
mod lifecycle;
mod list;
mod store;

use std::sync::Arc;

use seawall::social;

use self::{list::Lists, store::Placed};
use crate::{
    app::Context,
    cart::{
        Carts,
        checkout::{Checkout, Quoted},
    },
    error::{Error, Result},
    inventory::{
        Goods,
        movement::{Movement, Reason, reference},
        stock::Holding,
    },
    submissions::IdempotencyKey,
};

/// Status of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Waits for its payment.
    Unpaid,
    /// Paid.
    Paid,
    /// Cancelled, or not paid in time.
    Cancelled,
    /// The refund is in progress.
    Refunding,
    /// The money was refunded.
    Refunded,
}

impl Status {
    const ALL: [Status; 5] =
        [Status::Unpaid, Status::Paid, Status::Cancelled, Status::Refunding, Status::Refunded];

    /// Returns the word used by clients and the database.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Unpaid => "UNPAID",
            Status::Paid => "PAID",
            Status::Cancelled => "CANCELLED",
            Status::Refunding => "REFUNDING",
            Status::Refunded => "REFUNDED",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }
}

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Id.
    pub id: u64,
    /// Owner.
    pub user: u64,
    /// Status.
    pub status: Status,
    /// Total in cents.
    pub total: i64,
    /// Time of payment, in milliseconds.
    pub pay_time: Option<i64>,
    /// Time of the refund, in milliseconds.
    pub refund_time: Option<i64>,
    /// Time of creation, in milliseconds.
    pub create_time: i64,
    /// Items, sorted by SKU.
    pub items: Vec<OrderItem>,
}

/// An item of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderItem {
    /// SKU.
    pub sku: u64,
    /// Name at the time of the order.
    pub name: String,
    /// Number of units.
    pub count: u32,
    /// Unit price in cents at the time of the order.
    pub price: i64,
    /// Shard that decided about its units.
    pub(crate) home: usize,
}

/// Orders of goods.
#[derive(Debug)]
pub struct Orders {
    context: Context,
    goods: Arc<Goods>,
    carts: Arc<Carts>,
    lists: Lists,
}

impl Orders {
    pub(crate) fn new(context: &Context, goods: &Arc<Goods>, carts: &Arc<Carts>) -> Result<Self> {
        Ok(Orders {
            goods: Arc::clone(goods),
            carts: Arc::clone(carts),
            lists: Lists::new(&context.seawall, &context.db)?,
            context: context.clone(),
        })
    }

    /// Places an order from a quote.
    ///
    /// Returns its id.
    ///
    /// # Errors
    /// [`Error::Conflict`] if an item is sold out, the checkout has expired or was used under
    /// another key, or the key belongs to another checkout.
    pub async fn place(&self, user: u64, checkout: u64, key: &IdempotencyKey) -> Result<u64> {
        let db = &self.context.db;
        let before = store::by_key(db, user, key.as_str()).await?;
        if let Some(order) = before
            && order != checkout
        {
            return Err(reused(order));
        }
        if before.is_some() {
            // If the process died in between, the cart may still hold the bought items.
            if let Ok(Some(quote)) = self.carts.checkout(user, checkout).await {
                self.clear_cart(user, &quote).await;
            }
            return Ok(checkout);
        }
        let quote = self.carts.checkout(user, checkout).await?;
        let Some(quote) = quote else { return Err(self.no_checkout(user, checkout).await?) };
        let homes = self.hold(&quote).await?;
        self.write(&quote, &homes, key).await
    }

    /// Returns the reason why there is no such checkout.
    async fn no_checkout(&self, user: u64, checkout: u64) -> Result<Error> {
        Ok(match store::by_id(&self.context.db, user, checkout).await? {
            Some(order) => Error::Conflict {
                code: "CHECKOUT_USED",
                msg: "this checkout became an order under another key",
                data: Some(order.id),
            },
            None => over(),
        })
    }

    /// Holds the units of all items, or of none. Returns the shards that decide about them.
    async fn hold(&self, quote: &Checkout) -> Result<Vec<usize>> {
        let mut homes = Vec::with_capacity(quote.items.len());
        for item in &quote.items {
            let held = self.goods.stocks().hold(item.sku, quote.id, u64::from(item.count)).await?;
            match held {
                Holding::Held { home } => homes.push(home),
                Holding::SoldOut => {
                    self.give_up(quote, &homes).await;
                    return Err(sold_out(item.sku));
                }
                Holding::Over => {
                    self.give_up(quote, &homes).await;
                    return Err(over());
                }
            }
        }
        Ok(homes)
    }

    /// Releases the holds. The checkout is used up, because its references are.
    async fn give_up(&self, quote: &Checkout, homes: &[usize]) {
        for (item, home) in quote.items.iter().zip(homes) {
            self.goods.stocks().release(item.sku, quote.id, *home).await;
        }
        if let Err(error) = self.carts.forget_checkout(quote.id).await {
            tracing::debug!(%error, "a checkout ends by itself");
        }
    }

    async fn write(&self, quote: &Checkout, homes: &[usize], key: &IdempotencyKey) -> Result<u64> {
        let now = self.context.now();
        let item = |(quoted, home): (&Quoted, &usize)| OrderItem {
            sku: quoted.sku,
            name: quoted.name.clone(),
            count: quoted.count,
            price: quoted.price,
            home: *home,
        };
        let order = Order {
            id: quote.id,
            user: quote.user,
            status: Status::Unpaid,
            total: quote.total,
            pay_time: None,
            refund_time: None,
            create_time: now,
            items: quote.items.iter().zip(homes).map(item).collect(),
        };
        let movements = self.movements(&order, Reason::Sale).await?;
        match store::place(&self.context.db, &order, key.as_str(), &movements).await? {
            Placed::Now => {
                self.goods.stocks().follow(&movements).await;
                self.clear_cart(order.user, quote).await;
                let listed = social::Order { id: order.id, time: now };
                self.lists.add(order.user, listed).await;
                Ok(order.id)
            }
            Placed::Taken => self.taken(quote, homes, key).await,
            Placed::TooFew(sku) => {
                tracing::warn!(sku, order = order.id, "Redis has more units than the database");
                self.give_up(quote, homes).await;
                Err(sold_out(sku))
            }
        }
    }

    /// Handles a conflict: another request placed this checkout, so its units are sold; or it used
    /// this key for another checkout, so these holds belong to no order.
    async fn taken(&self, quote: &Checkout, homes: &[usize], key: &IdempotencyKey) -> Result<u64> {
        let db = &self.context.db;
        match store::by_key(db, quote.user, key.as_str()).await? {
            Some(first) if first == quote.id => Ok(first),
            Some(other) => {
                // This checkout may also have become an order under another key.
                if store::by_id(db, quote.user, quote.id).await?.is_none() {
                    self.give_up(quote, homes).await;
                }
                Err(reused(other))
            }
            None => Err(self.no_checkout(quote.user, quote.id).await?),
        }
    }

    async fn clear_cart(&self, user: u64, quote: &Checkout) {
        let bought: Vec<_> = quote.items.iter().map(|item| (item.sku, item.version)).collect();
        if let Err(error) = self.carts.take(user, &bought).await {
            tracing::warn!(user, order = quote.id, %error, "what was bought is still in the cart");
        }
    }

    /// Returns the movements of an order's units.
    async fn movements(&self, order: &Order, reason: Reason) -> Result<Vec<Movement>> {
        let ids = self.goods.log_ids(order.items.len()).await?;
        let movement = |(id, item): (u64, &OrderItem)| {
            let units = i64::from(item.count);
            Movement {
                id,
                sku: item.sku,
                delta: if reason == Reason::Sale { -units } else { units },
                reason,
                reference: reference(order.id, item.home),
            }
        };
        Ok(ids.into_iter().zip(&order.items).map(movement).collect())
    }

    /// Returns one of a user's orders.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it does not exist or belongs to another user.
    pub async fn find(&self, user: u64, order: u64) -> Result<Order> {
        store::by_id(&self.context.db, user, order).await?.ok_or_else(unknown)
    }

    /// Returns a page of a user's orders after one of them, the newest first.
    ///
    /// # Errors
    /// [`Error::NotFound`] if that order is not the user's.
    pub async fn page(&self, user: u64, last: Option<u64>) -> Result<Vec<Order>> {
        let after = match last {
            Some(last) => {
                let order = self.find(user, last).await?;
                Some(social::Order { id: order.id, time: order.create_time })
            }
            None => None,
        };
        let ids = self.lists.page(user, after).await?;
        let mut orders = store::by_ids(&self.context.db, user, &ids).await?;
        Ok(ids.iter().filter_map(|id| orders.remove(id)).collect())
    }
}

fn unknown() -> Error {
    Error::not_found("UNKNOWN_ORDER", "no such order")
}

fn over() -> Error {
    Error::conflict("CHECKOUT_EXPIRED", "there is no such checkout any more; check out again")
}

fn reused(order: u64) -> Error {
    let msg = "this key has made another order";
    Error::Conflict { code: "IDEMPOTENCY_KEY_REUSED", msg, data: Some(order) }
}

fn sold_out(sku: u64) -> Error {
    let msg = "there are not that many left";
    Error::Conflict { code: "SOLD_OUT", msg, data: Some(sku) }
}
