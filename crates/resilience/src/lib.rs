//! Protection between callers and a backend that is slow, overloaded or unavailable.
//!
//! Four parts that work independently, and types that combine them:
//!
//! | Part | Answers |
//! | --- | --- |
//! | [`Breaker`] | does the backend answer at all? |
//! | [`TokenBucket`] | how many calls per second does it get? |
//! | [`Bulkhead`] | how many concurrent calls does it get, and how many may wait? |
//! | [`FallbackChain`] | what is the answer if the best one is not available? |
//! | [`Backoff`] | how long to wait before the next attempt? |
//! | [`ResiliencePipeline`] | breaker, bucket, bulkhead and deadline around one call |
#![cfg_attr(feature = "tower", doc = "| [`GuardLayer`] | the pipeline around a tower service |")]
//!
//! Nothing here knows Redis or any other backend: the caller classifies its errors ([`Outcome`]),
//! and time comes from a [`Clock`](clock::Clock). All types are cheap to clone, and clones share
//! their state. Every permit and slot is given back when it is dropped, so a cancelled future
//! leaves nothing behind.
//!
//! Deliberately absent: retries. Only the caller knows whether a call may be repeated, and retries
//! behind a limit make an overload feed itself.

mod backoff;
mod breaker;
mod bucket;
mod bulkhead;
pub mod clock;
mod fallback;
#[cfg(feature = "tower")]
mod layer;
pub mod metric;
mod pipeline;
pub mod random;

#[cfg(feature = "tower")]
pub use self::layer::{
    ByError, ByStatus, GuardLayer, GuardService, Judge, Refused, RespondLayer, RespondService,
};
pub use self::{
    backoff::Backoff,
    breaker::{Breaker, BreakerBuilder, BreakerState, Open, Outcome, Permit},
    bucket::{Rate, Refusal, TokenBucket, TokenBucketBuilder},
    bulkhead::{Bulkhead, BulkheadBuilder, Full, Slot},
    fallback::{Answer, Exhausted, FallbackChain, FallbackLevel},
    pipeline::{CallError, ResiliencePipeline, ResiliencePipelineBuilder, Shed, ShedReason},
};

/// Invalid settings; the text names them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

impl InvalidSettings {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}
