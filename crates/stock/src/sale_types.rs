//! What a flash sale is told and what it answers: outcomes, not errors.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::ToRedisArgs;
use seawall_client::error::{Error, Result};
use serde::Serialize;

use super::sale::{LAST_MILLIS, millis};

/// Most further fields of one order.
pub const MAX_ORDER_FIELDS: usize = 64;

/// When a sale takes place, by the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleWindow {
    /// `now` when the times are reckoned from the opening, `epoch` when they are dates.
    pub(super) from: &'static str,
    pub(super) begin_millis: i64,
    pub(super) end_millis: i64,
}

impl SaleWindow {
    /// From one time until just before another.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it ends before it begins, lies before 1970, or ends so late (in some 71,000
    /// years) that its end could not be represented exactly.
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

    /// Begins so long after it was opened, and lasts for `length`.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it has no length.
    pub fn from_now(delay: Duration, length: Duration) -> Result<Self> {
        Self::of("now", millis(delay), millis(delay.saturating_add(length)))
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

/// What an order in the stream says besides its reference, user and time.
#[derive(Debug, Clone, Default)]
pub struct OrderFields(pub(super) Vec<Vec<u8>>);

impl OrderFields {
    /// Nothing more.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field: numbers, text or bytes.
    #[must_use]
    pub fn field(mut self, name: &str, value: impl ToRedisArgs) -> Self {
        let mut written = value.to_redis_args();
        self.0.push(name.as_bytes().to_vec());
        self.0.push(if written.is_empty() { Vec::new() } else { written.swap_remove(0) });
        self
    }

    /// Adds a field whose value is written as JSON.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it cannot be.
    pub fn json(mut self, name: &str, value: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(value)
            .map_err(|error| Error::Invalid(format!("the field {name} is no JSON: {error}")))?;
        self.0.push(name.as_bytes().to_vec());
        self.0.push(json);
        Ok(self)
    }
}

/// Proof of a reservation; the same however often it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The how manieth reservation of the sale it was, from 1.
    pub sequence: u64,
    /// When, by the server's clock, in milliseconds since 1970; 0 for a buyer that the sale was
    /// opened with.
    pub at_millis: i64,
    /// The entry in the stream of orders, where there is one.
    pub entry: Option<String>,
}

/// What a reservation came to.
#[must_use = "the unit may not have been reserved"]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reserved {
    /// A unit was reserved by this call.
    Reserved(Receipt),
    /// This reference has its unit already: the call was repeated.
    AlreadyYours(Receipt),
    /// The user has a unit under another reference.
    Duplicate {
        /// That reference.
        reference: Vec<u8>,
    },
    /// Nothing is left.
    SoldOut,
    /// The sale has not begun.
    NotStarted {
        /// How long until it does.
        begins_in: Duration,
    },
    /// The sale is over.
    Ended,
    /// This reference was given back; buying again takes another one.
    GivenBack,
    /// This reference belongs to another user.
    ReferenceTaken,
    /// As many orders wait in the stream as may.
    Busy,
    /// No such sale is open: it was never opened, or Redis came back empty.
    Unknown,
    /// The sale is one that must be [verified](super::FlashSale::verify) and was not in this epoch of
    /// its server, which may have forgotten what it sold.
    Unverified,
}

impl Reserved {
    /// The receipt, when the caller has a unit.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        match self {
            Reserved::Reserved(receipt) | Reserved::AlreadyYours(receipt) => Some(receipt),
            _ => None,
        }
    }
}

/// What opening a sale came to.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// It is open now.
    Opened,
    /// The same opening was finished before; nothing was changed.
    Already,
    /// Another opening came first; nothing was changed.
    Running {
        /// The other one's reference.
        reference: Vec<u8>,
    },
    /// Its end is longer ago than a sale is kept: nothing was opened.
    Ended,
}

/// What giving a unit back came to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The unit is for sale again, and the user may buy again.
    Returned,
    /// It was given back before.
    Already,
    /// This reference never had a unit; it will not get one any more.
    NeverReserved,
    /// No such sale is open.
    Unknown,
}

/// What confirming came to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confirmed {
    /// It is confirmed now.
    Confirmed,
    /// It was before.
    Already,
    /// The unit was given back.
    GivenBack,
    /// This reference has no unit.
    NeverReserved,
    /// No such sale is open.
    Unknown,
}

/// What a change of a running sale came to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changed {
    /// It was changed; how it stands now.
    Changed(SaleStatus),
    /// The same change was made before; how it stands now.
    Already(SaleStatus),
    /// No such sale is open.
    Unknown,
}

/// Where a sale is in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before its beginning.
    NotStarted,
    /// Units can be had.
    Running,
    /// After its end.
    Ended,
}

/// How a sale stands; all numbers from one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaleStatus {
    /// By the server's clock.
    pub phase: Phase,
    /// Units that the sale was given.
    pub received: u64,
    /// Units that can be reserved.
    pub left: u64,
    /// Units reserved and not confirmed.
    pub reserved: u64,
    /// Units confirmed.
    pub confirmed: u64,
    /// Reservations that were given back, or void.
    pub given_back: u64,
}

impl SaleStatus {
    /// Whether every unit is accounted for: `left + reserved + confirmed = received`.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.left + self.reserved + self.confirmed == self.received
    }
}

/// What adopting came to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Adopted {
    /// The sale knows of it now.
    Adopted,
    /// It knew before.
    Already,
    /// The unit was given back: the caller's knowledge is old.
    GivenBack,
    /// No such sale is open.
    Unknown,
}

/// What a correction came to.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Corrected {
    /// The units left are those now.
    Corrected(SaleStatus),
    /// The sale is not as it was seen; nothing was corrected.
    Moved(SaleStatus),
    /// No such sale is open.
    Unknown,
}

/// What a sale knows of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// The reference.
    pub reference: Vec<u8>,
    /// Whose it is; empty when it was given back before it arrived.
    pub user: Vec<u8>,
    /// What became of it.
    pub state: HoldingState,
    /// When it was reserved, by the server's clock, in milliseconds since 1970; 0 for a buyer that the
    /// sale was opened with.
    pub at_millis: i64,
}

/// What became of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldingState {
    /// Reserved, not decided.
    Reserved,
    /// Confirmed.
    Confirmed,
    /// Given back, or void.
    GivenBack,
}
