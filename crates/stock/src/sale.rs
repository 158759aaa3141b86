//! A flash sale: a window, some units, one for each user, decided by one script.
//!
//! Everything of a sale lies in one slot, that of its *group*: the sale itself, who bought, the
//! receipts by reference, and the stream that orders are appended to. Sales of one group share the
//! stream, so that a fixed number of workers can serve any number of sales.
//!
//! ```text
//! sale:{GROUP}:ID            hash: state, opening, begin, end, gone, received, left, taken, back, confirmed,
//!                            and the epoch in which it was verified (`vouched`)
//! sale:{GROUP}:ID:buyers     hash: user → reference
//! sale:{GROUP}:ID:receipts   hash: reference → "STATE sequence ms entry user"
//! sale:{GROUP}               stream: reference, user, time, and what the caller adds
//! sale:{GROUP}:waiting       hash: reference → "ms length sale user", where orders are findable
//! ```
//!
//! Invariants: `left + reserved + confirmed = received`; a user has at most one unit; a reference
//! that was given back never gets a unit again, even if its reservation arrives only afterwards.
//!
//! What compares a sale with a database is in `sale_repair.rs`; what keeps it from selling after its
//! server may have forgotten something, in `server_epoch.rs`.
//!
//! Deliberately absent: reading the stream (see the stream worker), and more than one unit for a user
//! (see [`Inventory`](super::Inventory)).

use std::{fmt, sync::Arc, time::Duration};

use seawall_client::{
    Handle,
    client::{Client, Script, ScriptInvocation},
    error::{Error, Result},
    key::KeyPart,
    retry::again,
};
use smallvec::SmallVec;

use super::{
    sale_replies::{cancel_outcome, changed, confirmed, opened, reserved},
    sale_types::{
        CancelOutcome, Changed, Confirmed, MAX_ORDER_FIELDS, Opened, OrderFields, Reserved,
        SaleStatus, SaleWindow,
    },
};

/// How often a movement whose reply was lost is asked for again; each is idempotent.
pub(super) const ATTEMPTS: usize = 3;
/// Buyers that one command of an opening carries.
const BUYERS_A_STEP: usize = 500;
/// References that one command decides about.
const REFERENCES_A_STEP: usize = 500;
/// What lies beside the sales of a group; `term` is what earlier versions had there.
const RESERVED_IDS: [&[u8]; 3] = [b"waiting", b"parked", b"term"];
/// What the keys beside a sale end in.
const RESERVED_ENDS: [&[u8]; 2] = [b":buyers", b":receipts"];
/// Units that a sale can have; Lua counts exactly up to here.
pub(super) const MAX_UNITS: u64 = 1 << 52;

static OPEN: Script = Script::new(include_str!("script/sale_open.lua"));
static RESERVE: Script = Script::new(concat!(
    include_str!("script/sale_history.lua"),
    include_str!("script/sale_reserve.lua")
));
static DECIDE: Script = Script::new(include_str!("script/sale_decide.lua"));
static CHANGE: Script = Script::new(include_str!("script/sale_change.lua"));

impl FlashSale {
    /// Begins a handle on the flash sale with this id.
    #[must_use]
    pub fn builder(handle: &Handle, id: &(impl KeyPart + ?Sized)) -> FlashSaleBuilder {
        FlashSaleBuilder {
            handle: handle.clone(),
            stream: handle.key("sale", id),
            id: id.to_key(),
            waiting: 0,
            findable: false,
            verified: false,
            kept: Duration::from_secs(24 * 3600),
        }
    }
}

/// Settings of a [`FlashSale`]; all processes must use the same ones for a sale.
#[derive(Debug, Clone)]
pub struct FlashSaleBuilder {
    handle: Handle,
    id: Result<Vec<u8>>,
    stream: Result<Vec<u8>>,
    waiting: u64,
    findable: bool,
    verified: bool,
    kept: Duration,
}

impl FlashSaleBuilder {
    /// The group whose slot and stream the sale shares; one of its own without it.
    #[must_use]
    pub fn group(mut self, group: &(impl KeyPart + ?Sized)) -> Self {
        self.stream = self.handle.key("sale", group);
        self
    }

