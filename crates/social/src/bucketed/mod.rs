//! Collections that grow: hash, set and sorted set over many buckets, list in chunks.
//!
//! A collection of a million members in one key is a big key: it is on one node, and a client that
//! reads, copies or deletes all of it blocks that node. Here the members are spread over buckets by
//! a hash of the member (xxh3, the same in all versions); each bucket is a separate key in its own
//! slot. The number of buckets can be raised while clients read and write, and an existing big key
//! can be taken over the same way.
//!
//! Each operation on one member is atomic, and so is each operation on those members of a batch
//! that share a bucket. Operations that need the whole key at once are not offered: a lifetime for
//! all, renaming, set algebra, transactions over members. [`BucketedHash::adopt`] refuses a key
//! with a lifetime for this reason.
//!
//! Lost replies: all operations but the increments and the list's pushes and pops are safe to retry
//! after [`Error::Indeterminate`](seawall_client::Error::Indeterminate).

mod core;
mod element;
mod grow;
mod hash;
mod layout;
mod list;
mod set;
mod sorted_set;
mod whole;

use seawall_client::error::{Error, Result};

use self::{core::Core, layout::beside};
pub use self::{
    element::{Element, Packed},
    grow::Growth,
    hash::BucketedHash,
    list::BucketedList,
    set::BucketedSet,
    sorted_set::{BucketedSortedSet, Order, Place},
    whole::Cursor,
};

/// Largest number of buckets of a collection.
pub const MAX_BUCKETS: u64 = 1 << 16;

/// The Redis type of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Hash,
    Set,
    SortedSet,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Kind::Hash => "big-hash",
            Kind::Set => "big-set",
            Kind::SortedSet => "big-zset",
        }
    }

    /// Returns the name that TYPE uses.
    const fn type_word(self) -> &'static str {
        match self {
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
        }
    }

    const fn exists(self) -> &'static str {
        match self {
            Kind::Hash => "HEXISTS",
            Kind::Set => "SISMEMBER",
            Kind::SortedSet => "ZSCORE",
        }
    }

    const fn count(self) -> &'static str {
        match self {
            Kind::Hash => "HLEN",
            Kind::Set => "SCARD",
            Kind::SortedSet => "ZCARD",
        }
    }

    const fn scan(self) -> &'static str {
        match self {
            Kind::Hash => "HSCAN",
            Kind::Set => "SSCAN",
            Kind::SortedSet => "ZSCAN",
        }
    }
}

fn check_buckets(buckets: u64) -> Result<()> {
    if (1..=MAX_BUCKETS).contains(&buckets) {
        return Ok(());
    }
    Err(Error::Invalid(format!("{buckets} buckets: there must be from 1 to {MAX_BUCKETS}")))
}

impl Core {
    /// Creates the collection from this existing key: its members stay where they are until it
    /// grows.
    async fn adopt(&self, key: &[u8]) -> Result<()> {
        beside(key)?;
        let (client, name) = (self.handle().client(), String::from_utf8_lossy(key));
        let mut ask = redis::cmd("TYPE");
        ask.arg(key);
        let found: String = client.query(key, &ask).await?;
        let refuse =
            |why: String| Err(Error::Invalid(format!("{name:?} cannot be taken over: {why}")));
        if found != self.kind().type_word() {
            return refuse(format!("it is a {found}, not a {}", self.kind().type_word()));
        }
        let mut ask = redis::cmd("PTTL");
        ask.arg(key);
        if client.query::<i64>(key, &ask).await? >= 0 {
            return refuse("it has a lifetime, which only one key can have as a whole".into());
        }
        let layout = self.names.create(key, 1).await?;
        if layout.plain.as_deref() != Some(key) {
            return refuse(format!("{:?} exists already", self.names.name));
        }
        self.remember(Some(layout));
        Ok(())
    }
}

/// Decodes an element of a page or batch; damaged bytes are an error and are not skipped.
fn element<T: Element>(bytes: Vec<u8>) -> Result<T> {
    T::from_bytes(bytes).ok_or_else(|| Error::unexpected("a member or value of another type"))
}
