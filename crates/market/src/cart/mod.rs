//! Carts: in Redis first, written to the database behind, and on the database while Redis is away.
//!
//! Every change is one script over the keys of one user, which also appends the item's new state to a
//! stream in the same slot; a worker writes it to the database. Each state has a version, and only a
//! newer one replaces an older one, whichever way it comes: so a late write never overtakes a removal,
//! and a reload never brings a removed item back. The count of an item lives in one place.
//!
//! When Redis does not answer ([`outage`]), carts are read and changed in the database. What is changed
//! there stands beside the rows as operations ([`pending`], [`aside`]), and Redis carries them out, each
//! once, before anybody touches the cart there again ([`notice`]). So a change that was acknowledged has
//! its effect, whatever waited in Redis for the database when Redis went away.
//!
//! Units that are added may be named by their client: named the same, they are added once. Redis knows
//! the names of a day, the database gets them with the changes and gives them back with a reload.
//!
//! What is deliberately absent: seeing, during an outage, what other processes changed in Redis the
//! moment before. It waits there, is not lost, and comes together with what is changed meanwhile.

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

/// Most SKUs of a cart.
pub(crate) const MAX_SKUS: usize = 100;
/// Most units of one SKU.
pub(crate) const MAX_COUNT: u32 = 999;
/// How often a cart is loaded that is gone again when it is looked at.
const MAX_LOADS: usize = 3;
/// How long a change waits for the database where others may look for it there.
const SHOWN_WITHIN: Duration = Duration::from_millis(500);
/// How often users are looked for in one round whose carts were changed during an outage.
const MAX_LOOKS: usize = 1_000;

/// An item and what it is.
#[derive(Debug, Clone)]
pub struct Line {
    pub(crate) item: Item,
    /// Nothing when there is no such SKU any more.
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

    /// A user's cart, the newest item first.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database answers.
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

    /// The same from Redis alone; nothing when it does not answer.
    async fn items(&self, user: u64) -> Result<Option<Vec<Item>>> {
        match self.in_redis(user, || self.redis.read(user)).await? {
            Some(Answer::Done(items)) => Ok(Some(items)),
            Some(Answer::Refused(refused)) => Err(refused.into()),
            Some(Answer::Absent) => Err(Error::Internal("a cart cannot be loaded".into())),
            None => Ok(None),
        }
    }

    /// Puts units of a SKU into a cart, beside those that are there; once for each submission.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such SKU, [`Error::Conflict`] when it is off the shelf or
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

    /// Changes an item that is there; a count of 0 removes it.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not there.
    pub async fn set(
        &self,
        user: u64,
        sku: u64,
        count: Option<u32>,
        selected: Option<bool>,
    ) -> Result<()> {
        self.change(user, &Change::Set { sku, count, selected }).await
    }

    /// Takes an item out; nothing when it is not there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when neither Redis nor the database answers.
    pub async fn remove(&self, user: u64, sku: u64) -> Result<()> {
        match self.change(user, &Change::Remove { sku }).await {
            Err(Error::NotFound { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Takes out what was bought: items that are as they were then. May be repeated.
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

    /// Writes at once what Redis has noted: somebody uses the database, perhaps because Redis is back
    /// here and not there yet, and should see there what this user is told now. A database that cannot
    /// be written to soon holds up nobody whose change is in Redis: the worker comes to it.
    async fn show(&self, noted: Vec<Noted>) {
        match tokio::time::timeout(SHOWN_WITHIN, self.write_noted(noted)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a change is written behind"),
            Err(_) => tracing::debug!("the database is slow; a change is written behind"),
        }
    }

    /// Asks Redis, loading the cart where it is not there or where the database has changes of it;
    /// nothing when Redis does not answer.
    async fn in_redis<T, F>(&self, user: u64, ask: impl Fn() -> F) -> Result<Option<Answer<T>>>
    where
        F: Future<Output = seawall::Result<Answer<T>>>,
    {
        if let Some(stale) = self.outage.is_stale(user) {
            // Should Redis have lost it. A database that cannot be written to has to do without.
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

    /// Brings what the database has of a user's cart into Redis; nothing when Redis does not answer.
    async fn load(&self, user: u64) -> Result<Option<()>> {
        let db = &self.context.db;
        // First: what is named meanwhile is in what is kept, and a name without its units would lose
        // them.
        let since = self.context.now() - submissions::KEPT_MS;
        let names = submissions::names(db, user, Kind::Cart, since).await?;
        let kept = store::kept(db, user).await?;
        self.outage.attempt(|| self.redis.merge(user, &kept, &names)).await
    }

    /// Has Redis carry out what was changed in the database, for all users.
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

    /// Quotes what is selected at today's prices.
    ///
    /// # Errors
    /// [`Error::Conflict`] when nothing is selected, or something is off the shelf;
    /// [`Error::Unavailable`] when Redis does not answer: without it nothing is sold.
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

    /// A quote that this user has, while it is kept.
    pub(crate) async fn checkout(&self, user: u64, id: u64) -> Result<Option<checkout::Checkout>> {
        self.checkouts.find(user, id).await
    }

    /// Forgets a quote.
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
