//! Inputs and outcomes of a flash sale. Refusals are outcomes, not errors.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::ToRedisArgs;
use seawall_client::error::{Error, Result};
use seawall_resilience::clock::millis;
use serde::Serialize;

use super::sale::LAST_MILLIS;

/// Maximum number of additional fields per order.
pub const MAX_ORDER_FIELDS: usize = 64;

/// The time window of a sale, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleWindow {
    /// `now` if the times are relative to the opening, `epoch` if they are dates.
    pub(super) from: &'static str,
    pub(super) begin_millis: i64,
    pub(super) end_millis: i64,
}

impl SaleWindow {
    /// A window from `begin` until just before `end`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it ends before it begins, lies before 1970, or ends so late (in some
    /// 71,000 years) that its end could not be represented exactly.
    pub fn between(begin: SystemTime, end: SystemTime) -> Result<Self> {
        let millis = |time: SystemTime| {
            let since = time.duration_since(UNIX_EPOCH).ok()?;
            i64::try_from(since.as_millis()).ok()
        };
        match (millis(begin), millis(end)) {
            (Some(begin), Some(end)) => Self::of("epoch", begin, end),
            _ => Err(Error::Invalid("a sale must take place after 1970".into())),
        }
    }

    /// A window that begins `delay` after the opening and lasts for `length`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `length` is zero.
    pub fn from_now(delay: Duration, length: Duration) -> Result<Self> {
        let end = delay.saturating_add(length);
        Self::of("now", millis(delay).cast_signed(), millis(end).cast_signed())
    }

    fn of(from: &'static str, begin_millis: i64, end_millis: i64) -> Result<Self> {
        if begin_millis >= end_millis {
            return Err(Error::Invalid("a sale must end after it begins".into()));
        }
        if end_millis > LAST_MILLIS {
            return Err(Error::Invalid(format!(
                "a sale must end {LAST_MILLIS} ms after 1970 at the latest, not {end_millis} ms"
            )));
        }
        Ok(SaleWindow { from, begin_millis, end_millis })
    }
}

/// Additional fields of an order in the stream, besides its reference, user and time.
#[derive(Debug, Clone, Default)]
pub struct OrderFields(pub(super) Vec<Vec<u8>>);

impl OrderFields {
    /// Creates an empty set of fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field: a number, text or bytes.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl ToRedisArgs) -> Self {
        let mut written = value.to_redis_args();
        self.0.push(name.as_bytes().to_vec());
        self.0.push(if written.is_empty() { Vec::new() } else { written.swap_remove(0) });
        self
    }

    /// Adds a field whose value is serialized as JSON.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it cannot be serialized.
    pub fn json(mut self, name: &str, value: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(value)
            .map_err(|error| Error::Invalid(format!("the field {name} is no JSON: {error}")))?;
        self.0.push(name.as_bytes().to_vec());
        self.0.push(json);
        Ok(self)
    }
}

/// Proof of a reservation. Repeated requests return the same receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// 1-based sequence number of this reservation within the sale.
    pub sequence: u64,
    /// Time of the reservation by the server's clock, in milliseconds since 1970; 0 for a buyer
    /// that the sale was opened with.
    pub at_millis: i64,
    /// The entry in the stream of orders, if the sale has one.
    pub entry: Option<String>,
}

/// Outcome of [`FlashSale::reserve`](super::FlashSale::reserve).
#[must_use = "the unit may not have been reserved"]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reserved {
    /// This call reserved a unit.
    Reserved(Receipt),
    /// This reference already has its unit: the call was repeated.
    AlreadyYours(Receipt),
    /// The user has a unit under another reference.
    Duplicate {
        /// The other reference.
        reference: Vec<u8>,
    },
    /// No unit is left.
    SoldOut,
    /// The sale has not begun.
    NotStarted {
        /// Time until it begins.
        begins_in: Duration,
    },
    /// The sale is over.
    Ended,
    /// This reference was given back. Buying again requires another reference.
    GivenBack,
    /// This reference belongs to another user.
    ReferenceTaken,
    /// The stream is full: the maximum number of orders is waiting.
    Busy,
    /// No such sale is open: it was never opened, or Redis lost its data.
    Unknown,
    /// The sale requires [verification](super::FlashSale::verify) and was not verified in the
    /// current epoch of its server, which may have lost sales.
    Unverified,
}

