//! A flash sale: a window, a number of units, one unit per user, decided by one script.
//!
//! All keys of a sale lie in one slot, that of its *group*: the sale itself, the buyers, the
//! receipts by reference, and the stream of orders. Sales of one group share the stream, so a fixed
//! number of workers can serve any number of sales.
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
//! Comparing a sale with a database is in `sale_repair.rs`; stopping it after its server may have
//! lost data is in `server_epoch.rs`.
//!
//! Deliberately absent: reading the stream (see the stream worker), and more than one unit per user
//! (see [`Inventory`](super::Inventory)).

use std::{fmt, sync::Arc, time::Duration};

use metrics::Histogram;
use seawall_client::{
    Handle,
    client::{Client, Script, ScriptInvocation},
    error::{Error, Result},
    key::KeyPart,
    retry::{Doubt, again, again_in_doubt},
};
use seawall_resilience::clock::millis;
use smallvec::SmallVec;

use super::{
    sale_replies::{cancel_outcome, changed, confirmed, opened, reserved},
    sale_types::{
        CancelOutcome, Changed, Confirmed, MAX_ORDER_FIELDS, Opened, OrderFields, Reserved,
        SaleStatus, SaleWindow,
    },
};

/// Attempts of a movement whose reply is lost; each is idempotent.
pub(super) const ATTEMPTS: usize = 3;
/// Buyers per command of an opening.
const BUYERS_A_STEP: usize = 500;
/// References per deciding command.
const REFERENCES_A_STEP: usize = 500;
/// Ids that clash with other keys of a group; earlier versions used `term`.
const RESERVED_IDS: [&[u8]; 3] = [b"waiting", b"parked", b"term"];
/// Key suffixes used beside a sale.
const RESERVED_ENDS: [&[u8]; 2] = [b":buyers", b":receipts"];
/// Maximum units of a sale; Lua counts exactly up to here.
pub(super) const MAX_UNITS: u64 = 1 << 52;

static OPEN: Script = Script::with_time(include_str!("script/sale_open.lua"));
static RESERVE: Script = Script::with_time(concat!(
    include_str!("script/sale_history.lua"),
    include_str!("script/sale_reserve.lua")
));
static DECIDE: Script = Script::new(include_str!("script/sale_decide.lua"));
static CHANGE: Script = Script::with_time(include_str!("script/sale_change.lua"));

impl FlashSale {
    /// Returns a builder for the flash sale with this id.
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

/// Settings of a [`FlashSale`]. All processes must use the same settings for a sale.
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
    /// Sets the group whose slot and stream the sale shares. Default: a separate group for this
    /// sale.
    #[must_use]
    pub fn group(mut self, group: &(impl KeyPart + ?Sized)) -> Self {
        self.stream = self.handle.key("sale", group);
        self
    }

    /// Appends each order to the group's stream, unless `most` orders already wait there. Default:
    /// no order is appended.
    #[must_use]
    pub fn orders(mut self, most: u64) -> Self {
        self.waiting = most;
        self
    }

    /// Lets [`WaitingOrders`](super::WaitingOrders) find an order from its reservation until it is
    /// decided: confirmed, given back or voided. Every reservation must then be decided.
    #[must_use]
    pub fn findable(mut self) -> Self {
        self.findable = true;
        self
    }

    /// Sells only after [`FlashSale::verify`], and stops when the server was restarted or replaced,
    /// because either may have lost sales. [`Reserved::Unverified`] reports that. An ACL user needs
    /// `+info` for it.
    #[must_use]
    pub fn verified(mut self) -> Self {
        self.verified = true;
        self
    }

    /// Sets how long the sale and its references are kept after its end. Default: 1 day.
    #[must_use]
    pub fn retention(mut self, time: Duration) -> Self {
        self.kept = time;
        self
    }

    /// Builds the handle without contacting Redis.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the invalid setting.
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
            reserve_seconds: metrics::histogram!("seawall_stock_reserve_seconds", "kind" => "sale"),
        };
        Ok(FlashSale { inner: Arc::new(inner) })
    }
}

/// A flash sale. Cheap to clone.
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
    /// Key of the index of waiting orders, if orders are findable.
    findable: Option<Vec<u8>>,
    /// Whether the sale must be verified in the current epoch of its server.
    pub(super) verified: bool,
    waiting: u64,
    kept: Duration,
    reserve_seconds: Histogram,
}

impl FlashSale {
    /// Opens the sale with `stock` units. An open sale is not changed, neither by repeating the
    /// opening nor by another one; see [`FlashSale::top_up`].
    ///
    /// # Errors
    /// As [`Client::send`]; the call may be repeated with the same reference.
    /// [`Error::Unavailable`] also if the unfinished opening was lost, because Redis was emptied or
    /// the sale's time was over meanwhile.
    pub async fn open(&self, reference: &str, window: SaleWindow, stock: u64) -> Result<Opened> {
        self.open_with(reference, window, stock, std::iter::empty::<(u64, u64)>()).await
    }

