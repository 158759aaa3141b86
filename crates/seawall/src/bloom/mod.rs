//! A Bloom filter in Redis: says of a key that it was never added, or that it may have been.
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
//! A key's hash chooses a part, and all of its bits lie in that part: adding and asking is one script
//! on one key, parts lie on different primaries of a Cluster, and many keys at once are one pipeline
//! a server.
//!
//! **Rebuilt without a gap.** A Bloom filter cannot forget, so it is built anew from the source now
//! and then, while it is in use. The one rule is that nothing which was added is ever denied:
//!
//! 1. A generation is created beside the one in use. Then every part in use gets a mark that names
//!    it. Only then is the source read.
//! 2. Whoever adds to a marked part learns of the new generation by the reply, and adds there too
//!    before answering. So what was added before the mark is in the source (write that first), and
//!    what is added after it is in both.
//! 3. One field of the hash is flipped. Adding goes on in both until the old parts are gone: a process
//!    that has not noticed yet asks parts that are complete, or finds none and looks at the hash.
//!
//! Generations are numbered by the server's clock, so that a number is never used again, even when the
//! hash was lost and a process still remembers what it said.
//!
//! A part that is missing although it should be there (evicted, lost) denies nothing: everything may
//! be, until a rebuild. A filter that was never built denies nothing either.
//!
//! How it relates to the cache's filter ([`KeyFilter`](seawall_cache::KeyFilter)): that one lives in
//! each process, answers in nanoseconds and is kept up by the cache's messages. This one is shared,
//! costs a round trip, needs no cache and survives restarts. They hash with the same function.

mod control;
mod filter;
mod rebuild;
mod shape;
mod status;

pub use filter::{Answer, Bloom, BloomBuilder, Insert};
pub use rebuild::{BloomSink, Created, Rebuild};
pub use status::BloomStatus;