    /// Appends each order to the group's stream, unless `most` of them wait there already; nothing is
    /// appended without it.
    #[must_use]
    pub fn orders(mut self, most: u64) -> Self {
        self.waiting = most;
        self
    }

    /// Lets [`WaitingOrders`](super::WaitingOrders) find an order from its reservation until it is
    /// decided: confirmed, given back or void. Every reservation must be decided then.
    #[must_use]
    pub fn findable(mut self) -> Self {
        self.findable = true;
        self
    }

    /// Sells only after [`FlashSale::verify`], and not any more once the server was restarted or
    /// another one took over: either may have forgotten what it sold. [`Reserved::Unverified`] says so.
    /// An ACL user needs `+info` for it.
    #[must_use]
    pub fn verified(mut self) -> Self {
        self.verified = true;
        self
    }

    /// How long the sale and its references are kept beyond its end; a day without it.
    #[must_use]
    pub fn kept_for(mut self, time: Duration) -> Self {
        self.kept = time;
        self
    }

    /// Builds the handle; asks Redis for nothing.
    ///
    /// # Errors
    /// [`Error::Invalid`] names what makes no sense.
    pub fn build(self) -> Result<FlashSale> {
        let (stream, id) = (self.stream?, self.id?);
        if RESERVED_IDS.contains(&id.as_slice())
            || RESERVED_ENDS.iter().any(|end| id.ends_with(end))
        {
            return Err(Error::Invalid("this id names something else beside the sales".into()));
        }
        let sale = [stream.as_slice(), b":", &id].concat();
        let findable = self.findable.then(|| waiting_key(&stream));
        if self.waiting > MAX_UNITS {
            return Err(Error::Invalid("more orders may wait than can be counted".into()));
        }
        self.handle.needs_every_key("stock");
        let inner = Inner {
            client: self.handle.client().clone(),
            keys: [
                sale.clone(),
                [&sale, b":buyers".as_slice()].concat(),
                [&sale, b":receipts".as_slice()].concat(),
                stream,
            ],
            findable,
            verified: self.verified,
            waiting: self.waiting,
            kept: self.kept,
        };
        Ok(FlashSale { inner: Arc::new(inner) })
    }
}

/// A flash sale; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{Seawall, stock::{Opened, OrderFields, Reserved, SaleWindow}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let sale = seawall.flash_sale(&35).group(&("voucher", 35 % 16)).orders(50_000).build()?;
/// let window = SaleWindow::from_now(Duration::ZERO, Duration::from_secs(60))?;
/// assert_eq!(sale.open("opening-1", window, 1).await?, Opened::Opened);
///
/// let order = OrderFields::new().field("voucher", 35);
/// let answer = sale.reserve(&7, &"order-1", &order).await?;
/// assert!(matches!(answer, Reserved::Reserved(_)));
/// // The reply was lost? Ask again: the same receipt.
/// assert_eq!(sale.reserve(&7, &"order-1", &order).await?.receipt(), answer.receipt());
/// assert_eq!(sale.reserve(&8, &"order-2", &order).await?, Reserved::SoldOut);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct FlashSale {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) client: Client,
    /// Sale, buyers, receipts, stream.
    pub(super) keys: [Vec<u8>; 4],
    /// Orders that wait for a decision, where they can be found.
    findable: Option<Vec<u8>>,
    /// Whether it must have been compared in the present epoch of its server.
    pub(super) verified: bool,
    waiting: u64,
    kept: Duration,
}

impl FlashSale {
    /// Opens the sale with so many units. A sale that is open is not touched: not by the same opening
    /// again, and not by another one; see [`FlashSale::top_up`].
    ///
    /// # Errors
    /// As [`Client::send`]; may be repeated with the same reference. [`Error::Unavailable`] also when the
    /// opening was lost on the way, as when Redis was emptied or the sale's time was over meanwhile.
    pub async fn open(&self, reference: &str, window: SaleWindow, stock: u64) -> Result<Opened> {
        self.open_with(reference, window, stock, std::iter::empty::<(u64, u64)>()).await
    }