    /// Opens the sale from a database: `stock` units are left, and these users already have theirs,
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
        // Distinguishes this call from other calls of the same opening.
        let call = self.inner.client.randomness().u64();
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
            // A repeated finish whose reply was lost finds its own work.
            Some(Opened::Already) | None => Ok(Opened::Opened),
            Some(answer) => Ok(answer),
        }
    }

    /// Reserves one unit for a user, under a reference chosen by the caller, such as an order id.
    /// The call may be repeated with the same reference for as long as the sale is kept.
    ///
    /// # Errors
    /// As [`Client::send`]. [`Error::Indeterminate`]: the unit may be reserved; repeat the call, or
    /// [`FlashSale::give_back`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the unit may be reserved: repeat or give back, as above.
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
        let call = RESERVE.on(&self.keys(4)).arg(user).arg(&reference).arg(self.inner.waiting);
        let call = call.arg(u8::from(self.inner.verified));
        let call = order.0.iter().fold(call, |call, part| call.arg(part.as_slice()));
        let clock = self.inner.client.network_clock();
        let began = clock.now();
        let asked = again_in_doubt(ATTEMPTS, || self.inner.client.eval(&call)).await;
        self.inner.reserve_seconds.record(clock.now().since(began));
        let (reply, doubt) = asked?;
        let outcome = reserved(reply)?;
        if doubt.exists() { self.conclude(&reference, outcome, doubt).await } else { Ok(outcome) }
    }

    /// Makes a refusal final although an earlier attempt of the same call may still be in flight.
    ///
    /// That attempt would find a unit that was given back meanwhile, and reserve it for a buyer that was
    /// refused. So the reference is given back first: a reservation that arrives later is refused. A
    /// caller that may come back with the same reference is told that the result is unknown instead.
    async fn conclude(
        &self,
        reference: &[u8],
        outcome: Reserved,
        doubt: Doubt,
    ) -> Result<Reserved> {
        let unknown = |why: &str| doubt.report(Error::Unavailable(why.into()));
        match outcome {
            // Nothing that arrives later changes these.
            Reserved::Reserved(_)
            | Reserved::AlreadyYours(_)
            | Reserved::GivenBack
            | Reserved::ReferenceTaken => Ok(outcome),
            Reserved::SoldOut | Reserved::Ended | Reserved::Duplicate { .. } => {
                match self.decide("B", vec![reference.to_vec()]).await {
                    Ok(words) if cancel_outcome(&words) != CancelOutcome::Unknown => Ok(outcome),
                    Ok(_) => Err(unknown("no such sale is open")),
                    Err(error) => Err(unknown(&error.to_string())),
                }
            }
            Reserved::NotStarted { .. }
            | Reserved::Busy
            | Reserved::Unknown
            | Reserved::Unverified => Err(unknown("the sale takes no orders now")),
        }
    }

    /// Gives a unit back: it is for sale again, and its user may buy again with another reference.
    ///
    /// # Errors
    /// As [`Client::send`]; the call may be repeated.
    pub async fn give_back(&self, reference: &(impl KeyPart + ?Sized)) -> Result<CancelOutcome> {
        Ok(cancel_outcome(&self.decide("B", vec![reference.to_key()?]).await?))
    }

    /// Cancels a reservation whose unit does not exist: a database refused the order because none
    /// is left. Like [`FlashSale::give_back`], but the sale has one unit less from then on.
    ///
    /// # Errors
    /// As [`Client::send`]; the call may be repeated.
    pub async fn void(&self, reference: &(impl KeyPart + ?Sized)) -> Result<CancelOutcome> {
        Ok(cancel_outcome(&self.decide("V", vec![reference.to_key()?]).await?))
    }

    /// Confirms a reservation, for example when it is paid, or when a database has stored it.
    ///
    /// # Errors
    /// As [`Client::send`]; the call may be repeated.
    pub async fn confirm(&self, reference: &(impl KeyPart + ?Sized)) -> Result<Confirmed> {
        Ok(confirmed(&self.decide("C", vec![reference.to_key()?]).await?))
    }

    /// Confirms many reservations in as few steps as possible. Returns one answer for each, in
    /// order.
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

    /// Adds units, once per reference.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the sale would have received more than 2⁵² units, beyond which they
    /// cannot be counted exactly; otherwise as [`Client::send`]. The call may be repeated.
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
    /// As [`Client::send`]; the call may be repeated.
    pub async fn close(&self) -> Result<Changed> {
        changed(&self.eval::<Vec<String>>(&self.change("CLOSE")).await?)
    }

    /// Returns the status of the sale, or `None` if no such sale is open.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn status(&self) -> Result<Option<SaleStatus>> {
        Ok(match changed(&self.eval::<Vec<String>>(&self.change("LOOK")).await?)? {
            Changed::Changed(status) | Changed::Already(status) => Some(status),
            Changed::Unknown => None,
        })
    }

    /// Returns the key of the stream of orders.
    #[must_use]
    pub fn stream_key(&self) -> &[u8] {
        &self.inner.keys[3]
    }

    pub(super) fn change(&self, what: &str) -> ScriptInvocation {
        CHANGE.on(&self.inner.keys[..1]).arg(what)
    }

    /// Decides about references. Returns one word for each.
    async fn decide(&self, to: &str, references: Vec<Vec<u8>>) -> Result<Vec<String>> {
        let call = DECIDE.on(&self.keys(3)).arg(to);
        self.eval(&references.into_iter().fold(call, ScriptInvocation::arg)).await
    }

    /// Returns the first `first` keys, and the index of waiting orders if orders are findable.
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

/// Runs an idempotent script, and repeats it if its reply was lost.
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

/// Returns the key of a group's index of waiting orders.
pub(super) fn waiting_key(stream: &[u8]) -> Vec<u8> {
    [stream, b":waiting"].concat()
}

/// The latest end of a sale or a hold, in milliseconds since 1970: some 71,000 years, and still
/// exact when the longest time is added to it.
pub(super) const LAST_MILLIS: i64 = 1 << 51;
