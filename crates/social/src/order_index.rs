//! Order lists: the newest orders of each user in Redis, older ones from the source.
//!
//! ```text
//! orders:{NAME:USER}      zset   order → ms·1000 + the last three digits of its id; the newest N
//! orders:{NAME:USER}:ok   "count flag": how many the complete index has; flag 1: there are no others
//! ```
//!
//! The rules that keep the list complete:
//!
//! - **An order is added only to a complete index.** A ZADD onto a key that has expired would
//!   create a list of one order, and hide the history behind it. The script that adds reads the
//!   marker first. If there is no complete index, it takes the lease away from a rebuild that may
//!   have read the source too early, and adds nothing: the next reader reads the source.
//! - **An empty list is a marker of 0**, in a separate key. There is no placeholder in the list.
//! - **A failed update is not lost**: it is tried [`ATTEMPTS`] times and then passed to the
//!   caller's queue. [`OrdersOf::audit`] finds what even that lost.
//!
//! The source is always written first.

use std::{sync::Arc, time::Duration};

use seawall_client::{
    Handle,
    client::Client,
    error::{Error, Result},
    member::Member,
    retry::Doubt,
};
use seawall_resilience::Backoff;

use super::{
    Cursor, SLICE, by_time,
    copies::{Copies, UserFn, handles},
    rebuild::{Kind, Rebuilt, Snapshot},
    template::check_score,
};

/// Default number of orders that an index keeps.
const KEEP: usize = 500;
/// Attempts of an update before it is handed over.
const ATTEMPTS: u32 = 5;
/// Delays between them.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_millis(160));

/// Which orders to read of a user: older than this one, at most that many.
type Wanted<M> = (M, Option<Order>, usize);

/// An order in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// Its id.
    pub id: u64,
    /// Creation time, in milliseconds.
    pub time: i64,
}

impl Order {
    /// Returns the score by which it is ordered: milliseconds, and the last three digits of the id.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the time is before 1970 or after the year 2255, where the score would
    /// not be exact.
    pub fn score(&self) -> Result<i64> {
        let score = self.time.checked_mul(1000).map(|score| score + (self.id % 1000) as i64);
        let score = score.filter(|score| *score >= 0 && check_score(*score).is_ok());
        score.ok_or_else(|| {
            Error::Invalid(format!("{} ms cannot be the time of an order", self.time))
        })
    }

    /// Returns its position in a list.
    ///
    /// # Errors
    /// As [`Order::score`].
    pub fn cursor(&self) -> Result<Cursor> {
        Cursor::new(self.score()?, &self.id.to_member()?)
    }

    pub(super) fn decode(item: &(Vec<u8>, i64)) -> Result<Self> {
        Ok(Order { id: u64::from_member(&item.0)?, time: item.1 / 1000 })
    }
}

impl<M: Member> OrderIndex<M> {
    /// Returns a builder for an order index with this name.
    ///
    /// `source` reads a user's orders from the database: at most the given number, older than the
    /// given order, newest first. The order is by time, then the last three digits of the id, then
    /// the id *as text*, as a sorted set orders them.
    #[must_use]
    pub fn builder<F, Fut, E>(
        handle: &Handle,
        name: impl Into<String>,
        source: F,
    ) -> OrderIndexBuilder<M>
    where
        F: Fn(M, Option<Order>, usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<Order>, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        OrderIndexBuilder {
            copies: Copies::new(handle, "orders", name, Kind::SortedSet),
            keep: KEEP,
            source: UserFn::new(move |(user, before, count)| source(user, before, count)),
            hand_over: None,
        }
    }
}

/// Settings of an [`OrderIndex`].
pub struct OrderIndexBuilder<M> {
    copies: Copies,
    pub(super) keep: usize,
    source: UserFn<Wanted<M>, Vec<Order>>,
    hand_over: Option<UserFn<(M, Order), ()>>,
}

impl<M: Member> OrderIndexBuilder<M> {
    /// Sets how many of the newest orders an index keeps, at most 1,000. Default: 500.
    #[must_use]
    pub fn max_kept(mut self, newest: usize) -> Self {
        self.keep = newest;
        self
    }

    /// Sets how long an index is used before it is read from the source again. Default: one day.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.copies.ttl = time;
        self
    }

    /// Sets the function that takes an update that Redis did not accept: a queue that calls
    /// [`OrdersOf::add`] again later.
    #[must_use]
    pub fn hand_over<F, Fut, E>(mut self, take: F) -> Self
    where
        F: Fn(M, Order) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        self.hand_over = Some(UserFn::new(move |(user, order)| take(user, order)));
        self
    }

    /// Builds the index.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it keeps no orders or more than [`SLICE`], or if the lifetime is below
    /// a second.
    pub fn build(self) -> Result<OrderIndex<M>> {
        if self.keep == 0 || self.keep > SLICE {
            return Err(Error::Invalid(format!(
                "max_kept is {}: 1 to {SLICE} are allowed",
                self.keep
            )));
        }
        self.copies.check()?;
        Ok(OrderIndex { inner: Arc::new(self) })
    }
}

