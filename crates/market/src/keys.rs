//! Every key of the market: its template, type, lifetime and owner. No other file puts a key
//! together.
//!
//! | Key | Type | Lifetime | Owner |
//! | --- | --- | --- | --- |
//! | `login:code:{PHONE}` | string: the code | 2 min | `accounts::codes` |
//! | `login:code:{PHONE}:tries` | counter | that of the code | `accounts::codes` |
//! | `session:{TOKEN}` | hash: id, nickName, icon, role, until, slid | 30 min, slides | `accounts::sessions` |
//! | `big-keys:{survey}:day` | string: the day of the last survey | 3 days | `big_keys` |
//!
//! The toolkit's own keys (caches, limits, ids) are listed with their capabilities. Of those that are
//! kept for longer:
//!
//! | Key | Type | Lifetime | Owner |
//! | --- | --- | --- | --- |
//! | `sign:{daily:USER}:YYYYMM` | bitmap: a bit a day, the 1st in front | none; 4 bytes | `checkins` |
//! | `visits:{page:site}:uv:YYYYMMDD` | HyperLogLog | none; 12 KB at most | `stats` |
//! | `visits:{page:site}:pv:YYYYMMDD` | counter | none | `stats` |
//! | `sale:{N}…` | flash sales, their orders and what waits (docs/stock.md) | a day beyond the sale's end | `sales` |
//!
//! Keys of one flash sale share a slot, so that one script may touch them all: its group is the
//! voucher's id modulo [`SALE_SHARDS`], and everything of one group (`sale:{N}…`) lies together on one
//! node of a Cluster.

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

/// The name of the lock under which a flash sale is opened from the database.
#[must_use]
pub fn sale_lock(voucher: u64) -> String {
    format!("sale:{voucher}")
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
