//! Big keys: collections in buckets, deletion in slices.
//!
//! One key that is too big affects all clients: its server is blocked while the key is sent, copied
//! or deleted, and a Cluster cannot spread it. So nothing here moves more than 1 MB or 1,000
//! members in one command.
//!
//! The cache splits large values by itself (`split_above_bytes`); see docs/big-keys.md.

#[cfg(feature = "cache")]
pub use seawall_cache::BigValue;
pub use seawall_client::{MAX_COMMAND_BYTES, MAX_COMMAND_MEMBERS, Unlinked, unlink_slowly};
#[cfg(feature = "social")]
pub use seawall_social::bucketed::{
    BucketedHash, BucketedList, BucketedSet, BucketedSortedSet, Cursor, Element, Growth,
    MAX_BUCKETS, Order, Packed, Place,
};