    /// Opens the sale from a database: `stock` units are left, and these users have theirs already,
    /// each with its reference.
    ///
    /// # Errors
    /// As [`FlashSale::open`].
    pub async fn open_with<U: KeyPart, R: KeyPart>(
        &self,
        reference: &str,
        window: SaleWindow,
        stock: u64,
        buyers: impl IntoIterator<Item = (U, R)>,
    ) -> Result<Opened> {
        if stock > MAX_UNITS {
            return Err(Error::Invalid("so many units cannot be counted exactly".into()));
        }
        // What another call of the same opening sends is not taken for this one's.
        let call: u64 = rand::random();
        let step = |step: &str| OPEN.on(&self.inner.keys[..3]).arg(step).arg(reference).arg(call);
        let begin = step("BEGIN")
            .arg(stock)
            .arg(window.begin_millis)
            .arg(window.end_millis)
            .arg(millis(self.inner.kept))
            .arg(window.from);
        if let Some(answer) = opened(self.eval(&begin).await?)? {
            return Ok(answer);
        }
        let mut buyers = buyers.into_iter().peekable();
        while buyers.peek().is_some() {
            let mut add = step("ADD");
            for (user, reference) in buyers.by_ref().take(BUYERS_A_STEP) {
                add = add.arg(user.to_key()?).arg(reference.to_key()?);
            }
            if let Some(answer) = opened(self.eval(&add).await?)? {
                return Ok(answer);
            }
        }
        match opened(self.eval(&step("FINISH")).await?)? {
            // A finish that was repeated because its reply was lost finds its own work.
            Some(Opened::Already) | None => Ok(Opened::Opened),
            Some(answer) => Ok(answer),
        }
    }

    /// Reserves one unit for a user, under a reference of the caller's choice such as an order's id.
    /// With the same reference it may be repeated for as long as the sale is kept.
    ///
    /// # Errors
    /// As [`Client::send`]. [`Error::Indeterminate`]: there may be a reservation; repeat, or
    /// [`FlashSale::give_back`].
    ///
    /// # Cancel safety
    /// Dropped, it may have reserved: the same.
    pub async fn reserve(
        &self,
        user: &(impl KeyPart + ?Sized),
        reference: &(impl KeyPart + ?Sized),
        order: &OrderFields,
    ) -> Result<Reserved> {
        if order.0.len() > MAX_ORDER_FIELDS * 2 {
            return Err(Error::Invalid(format!(
                "an order has {MAX_ORDER_FIELDS} further fields at most"
            )));
        }
        let (user, reference) = (user.to_key()?, reference.to_key()?);
        let call = RESERVE.on(&self.keys(4)).arg(user).arg(reference).arg(self.inner.waiting);
        let call = call.arg(u8::from(self.inner.verified));
        let call = order.0.iter().fold(call, |call, part| call.arg(part.as_slice()));
        reserved(self.eval(&call).await?)
    }

    /// Gives a unit back: for sale again, and its user may buy again with another reference.
    ///
    /// # Errors
    /// As [`Client::send`]; may be repeated.
    pub async fn give_back(&self, reference: &(impl KeyPart + ?Sized)) -> Result<CancelOutcome> {
        Ok(cancel_outcome(&self.decide("B", vec![reference.to_key()?]).await?))
    }

    /// As [`FlashSale::give_back`], but there is no unit: a database refused the order because it has
    /// none left. The sale has one less from then on.
    ///
    /// # Errors
    /// As [`Client::send`]; may be repeated.
    pub async fn void(&self, reference: &(impl KeyPart + ?Sized)) -> Result<CancelOutcome> {
        Ok(cancel_outcome(&self.decide("V", vec![reference.to_key()?]).await?))
    }

    /// Confirms a reservation, as when it was paid, or when a database has it.
    ///
    /// # Errors
    /// As [`Client::send`]; may be repeated.
    pub async fn confirm(&self, reference: &(impl KeyPart + ?Sized)) -> Result<Confirmed> {
        Ok(confirmed(&self.decide("C", vec![reference.to_key()?]).await?))
    }

