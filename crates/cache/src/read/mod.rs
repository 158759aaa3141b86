//! Reading: what the tiers have for a reader, as data, and what a reader makes of it.
//!
//! | File | Idea |
//! | --- | --- |
//! | `reader.rs` | [`Reader`](reader::Reader): the way of one read |
//! | `lookup.rs` | [`Lookup`](lookup::Lookup): what Redis has, and what that means |
//! | `freshness.rs` | whether an entry is new enough |
//! | `batch.rs` | the way of many reads at once |

pub(crate) mod batch;
pub(crate) mod freshness;
pub(crate) mod lookup;
pub(crate) mod reader;