/// Order lists of all users; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::{Add, Order}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// // In production: SELECT … WHERE user = ? AND older than `before` ORDER BY … LIMIT `count`.
/// let source = |_user: u64, before: Option<Order>, _count: usize| async move {
///     let old = Order { id: 1001, time: 1_000 };
///     Ok::<_, std::io::Error>(if before.is_none() { vec![old] } else { vec![] })
/// };
/// let orders = seawall.order_index("order", source).build()?.of(&7)?;
/// assert_eq!(orders.page(None, 10).await?.orders.len(), 1);
/// assert_eq!(orders.add(Order { id: 1002, time: 2_000 }).await?, Add::Added);
/// let ids: Vec<_> = orders.page(None, 10).await?.orders.iter().map(|o| o.id).collect();
/// assert_eq!(ids, [1002, 1001]);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct OrderIndex<M> {
    inner: Arc<OrderIndexBuilder<M>>,
}

impl<M: Member> OrderIndex<M> {
    /// Returns the orders of one user.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the user is not a valid part of a key.
    pub fn of(&self, user: &M) -> Result<OrdersOf<M>> {
        let copy = self.inner.copies.of(user)?;
        Ok(OrdersOf { inner: Arc::clone(&self.inner), user: user.clone(), copy })
    }
}

/// Outcome of [`OrdersOf::add`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it may have been handed over"]
pub enum Add {
    /// The order is in the list.
    Added,
    /// The order was in the list before, or is older than the oldest one kept.
    Already,
    /// Redis has no complete list: the next reader reads the source, which has the order.
    NotLoaded,
    /// Redis did not accept the order; the queue has it.
    HandedOver,
}

/// Outcome of [`OrdersOf::audit`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Audit {
    /// Orders of the source that the list did not have.
    pub missing: Vec<u64>,
    /// Orders of the list that the source did not have.
    pub surplus: Vec<u64>,
}

/// The orders of one user.
pub struct OrdersOf<M> {
    pub(super) inner: Arc<OrderIndexBuilder<M>>,
    user: M,
    pub(super) copy: Rebuilt,
}

impl<M: Member> OrdersOf<M> {
    /// Adds an order that the source has. It is tried five times, then handed over. Safe to retry.
    ///
    /// # Errors
    /// If Redis accepted none of the attempts and there is no function to hand it over to, or that
    /// function failed, too.
    pub async fn add(&self, order: Order) -> Result<Add> {
        let (id, score) = (order.id.to_member()?, order.score()?);
        let call = by_time::put(&self.copy, &id, score, self.inner.keep);
        let client = self.client();
        let mut pauses = PAUSES;
        let mut attempt = 1;
        let mut doubt = Doubt::default();
        let error = loop {
            match client.eval::<Option<u8>>(&call).await {
                Ok(Some(1)) => return Ok(Add::Added),
                Ok(Some(_)) => return Ok(Add::Already),
                Ok(None) => return Ok(Add::NotLoaded),
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) if attempt == ATTEMPTS => break doubt.report(error),
                Err(error) => {
                    tracing::debug!(%error, attempt, "an order list did not follow");
                    doubt.note(&error);
                }
            }
            client.clock().sleep(pauses.pause()).await;
            attempt += 1;
        };
        let Some(hand_over) = &self.inner.hand_over else { return Err(error) };
        tracing::warn!(%error, "an order list did not follow, its update is handed over");
        hand_over.call((self.user.clone(), order)).await?;
        Ok(Add::HandedOver)
    }

    /// Compares the list with the source.
    ///
    /// If they differ the list is rebuilt from the source. A list that Redis does not have counts
    /// as correct.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn audit(&self) -> Result<Audit> {
        let Some((_, listed)) = self.read(None, self.inner.keep).await? else {
            return Ok(Audit::default());
        };
        // Read after the list: an order added in between is then missing in the list, not surplus.
        let source = self.source(None, self.inner.keep).await?;
        let listed: Vec<u64> = listed.iter().map(|order| order.id).collect();
        let known: Vec<u64> = source.iter().take(self.inner.keep).map(|order| order.id).collect();
        let only = |these: &[u64], others: &[u64]| {
            let others: std::collections::BTreeSet<u64> = others.iter().copied().collect();
            these.iter().copied().filter(|id| !others.contains(id)).collect::<Vec<_>>()
        };
        let audit = Audit { missing: only(&known, &listed), surplus: only(&listed, &known) };
        if audit != Audit::default() {
            self.forget().await?;
            self.page(None, 1).await?;
        }
        Ok(audit)
    }

    /// Deletes the list in Redis; the next reader reads the source. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn forget(&self) -> Result<()> {
        self.copy.forget().await
    }

    /// Reads orders from the source: at most `count`, older than `before`.
    pub(super) async fn source(&self, before: Option<Order>, count: usize) -> Result<Vec<Order>> {
        self.inner.source.call((self.user.clone(), before, count)).await
    }

    pub(super) fn client(&self) -> &Client {
        self.inner.copies.client()
    }

    /// Returns the newest orders of the source, as they are written to Redis.
    pub(super) async fn snapshot(&self) -> Result<Snapshot> {
        let mut orders = self.source(None, self.inner.keep).await?;
        let whole = orders.len() < self.inner.keep;
        orders.truncate(self.inner.keep);
        let ranked = orders.iter().map(|order| Ok((order.id, order.score()?)));
        by_time::snapshot(ranked.collect::<Result<Vec<_>>>()?, whole)
    }
}

handles!(OrderIndexBuilder, OrderIndex, OrdersOf);
