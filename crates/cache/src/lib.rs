//! A two-tier cache whose strong reads never return what was invalidated.
//!
//! Every answer to penetration, breakdown, avalanche and inconsistency meets in one read path
//! ([`Cache::get_or_load`]) and one write path ([`Cache::write`], [`Cache::invalidate`]).
//!
//! The hole that caches leave is an invalidation racing a load: the loader read the row before the
//! write, the write invalidated, then the loader stored the old row. Here a miss hands out a *lease*,
//! an invalidation kills it, and a fill needs a live one. The same check, by tickets, guards the local
//! tier. docs/cache.md says what is promised and what is not.
//!
//! Calls go one way, and the types hold only what is below them:
//!
//! ```text
//! Cache<K, V>        cache.rs   the only place that knows keys; write.rs, loading.rs
//!   Reader<V>        read/      what is there, as data: Lookup::{Hit, Stale, Miss, …}
//!     LoadCoordinator<V>  load/ who loads, who waits
//!       Publisher<V> store/     the only place that makes a value visible
//!         LocalTier<V>, RemoteTier  tier/   memory; bytes in Redis
//! ```
//!
//! Beside them: `backplane/` keeps local tiers up to date, `recovery/` carries out what Redis did not
//! take, `filter/` stops keys that cannot exist, `hot/` and [`hotkey`] find hot keys, `audit/` compares
//! hits with the source.

mod audit;
mod backplane;
mod bounds;
mod builder;
mod cache;
mod explain;
mod filter;
mod hot;
pub mod hotkey;
mod life;
mod load;
mod loading;
mod metrics;
mod open;
mod read;
mod recovery;
mod settings;
mod spans;
mod store;
mod tier;
mod types;
mod write;

pub use audit::{AuditReport, Auditor, AuditorBuilder};
pub use bounds::{CacheKey, CacheValue, KeyRef};
pub use builder::{CacheBuilder, LocalKeeps, Mode, OnInvalidate, WhenBusy};
pub use cache::Cache;
pub use explain::{Explanation, FilterOpinion, LocalCopy, RemoteEntry, RemoteState};
pub use filter::FilterStatus;
pub use filter::keys::{KeyFilter, KeySink};
pub use loading::{LoadRequest, LoadingCache};
pub use metrics::METRICS;
pub use recovery::file::FileRecoveryLog;
pub use recovery::log::{LogFuture, RecoveryLog, RecoveryRow};
pub use store::big_values::BigValue;
#[cfg(feature = "json")]
pub use store::codec::Json;
pub use store::codec::{Codec, CodecError, MessagePack};
pub use types::{
    CacheError, Freshness, Invalidation, LoadError, Loaded, PutOutcome, Read, Source, Version,
    WriteError,
};
