//! Every key of the market: its template, type, lifetime and owner. No other file puts a key
//! together.
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
//! The toolkit's own keys (caches, limits, ids) are listed with their capabilities. Of those that are
//! kept for longer:
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
//! Keys of one flash sale share a slot, so that one script may touch them all: its group is the
//! voucher's id modulo [`SALE_SHARDS`], and everything of one group (`sale:{N}…`) lies together on one
//! node of a Cluster.

/// The name of the lock under which big keys are looked for.
pub const BIG_KEYS_LOCK: &str = "big-keys";

/// The name of the lock whose holder does the jobs of the whole fleet.
pub const LEADER_LOCK: &str = "jobs";

/// The channel by whose subscription this process hears that the connection was lost; nothing is said
/// there.
pub const BREAKS: &[u8] = b"market:breaks";

/// The name of the lock under which the stock of a SKU is rebuilt.
#[must_use]
pub fn stock_lock(sku: u64) -> String {
    format!("stock:{sku}")
}

/// The name of the lock that orders the clicks of one user on the like of one note.
#[must_use]
pub fn like_lock(note: u64, user: u64) -> String {
    format!("like:{note}:{user}")
}

/// The name of the lock that orders whom a user follows.
#[must_use]
pub fn follow_lock(user: u64) -> String {
    format!("follow:{user}")
}

/// Until when every note is known to have been handed to the feed.
#[must_use]
pub fn feed_mark() -> Vec<u8> {
    b"feed:{sweep}:mark".to_vec()
}

/// The name of the lock under which the database's schema is brought up and filled.
pub const START_LOCK: &str = "start";

/// The name of the sessions.
pub const SESSIONS: &str = "web";

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

/// The orders that wait for the database, beside the stream of their group: as the toolkit names them.
#[must_use]
pub fn sale_waiting(stream: &[u8]) -> Vec<u8> {
    [stream, b":waiting"].concat()
}

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

/// Over how many slots carts are spread.
pub const CART_GROUPS: u64 = 16;

/// Counts, details, order, removals and meta of one user's cart, the stream that its changes are noted
/// in, and the names of submissions: all in one slot.
#[derive(Debug, Clone)]
pub struct CartKeys(pub [Vec<u8>; 7]);

impl CartKeys {
    /// The keys of a user.
    #[must_use]
    pub fn of(user: u64) -> Self {
        let group = user % CART_GROUPS;
        let key = |kind: &str| format!("cart:{{cart:{group}}}:{user}:{kind}").into_bytes();
        let [counts, details, order, gone, meta, sent] =
            ["counts", "details", "order", "gone", "meta", "sent"].map(key);
        CartKeys([counts, details, order, gone, meta, cart_changes_of(group), sent])
    }
}

/// The streams of changes of all carts.
pub fn cart_changes() -> impl Iterator<Item = Vec<u8>> {
    (0..CART_GROUPS).map(cart_changes_of)
}

fn cart_changes_of(group: u64) -> Vec<u8> {
    format!("cart:{{cart:{group}}}:changes").into_bytes()
}

/// A quote of a cart.
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
