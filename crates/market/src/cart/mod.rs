//! Carts: in Redis first, written behind to the database, and served from the database while Redis
//! is away.
//!
//! Every change is one script over the keys of one user. The script also appends the item's new
//! state to a stream in the same slot, and a worker writes it to the database. Each state has a
//! version, and only a newer version replaces an older one, on every path. So a late write never
//! overtakes a removal, and a reload never brings a removed item back. The count of an item is
//! stored in one place.
//!
//! When Redis does not answer ([`outage`]), carts are read and changed in the database. Those
//! changes are stored beside the rows as operations ([`pending`], [`aside`]). Redis executes them,
//! each once, before any other access to that cart in Redis ([`notice`]). So an acknowledged change
//! takes effect, whatever was queued in Redis for the database when Redis went away.
//!
//! A client may name an addition; additions with the same name take effect once. Redis keeps the
//! names of one day. The database receives them with the changes and returns them on a reload.
//!
//! Deliberately absent: seeing, during an outage, what other processes changed in Redis just
//! before. Those changes wait in Redis, are not lost, and are combined with what is changed
//! meanwhile.

mod aside;
mod behind;
pub(crate) mod checkout;
pub(crate) mod http;
mod item;
mod jobs;
mod notice;
mod outage;
mod pending;
mod redis;
mod store;

use std::{sync::Arc, time::Duration};

pub(crate) use self::item::{Change, Item};
use self::{
    behind::Recent,
    checkout::Checkouts,
    item::{Name, Refused},
    notice::Notice,
    outage::Outage,
    redis::{Answer, Noted, RedisCarts},
};
use crate::{
    app::Context,
    error::{Error, Result},
    inventory::{Goods, Sku},
    submissions::{self, IdempotencyKey, Kind},
};

/// Maximum SKUs in a cart.
pub(crate) const MAX_SKUS: usize = 100;
/// Maximum units of one SKU.
pub(crate) const MAX_COUNT: u32 = 999;
/// Maximum loads of a cart that is missing again on access.
const MAX_LOADS: usize = 3;
/// Maximum time that a change waits for the database while other processes may read it there.
const SHOWN_WITHIN: Duration = Duration::from_millis(500);
/// Maximum queries per round for users whose carts were changed during an outage.
const MAX_LOOKS: usize = 1_000;

/// An item and its SKU.
#[derive(Debug, Clone)]
pub struct Line {
    pub(crate) item: Item,
    /// `None` if the SKU no longer exists.
    pub(crate) sku: Option<Arc<Sku>>,
}

/// Carts of all users.
#[derive(Debug)]
pub struct Carts {
    context: Context,
    goods: Arc<Goods>,
    redis: RedisCarts,
    recent: Recent,
    outage: Outage,
    notice: Notice,
    checkouts: Checkouts,
}

impl Carts {
    pub(crate) fn new(context: &Context, goods: &Arc<Goods>) -> Result<Self> {
        Ok(Carts {
            goods: Arc::clone(goods),
            redis: RedisCarts::new(&context.seawall)?,
            recent: Recent::new(),
            outage: Outage::new(context.seawall.clock()),
            notice: Notice::new(),
            checkouts: Checkouts::new(&context.seawall)?,
            context: context.clone(),
        })
    }

    /// Returns a user's cart, the newest item first.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database answers.
    pub async fn read(&self, user: u64) -> Result<Vec<Line>> {
        let items = match self.items(user).await? {
            Some(items) => items,
            None => {
                self.write_recent(user).await?;
                store::items(&self.context.db, user).await?
            }
        };
        let skus: Vec<u64> = items.iter().map(|item| item.sku).collect();
        let known = self.goods.read_many(&skus).await?;
        let line = |item: Item| Line { sku: known.get(&item.sku).cloned(), item };
        Ok(items.into_iter().map(line).collect())
    }

    /// Reads the items from Redis only. Returns `None` if Redis does not answer.
    async fn items(&self, user: u64) -> Result<Option<Vec<Item>>> {
        match self.in_redis(user, || self.redis.read(user)).await? {
            Some(Answer::Done(items)) => Ok(Some(items)),
            Some(Answer::Refused(refused)) => Err(refused.into()),
            Some(Answer::Absent) => Err(Error::Internal("a cart cannot be loaded".into())),
            None => Ok(None),
        }
    }

    /// Adds units of a SKU to those already in a cart, once for each submission.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such SKU, [`Error::Conflict`] if it is off the shelf or
    /// the cart is full.
    pub async fn add(
        &self,
        user: u64,
        sku: u64,
        count: u32,
        submission: Option<IdempotencyKey>,
    ) -> Result<()> {
        let sku = self.goods.read(sku).await?;
        if !sku.on_shelf {
            return Err(off_shelf(sku.id));
        }
        let (sku, price) = (sku.id, sku.price);
        let name = submission.map_or_else(Name::fresh, Name::Given);
        self.change(user, &Change::Add { sku, count, price, name }).await
    }

    /// Changes an item in the cart; a count of 0 removes it.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the item is not in the cart.
    pub async fn set(
        &self,
        user: u64,
        sku: u64,
        count: Option<u32>,
        selected: Option<bool>,
    ) -> Result<()> {
        self.change(user, &Change::Set { sku, count, selected }).await
    }