impl Reserved {
    /// Returns the receipt if the caller has a unit.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Reserved::Reserved(receipt) | Reserved::AlreadyYours(receipt) => Some(receipt),
            _ => None,
        }
    }
}

/// Outcome of [`FlashSale::open`](super::FlashSale::open).
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// This call opened the sale.
    Opened,
    /// The same opening was finished before; nothing was changed.
    Already,
    /// Another opening came first; nothing was changed.
    Running {
        /// The reference of the other opening.
        reference: Vec<u8>,
    },
    /// The sale ended longer ago than a sale is kept; nothing was opened.
    Ended,
}

/// Outcome of [`FlashSale::give_back`](super::FlashSale::give_back) and
/// [`FlashSale::void`](super::FlashSale::void).
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The unit is for sale again, and the user may buy again.
    Returned,
    /// The unit was given back before.
    Already,
    /// This reference never had a unit, and will not get one any more.
    NeverReserved,
    /// No such sale is open.
    Unknown,
}

/// Outcome of [`FlashSale::confirm`](super::FlashSale::confirm).
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confirmed {
    /// This call confirmed the reservation.
    Confirmed,
    /// The reservation was confirmed before.
    Already,
    /// The unit was given back.
    GivenBack,
    /// This reference has no unit.
    NeverReserved,
    /// No such sale is open.
    Unknown,
}

/// Outcome of [`FlashSale::top_up`](super::FlashSale::top_up) and
/// [`FlashSale::close`](super::FlashSale::close).
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// The sale was changed; its status now.
    Changed(SaleStatus),
    /// The same change was made before; the status now.
    Already(SaleStatus),
    /// No such sale is open.
    Unknown,
}

/// Phase of a sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the window.
    NotStarted,
    /// Within the window.
    Running,
    /// After the window.
    Ended,
}

/// Status of a sale; all numbers are from one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleStatus {
    /// The phase, by the server's clock.
    pub phase: Phase,
    /// Units that the sale was given.
    pub received: u64,
    /// Units that can be reserved.
    pub left: u64,
    /// Units reserved but not confirmed.
    pub reserved: u64,
    /// Units confirmed.
    pub confirmed: u64,
    /// Reservations that were given back or voided.
    pub given_back: u64,
}

impl SaleStatus {
    /// Returns `true` if every unit is accounted for: `left + reserved + confirmed = received`.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.left + self.reserved + self.confirmed == self.received
    }
}

/// Outcome of [`FlashSale::adopt`](super::FlashSale::adopt).
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adopted {
    /// The sale has recorded the unit.
    Adopted,
    /// The sale knew of the unit before.
    Already,
    /// The unit was given back: the caller's information is outdated.
    GivenBack,
    /// No such sale is open.
    Unknown,
}

/// Outcome of [`FlashSale::correct_left`](super::FlashSale::correct_left).
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corrected {
    /// The number of units left was set.
    Corrected(SaleStatus),
    /// The sale has changed since it was seen; nothing was corrected.
    Moved(SaleStatus),
    /// No such sale is open.
    Unknown,
}

/// What a sale knows about a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The reference.
    pub reference: Vec<u8>,
    /// The user; empty if the reference was given back before its reservation arrived.
    pub user: Vec<u8>,
    /// State of the reservation.
    pub state: HoldingState,
    /// Time of the reservation by the server's clock, in milliseconds since 1970; 0 for a buyer
    /// that the sale was opened with.
    pub at_millis: i64,
}

/// State of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldingState {
    /// Reserved, not decided yet.
    Reserved,
    /// Confirmed.
    Confirmed,
    /// Given back or voided.
    GivenBack,
}
