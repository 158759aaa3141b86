//! Guard: what stands between callers and a backend that is slow, full or gone.
//!
//! Four parts that work alone, and three that put them together:
//!
//! | Part | Answers |
//! | --- | --- |
//! | [`Breaker`] | does the backend answer at all? |
//! | [`TokenBucket`] | how many calls a second does it get? |
//! | [`Bulkhead`] | how many calls at a time does it get, and how many may wait? |
//! | [`FallbackChain`] | what do we answer when we cannot have the best answer? |
//! | [`ResiliencePipeline`] | breaker, bucket, bulkhead and deadline around one call |
#![cfg_attr(feature = "tower", doc = "| [`GuardLayer`] | the pipeline around a tower service |")]
//!
//! Nothing here knows Redis, or any other backend: who calls says what an error means
//! ([`Outcome`]), and time comes from a [`Clock`](clock::Clock). Everything is a cheap clone
//! whose clones share their state, and every guard gives back what it holds when it is dropped, so
//! a cancelled future leaves nothing behind.
//!
//! Deliberately absent: retries. Whether a call may be repeated is known only to its caller, and
//! retries behind a limit are how overload feeds itself.

mod breaker;
mod bucket;
mod bulkhead;
pub mod clock;
mod fallback;
#[cfg(feature = "tower")]
mod layer;
mod pipeline;

#[cfg(feature = "tower")]
pub use self::layer::{
    ByError, ByStatus, GuardLayer, GuardService, Judge, Refused, RespondLayer, RespondService,
};
pub use self::{
    breaker::{Breaker, BreakerBuilder, BreakerState, Open, Outcome, Permit},
    bucket::{Rate, Refusal, TokenBucket, TokenBucketBuilder},
    bulkhead::{Bulkhead, BulkheadBuilder, Full, Slot},
    fallback::{Answer, Exhausted, FallbackChain, FallbackLevel},
    pipeline::{CallError, ResiliencePipeline, ResiliencePipelineBuilder, Shed, ShedReason},
};

/// Settings that make no sense; the sentence names them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSettings(String);

impl InvalidSettings {
    fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}
