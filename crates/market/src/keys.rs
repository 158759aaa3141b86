//! Every key of the market: its template, type, lifetime and owner. No other file builds keys.
//!
//! | Key | Type | Lifetime | Owner |
//! | --- | --- | --- | --- |
//! | `login:code:{PHONE}` | string: the code | 2 min | `accounts::codes` |
//! | `login:code:{PHONE}:tries` | counter | that of the code | `accounts::codes` |
//! | `big-keys:{survey}:day` | string: the day of the last survey | 3 days | `big_keys` |
//! | `cart:{cart:N}:USER:counts` | hash: SKU → count | 30 days, slides | `cart::redis` |
//! | `cart:{cart:N}:USER:details` | hash: SKU → selected, price, time, version | the same | `cart::redis` |
//! | `cart:{cart:N}:USER:order` | zset: SKU by the time it was put in | the same | `cart::redis` |
//! | `cart:{cart:N}:USER:gone` | zset: SKU → version of its removal, for a day | the same | `cart::redis` |
//! | `cart:{cart:N}:USER:meta` | hash: n (how many items there are), version, replayed (what of `cart_pending` is carried out) | the same | `cart::redis` |
//! | `cart:{cart:N}:USER:sent` | zset: name of units that were added → ms | a day | `cart::redis` |
//! | `cart:{cart:N}:changes` | stream: what waits for the database | none; trimmed when it is written | `cart::behind` |
//! | `checkout:{ID}` | string: a quote | 15 min | `cart::checkout` |
//! | `feed:{sweep}:mark` | string: until when (ms) all notes were handed to the feed | none | `feed::jobs` |
//!
//! The toolkit's own keys (caches, limits, ids) are documented with its features. The long-lived
//! ones are:
//!
//! | Key | Type | Lifetime | Owner |
//! | --- | --- | --- | --- |
//! | `session:{web:DIGEST}` | hash: ~user, ~until, ~slide, nickName, icon, role | 30 min, slides | `accounts::sessions` |
//! | `session-of:{web:USER}` | sorted set: digest → end | that of the last session | `accounts::sessions` |
//! | `sign:{daily:USER}:YYYYMM` | bitmap: a bit a day, the 1st in front | none; 4 bytes | `checkins` |
//! | `visits:{page:site}:uv:YYYYMMDD` | HyperLogLog | none; 12 KB at most | `stats` |
//! | `visits:{page:site}:pv:YYYYMMDD` | counter | none | `stats` |
//! | `stock:{sku:ID…}` | stock of a SKU, shard by shard (docs/stock.md) | none | `inventory::stock` |
//! | `orders:{goods:USER}` | zset: a user's newest orders (docs/social.md) | a day | `orders::list` |
//! | `sale:{N}…` | flash sales, their orders and what waits (docs/stock.md) | a day beyond the sale's end | `sales` |
//! | `timeline:{likes:NOTE}` | sorted set: user → ms of the like | 1 h, rebuilt | `notes::likes` |
//! | `follow:{user:USER}` | set: whom they follow | 1 h, rebuilt | `follows` |
//! | `timeline:{feed:USER}` | sorted set: note → ms, the newest 1,000 | 1 h, rebuilt | `feed` |
//! | `timeline:{wrote:USER}` | sorted set: note → ms, the newest 1,000 | 1 h, rebuilt | `feed` |
//! | `stream:{notes}` | stream: what happened to notes | an entry goes when it is settled | `feed::jobs` |
//!
//! Keys of one flash sale share a slot, so that one script can access them all. A sale's group is
//! the voucher's id modulo [`SALE_SHARDS`], and all keys of one group (`sale:{N}…`) are on one node
//! of a Cluster.

/// Name of the lock for the big-key survey.
pub const BIG_KEYS_LOCK: &str = "big-keys";

/// Name of the lock whose holder runs the jobs of the whole fleet.
pub const LEADER_LOCK: &str = "jobs";