    /// Removes an item; does nothing if it is not in the cart.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if neither Redis nor the database answers.
    pub async fn remove(&self, user: u64, sku: u64) -> Result<()> {
        match self.change(user, &Change::Remove { sku }).await {
            Err(Error::NotFound { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Removes bought items that have not changed since. Idempotent.
    pub(crate) async fn take(&self, user: u64, bought: &[(u64, i64)]) -> Result<()> {
        self.change(user, &Change::Take { items: bought.to_vec() }).await
    }

    async fn change(&self, user: u64, change: &Change) -> Result<()> {
        match self.in_redis(user, || self.redis.change(user, change)).await? {
            Some(Answer::Done(noted)) => {
                if self.notice.must_look() {
                    self.show(noted.clone()).await;
                }
                self.recent.add(user, noted);
                Ok(())
            }
            Some(Answer::Refused(refused)) => Err(refused.into()),
            Some(Answer::Absent) => Err(Error::Internal("a cart cannot be loaded".into())),
            None => {
                self.write_recent(user).await?;
                self.announce().await?;
                let now = self.context.now();
                Ok(aside::change(&self.context.db, user, change, now).await??)
            }
        }
    }

    /// Writes the appended states to the database at once. Another process uses the database,
    /// perhaps because it cannot reach Redis yet, and should see there what this user is told now.
    /// If the database is slow, the change in Redis is not delayed further: the worker writes it
    /// later.
    async fn show(&self, noted: Vec<Noted>) {
        match tokio::time::timeout(SHOWN_WITHIN, self.write_noted(noted)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a change is written behind"),
            Err(_) => tracing::debug!("the database is slow; a change is written behind"),
        }
    }

    /// Calls Redis. Loads the cart first if it is missing or has changes in the database. Returns
    /// `None` if Redis does not answer.
    async fn in_redis<T, F>(&self, user: u64, ask: impl Fn() -> F) -> Result<Option<Answer<T>>>
    where
        F: Future<Output = seawall::Result<Answer<T>>>,
    {
        if let Some(stale) = self.outage.is_stale(user) {
            // Redis may have lost these states. If the database cannot be written, the load
            // proceeds without them.
            if let Err(error) = self.write_recent(user).await {
                tracing::debug!(%error, "a cart is loaded as the database has it");
            }
            if self.load(user).await?.is_none() {
                return Ok(None);
            }
            self.outage.mark_fresh(user, stale);
        } else if self.is_pending(user).await? && self.load(user).await?.is_none() {
            return Ok(None);
        }
        for _ in 0..MAX_LOADS {
            match self.outage.attempt(&ask).await? {
                Some(Answer::Absent) => {}
                answer => return Ok(answer),
            }
            if self.load(user).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Answer::Absent))
    }

    /// Loads the database's state of a user's cart into Redis. Returns `None` if Redis does not
    /// answer.
    async fn load(&self, user: u64) -> Result<Option<()>> {
        let db = &self.context.db;
        // Names are read first: a name added meanwhile comes with its units in the rows read next.
        // A name without its units would lose them.
        let since = self.context.now() - submissions::KEPT_MS;
        let names = submissions::names(db, user, Kind::Cart, since).await?;
        let kept = store::kept(db, user).await?;
        self.outage.attempt(|| self.redis.merge(user, &kept, &names)).await
    }

    /// Makes Redis execute the changes made in the database, for all users.
    pub(super) async fn after_outage(&self) -> Result<()> {
        let mut last = 0;
        for _ in 0..MAX_LOOKS {
            let users = aside::users(&self.context.db, last).await?;
            let Some(&newest) = users.last() else { break };
            last = newest;
            for user in users {
                if self.load(user).await?.is_none() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Quotes the selected items at current prices.
    ///
    /// # Errors
    /// [`Error::Conflict`] if nothing is selected or an item is off the shelf;
    /// [`Error::Unavailable`] if Redis does not answer: orders need Redis.
    pub async fn check_out(&self, user: u64) -> Result<checkout::Checkout> {
        let items = self.items(user).await?.ok_or_else(|| Error::Unavailable {
            what: "Redis",
            cause: "nothing is sold without it".to_owned(),
        })?;
        let selected: Vec<Item> = items.into_iter().filter(|item| item.selected).collect();
        if selected.is_empty() {
            return Err(Error::conflict("NOTHING_SELECTED", "nothing in the cart is selected"));
        }
        let skus: Vec<u64> = selected.iter().map(|item| item.sku).collect();
        let known = self.goods.read_now(&skus).await?;
        self.checkouts.quote(user, &selected, &known).await
    }

    /// Returns a stored quote of this user.
    pub(crate) async fn checkout(&self, user: u64, id: u64) -> Result<Option<checkout::Checkout>> {
        self.checkouts.find(user, id).await
    }

    /// Deletes a quote.
    pub(crate) async fn forget_checkout(&self, id: u64) -> Result<()> {
        self.checkouts.forget(id).await
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::NoSuchItem => Error::not_found("NOT_IN_CART", "this is not in the cart"),
            Refused::Full => Error::conflict("CART_FULL", "a cart has 100 SKUs at most"),
            Refused::TooMany => {
                Error::conflict("TOO_MANY_UNITS", "a cart has 999 units of one SKU at most")
            }
            Refused::Busy => Error::Unavailable {
                what: "the database",
                cause: "too many changes of carts wait for it".to_owned(),
            },
        }
    }
}

fn off_shelf(sku: u64) -> Error {
    let msg = "this is not sold at the moment";
    Error::Conflict { code: "OFF_SHELF", msg, data: Some(sku) }
}