    /// Confirms many reservations in as few steps as possible; an answer for each.
    ///
    /// # Errors
    /// As [`FlashSale::confirm`].
    pub async fn confirm_all<R: KeyPart>(&self, references: &[R]) -> Result<Vec<Confirmed>> {
        let mut answers = Vec::with_capacity(references.len());
        for some in references.chunks(REFERENCES_A_STEP) {
            let keys = some.iter().map(KeyPart::to_key).collect::<Result<_>>()?;
            let words = self.decide("C", keys).await?;
            answers.extend(words.iter().map(|word| confirmed(std::slice::from_ref(word))));
        }
        Ok(answers)
    }

    /// Adds units, once for each reference.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the sale would have received more than 2⁵² units, beyond which they are not
    /// counted exactly; else as [`Client::send`]; may be repeated.
    pub async fn top_up(&self, reference: &str, units: u64) -> Result<Changed> {
        if units > MAX_UNITS {
            return Err(Error::Invalid("so many units cannot be counted exactly".into()));
        }
        let call = self.change("TOP_UP").arg(reference).arg(units).arg(MAX_UNITS);
        changed(&self.eval::<Vec<String>>(&call).await?)
    }

    /// Ends the sale now.
    ///
    /// # Errors
    /// As [`Client::send`]; may be repeated.
    pub async fn close(&self) -> Result<Changed> {
        changed(&self.eval::<Vec<String>>(&self.change("CLOSE")).await?)
    }

    /// How the sale stands; `None` when there is none.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn status(&self) -> Result<Option<SaleStatus>> {
        Ok(match changed(&self.eval::<Vec<String>>(&self.change("LOOK")).await?)? {
            Changed::Changed(status) | Changed::Already(status) => Some(status),
            Changed::Unknown => None,
        })
    }

    /// The key of the stream that orders are appended to.
    #[must_use]
    pub fn stream_key(&self) -> &[u8] {
        &self.inner.keys[3]
    }

    pub(super) fn change(&self, what: &str) -> ScriptInvocation {
        CHANGE.on(&self.inner.keys[..1]).arg(what)
    }

    /// A word for each reference.
    async fn decide(&self, to: &str, references: Vec<Vec<u8>>) -> Result<Vec<String>> {
        let call = DECIDE.on(&self.keys(3)).arg(to);
        self.eval(&references.into_iter().fold(call, ScriptInvocation::arg)).await
    }

    /// The first of the keys, and that of what waits, where orders can be found.
    fn keys(&self, first: usize) -> SmallVec<[&[u8]; 5]> {
        let keys = self.inner.keys[..first].iter().chain(&self.inner.findable);
        keys.map(Vec::as_slice).collect()
    }

    pub(super) async fn eval<T: redis::FromRedisValue>(
        &self,
        call: &ScriptInvocation,
    ) -> Result<T> {
        eval_again(&self.inner.client, call).await
    }
}

/// Runs an idempotent script, again where its reply was lost.
pub(super) async fn eval_again<T: redis::FromRedisValue>(
    client: &Client,
    call: &ScriptInvocation,
) -> Result<T> {
    again(ATTEMPTS, || client.eval(call)).await
}

impl fmt::Debug for FlashSale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = String::from_utf8_lossy(&self.inner.keys[0]);
        f.debug_struct("FlashSale").field("key", &key).finish_non_exhaustive()
    }
}

/// Where orders of a group that wait can be found.
pub(super) fn waiting_key(stream: &[u8]) -> Vec<u8> {
    [stream, b":waiting"].concat()
}

/// The last moment that a sale or a hold can end at, in milliseconds since 1970: some 71,000 years, and
/// still exact when the longest time is added to it.
pub(super) const LAST_MILLIS: i64 = 1 << 51;

pub(super) fn millis(time: Duration) -> i64 {
    // Fits a sum with today's date, whatever the caller said.
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX).min(1 << 50)
}
