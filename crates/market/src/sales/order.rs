//! An order of a flash sale, and how far it is.

/// How far an order is.
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
    /// Waits to be paid for.
    Unpaid,
    /// Paid for.
    Paid,
    /// Redeemed at the shop.
    Used,
    /// Ended by its owner, or because nobody paid in time.
    Cancelled,
    /// The money is on its way back.
    Refunding,
    /// The money is back.
    Refunded,
    /// The database refused it: sold out, or the user has one already.
    Failed,
}

/// All of them.
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
    /// The word that clients and the database know.
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
    /// Who ordered.
    pub user_id: u64,
    /// What.
    pub voucher_id: u64,
    /// How far it is.
    pub status: Status,
    /// When it was reserved.
    pub create_time: i64,
    /// When it was paid for.
    pub pay_time: Option<i64>,
    /// When it was redeemed.
    pub use_time: Option<i64>,
    /// When the money went back.
    pub refund_time: Option<i64>,
}

impl Order {
    /// One that the database has not decided about.
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
