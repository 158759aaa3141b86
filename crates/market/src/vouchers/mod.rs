//! Vouchers that are sold in flash sales: what is for sale, when, and how many are left.

pub(crate) mod http;
pub(crate) mod store;

/// A voucher with its sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlashVoucher {
    /// Id.
    pub id: u64,
    /// The shop that takes it.
    pub shop_id: u64,
    /// What it is.
    pub title: String,
    /// More about it.
    pub sub_title: String,
    /// When it may be used.
    pub rules: String,
    /// What it costs, in cents.
    pub pay_value: i64,
    /// What it is worth, in cents.
    pub actual_value: i64,
    /// Left, by the database.
    pub stock: i64,
    /// Milliseconds since the epoch.
    pub begin_time: i64,
    /// Milliseconds since the epoch.
    pub end_time: i64,
}