/// Channel whose subscription tells this process that the connection was lost; no messages are sent
/// there.
pub const BREAKS: &[u8] = b"market:breaks";

/// Returns the name of the lock for rebuilding a SKU's stock.
#[must_use]
pub fn stock_lock(sku: u64) -> String {
    format!("stock:{sku}")
}

/// Returns the name of the lock that serializes one user's likes of one note.
#[must_use]
pub fn like_lock(note: u64, user: u64) -> String {
    format!("like:{note}:{user}")
}

/// Returns the name of the lock that serializes changes of a user's follows.
#[must_use]
pub fn follow_lock(user: u64) -> String {
    format!("follow:{user}")
}

/// Returns the key of the time up to which every note was handed to the feed.
#[must_use]
pub fn feed_mark() -> Vec<u8> {
    b"feed:{sweep}:mark".to_vec()
}

/// Name of the lock for migrating and filling the database.
pub const START_LOCK: &str = "start";

/// Name of the sessions.
pub const SESSIONS: &str = "web";

/// Name of the sign-in bitmaps.
pub const SIGN_INS: &str = "daily";

/// Name of the page-view counters.
pub const VISITS: &str = "page";
/// Subject of the page views of the whole site.
pub const VISITS_OF_SITE: &str = "site";

/// Returns the key of the day of the last big-key survey.
#[must_use]
pub fn big_keys_day() -> Vec<u8> {
    b"big-keys:{survey}:day".to_vec()
}

/// Number of slots that flash sales are spread over.
pub const SALE_SHARDS: u64 = 16;

/// Returns the key of the orders that wait for the database, beside the stream of their group, as
/// the toolkit names it.
#[must_use]
pub fn sale_waiting(stream: &[u8]) -> Vec<u8> {
    [stream, b":waiting"].concat()
}

/// Returns the name of the lock for opening a flash sale from the database.
#[must_use]
pub fn sale_lock(voucher: u64) -> String {
    format!("sale:{voucher}")
}

/// Returns the key of a login code.
///
/// `phone` is validated: digits only.
#[must_use]
pub fn code(phone: &str) -> Vec<u8> {
    format!("login:code:{{{phone}}}").into_bytes()
}

/// Returns the key of the attempts at a login code.
#[must_use]
pub fn code_tries(phone: &str) -> Vec<u8> {
    format!("login:code:{{{phone}}}:tries").into_bytes()
}

/// Number of slots that carts are spread over.
pub const CART_GROUPS: u64 = 16;

/// Keys of one user's cart, all in one slot: counts, details, order, removals, meta, the stream of
/// changes, and the names of submissions.
#[derive(Debug, Clone)]
pub struct CartKeys(pub [Vec<u8>; 7]);

impl CartKeys {
    /// Returns the keys of a user.
    #[must_use]
    pub fn of(user: u64) -> Self {
        let group = user % CART_GROUPS;
        let key = |kind: &str| format!("cart:{{cart:{group}}}:{user}:{kind}").into_bytes();
        let [counts, details, order, gone, meta, sent] =
            ["counts", "details", "order", "gone", "meta", "sent"].map(key);
        CartKeys([counts, details, order, gone, meta, cart_changes_of(group), sent])
    }
}

/// Returns the change streams of all carts.
pub fn cart_changes() -> impl Iterator<Item = Vec<u8>> {
    (0..CART_GROUPS).map(cart_changes_of)
}

fn cart_changes_of(group: u64) -> Vec<u8> {
    format!("cart:{{cart:{group}}}:changes").into_bytes()
}

/// Returns the key of a cart quote.
#[must_use]
pub fn checkout(id: u64) -> Vec<u8> {
    format!("checkout:{{{id}}}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_one_cart_share_a_tag_with_their_stream() {
        let CartKeys(keys) = CartKeys::of(35);
        assert_eq!(keys[0], b"cart:{cart:3}:35:counts");
        assert_eq!(keys[5], b"cart:{cart:3}:changes");
        assert_eq!(cart_changes().count(), 16);
    }
}
