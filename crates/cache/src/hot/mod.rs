//! What hot keys mean to a cache: see [`crate::hotkey`].
//!
//! Every read is counted. An entry that becomes hot anywhere in the fleet is fetched into this
//! process' memory, under a ticket as every copy there, so an invalidation that comes while it is
//! fetched wins. Below the local tier, a hot key's rule may ration what it asks of Redis
//! (`read/reader.rs`), and a very hot entry may be read from a copy on another node
//! (`read/lookup.rs`, `store/spread.rs`).

pub(crate) mod heat;
pub(crate) mod warmer;
