//! An order of a flash sale, and its status.

/// Status of an order.
///
/// ```text
/// QUEUED ─→ UNPAID ─→ PAID ─→ USED
///    │         │        └──→ REFUNDING ─→ REFUNDED
///    └→ FAILED └→ CANCELLED
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Reserved; the database has not decided yet.
    Queued,
    /// Waits for its payment.
    Unpaid,
    /// Paid.
    Paid,
    /// Redeemed at the shop.
    Used,
    /// Cancelled by its owner, or not paid in time.
    Cancelled,
    /// The refund is in progress.
    Refunding,
    /// The money was refunded.
    Refunded,
    /// The database refused it: sold out, or the user already has an order.
    Failed,
}

/// All statuses.
const ALL: [Status; 8] = [
    Status::Queued,
    Status::Unpaid,
    Status::Paid,
    Status::Used,
    Status::Cancelled,
    Status::Refunding,
    Status::Refunded,
    Status::Failed,
];

impl Status {
    /// Returns the word used by clients and the database.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Status::Queued => "QUEUED",
            Status::Unpaid => "UNPAID",
            Status::Paid => "PAID",
            Status::Used => "USED",
            Status::Cancelled => "CANCELLED",
            Status::Refunding => "REFUNDING",
            Status::Refunded => "REFUNDED",
            Status::Failed => "FAILED",
        }
    }

    pub(super) fn parse(word: &str) -> Option<Self> {
        ALL.into_iter().find(|status| status.word() == word)
    }
}

/// An order as its owner sees it. Times are milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Id.
    pub id: u64,
    /// Owner.
    pub user_id: u64,
    /// Voucher.
    pub voucher_id: u64,
    /// Status.
    pub status: Status,
    /// Time of the reservation.
    pub create_time: i64,
    /// Time of payment.
    pub pay_time: Option<i64>,
    /// Time of redemption.
    pub use_time: Option<i64>,
    /// Time of the refund.
    pub refund_time: Option<i64>,
}

impl Order {
    /// Creates an order that the database has not decided about.
    pub(super) fn queued(order: u64, user: u64, voucher: u64, create_time: i64) -> Self {
        Order {
            id: order,
            user_id: user,
            voucher_id: voucher,
            status: Status::Queued,
            create_time,
            pay_time: None,
            use_time: None,
            refund_time: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_states_belong_together() {
        for status in ALL {
            assert_eq!(Status::parse(status.word()), Some(status));
        }
        assert_eq!(Status::parse("paid"), None);
    }
}
