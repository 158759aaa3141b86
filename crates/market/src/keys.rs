//! Every key of the market: its template, type, lifetime and owner. No other file puts a key
//! together.
//!
//! | Key | Type | Lifetime | Owner |
//! | --- | --- | --- | --- |
//! | `login:code:{PHONE}` | string: the code | 2 min | `accounts::codes` |
//! | `login:code:{PHONE}:tries` | counter | that of the code | `accounts::codes` |
//! | `session:{TOKEN}` | hash: id, nickName, icon, role, until, slid | 30 min, slides | `accounts::sessions` |
//! | `{sale:N}:voucher:ID` | hash: stock, begin, end | a day beyond the sale's end | `sales::gate` |
//! | `{sale:N}:buyers:ID` | hash: user → order | the same | `sales::gate` |
//! | `{sale:N}:orders` | stream: what waits for the database | none; an entry goes when it is settled | `sales::jobs` |
//! | `{sale:N}:queued` | hash: order → user and voucher, of what the stream holds | none; a field goes with its entry | `sales::gate` |
//! | `big-keys:{survey}:day` | string: the day of the last survey | 3 days | `big_keys` |
//! | `{sale:N}:dead` | stream: entries that nobody could handle | none; bounded by length | `sales::jobs` |
//!
//! The toolkit's own keys (caches, limits, ids) are listed with their capabilities. Of those that are
//! kept for longer:
//!
//! | Key | Type | Lifetime | Owner |
//! | --- | --- | --- | --- |
//! | `sign:{daily:USER}:YYYYMM` | bitmap: a bit a day, the 1st in front | none; 4 bytes | `checkins` |
//! | `visits:{page:site}:uv:YYYYMMDD` | HyperLogLog | none; 12 KB at most | `stats` |
//! | `visits:{page:site}:pv:YYYYMMDD` | counter | none | `stats` |
//!
//! Keys of one flash sale share a slot, so that one script may touch them all: N is the voucher's
//! id modulo [`SALE_SHARDS`], and everything of one N lies together on one node of a Cluster.

use std::fmt;

/// The name of the lock under which big keys are looked for.
pub const BIG_KEYS_LOCK: &str = "big-keys";

/// The name of the lock under which one process does a round of a job.
#[must_use]
pub fn job_lock(job: &str) -> String {
    format!("job:{job}")
}

/// The name of the lock under which the database's schema is brought up and filled.
pub const START_LOCK: &str = "start";

/// The name of the sign-ins' bitmaps.
pub const SIGN_INS: &str = "daily";

/// The name of the page views' counters, and the subject of those of the whole site.
pub const VISITS: &str = "page";
/// See [`VISITS`].
pub const VISITS_OF_SITE: &str = "site";

/// The day of the last survey of big keys.
#[must_use]
pub fn big_keys_day() -> Vec<u8> {
    b"big-keys:{survey}:day".to_vec()
}

/// Over how many slots flash sales are spread.
pub const SALE_SHARDS: u64 = 16;

/// The slot group of a flash sale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shard(u64);

impl Shard {
    /// The group that a voucher's sale lies in.
    #[must_use]
    pub fn of(voucher: u64) -> Self {
        Shard(voucher % SALE_SHARDS)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Shard> {
        (0..SALE_SHARDS).map(Shard)
    }

    /// The stream of orders that wait for the database.
    #[must_use]
    pub fn orders(self) -> Vec<u8> {
        format!("{self}:orders").into_bytes()
    }

    /// What that stream holds, by order.
    #[must_use]
    pub fn queued(self) -> Vec<u8> {
        format!("{self}:queued").into_bytes()
    }

    /// Entries that nobody could handle.
    #[must_use]
    pub fn dead(self) -> Vec<u8> {
        format!("{self}:dead").into_bytes()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{sale:{}}}", self.0)
    }
}

/// Stock and window of a flash sale.
#[must_use]
pub fn sale(voucher: u64) -> Vec<u8> {
    format!("{}:voucher:{voucher}", Shard::of(voucher)).into_bytes()
}

/// Who bought in a flash sale.
#[must_use]
pub fn buyers(voucher: u64) -> Vec<u8> {
    format!("{}:buyers:{voucher}", Shard::of(voucher)).into_bytes()
}

/// A login code. `phone` has been checked: it is digits alone.
#[must_use]
pub fn code(phone: &str) -> Vec<u8> {
    format!("login:code:{{{phone}}}").into_bytes()
}

/// How often a login code was tried.
#[must_use]
pub fn code_tries(phone: &str) -> Vec<u8> {
    format!("login:code:{{{phone}}}:tries").into_bytes()
}

/// A session. `token` has been checked: it is hexadecimal.
#[must_use]
pub fn session(token: &str) -> Vec<u8> {
    format!("session:{{{token}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_sale_share_a_tag_and_those_of_others_spread() {
        assert_eq!(sale(35), b"{sale:3}:voucher:35");
        assert_eq!(buyers(35), b"{sale:3}:buyers:35");
        assert_eq!(Shard::of(35).orders(), b"{sale:3}:orders");
        assert_eq!(Shard::all().count(), 16);
    }
}
