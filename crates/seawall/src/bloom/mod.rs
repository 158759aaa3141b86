//! A Bloom filter in Redis: tells that a key was never added, or that it may have been added.
//!
//! ```text
//! bloom:{NAME}            hash     which generation answers, which one is being built, their shapes
//! bloom:{NAME:GEN:PART}   string   32 bytes of header, then bits: at most 512 KB, so that none is big
//!
//!   0      4        8                   16               24        32
//!   ┌──────┬────────┬───────────────────┬────────────────┬─────────┬───────────
//!   │ SWB1 │ unused │ next generation   │ items added    │ unused  │ bits …
//!   └──────┴────────┴───────────────────┴────────────────┴─────────┴───────────
//! ```
//!
//! A key's hash selects a part, and all of its bits are in that part. So adding or querying a key
//! is one script on one key, parts can be on different primaries of a Cluster, and many keys at
//! once take one pipeline per server.
//!
//! **Rebuilt while in use.** A Bloom filter cannot remove keys, so it is regularly rebuilt from the
//! source, while it is in use. The one rule is that a key that was added is never reported absent:
//!
//! 1. A new generation is created beside the one in use. Then every part in use gets a mark that
//!    names the new generation. Only then is the source read.
//! 2. A process that adds to a marked part learns of the new generation from the reply, and adds
//!    there, too, before it returns. So a key that was added before the mark is in the source
//!    (callers write the source first), and a key that is added after it is in both generations.
//! 3. One field of the hash is switched. Keys are added to both generations until the old parts are
//!    gone. A process that has not noticed the switch queries parts that are complete, or finds
//!    none and reads the hash.
//!
//! Generations are numbered by the server's clock. So a number is never used again, even if the
//! hash was lost and a process still remembers what it contained.
//!
//! If a part is missing (evicted or lost), none of its keys is reported absent until a rebuild. The
//! same holds for a filter that was never built.
//!
//! Difference from the cache's filter ([`KeyFilter`](seawall_cache::KeyFilter)): that one is in
//! each process, answers in nanoseconds and is updated by the cache's messages. This one is shared,
//! costs a round trip, needs no cache and survives restarts. Both use the same hash function.

mod control;
mod filter;
mod rebuild;
mod shape;
mod status;

pub use filter::{Answer, Bloom, BloomBuilder, Insert};
pub use rebuild::{BloomSink, Created, Rebuild};
pub use status::BloomStatus;
