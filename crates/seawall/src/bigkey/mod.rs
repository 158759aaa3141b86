//! Big keys: values in parts, collections in buckets, deletion in slices.
//!
//! One key that is too big hurts everybody: its server stands still while it is sent, copied or
//! deleted, and a Cluster cannot spread it. So nothing here moves more than 1 MB or 1,000 members in
//! one command.
//!
//! The cache cuts large values by itself (`split_above_bytes`); docs/big-keys.md tells how.

mod bucketed;
pub(crate) mod parts;
mod report;
mod unlink;

pub use bucketed::{
    BucketedHash, BucketedList, BucketedSet, BucketedSortedSet, Cursor, Element, Growth,
    MAX_BUCKETS, Order, Packed, Place,
};
pub use report::BigValue;
pub(crate) use report::Report;
pub use unlink::{Unlinked, unlink_slowly};

/// No command moves more bytes than this.
pub const MAX_COMMAND_BYTES: usize = 1 << 20;
/// No command moves more members than this.
pub const MAX_COMMAND_MEMBERS: usize = 1000;
