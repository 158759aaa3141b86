//! Settings of the pipeline and their validation.

use std::{sync::Arc, time::Duration};

use super::{Parts, ResiliencePipeline};
use crate::{Breaker, Bulkhead, InvalidSettings, TokenBucket, clock::Clock};

/// Default time that a call must have run before its deadline counts against the backend.
const DEFAULT_FAIR_TIME: Duration = Duration::from_millis(100);
/// Default time that a call waits for a token.
const DEFAULT_TOKEN_WAIT: Duration = Duration::from_millis(100);

/// Settings of a [`ResiliencePipeline`].
#[derive(Debug, Clone)]
#[must_use]
pub struct ResiliencePipelineBuilder {
    name: Arc<str>,
    clock: Clock,
    breaker: Option<Breaker>,
    bucket: Option<TokenBucket>,
    bulkhead: Option<Bulkhead>,
    token_timeout: Option<Duration>,
    fair_time: Option<Duration>,
}

impl ResiliencePipelineBuilder {
    pub(super) fn new(name: Arc<str>) -> Self {
        ResiliencePipelineBuilder {
            name,
            clock: Clock::system(),
            breaker: None,
            bucket: None,
            bulkhead: None,
            token_timeout: None,
            fair_time: None,
        }
    }

    /// Adds a breaker, which stops calls when the backend does not answer.
    pub fn breaker(mut self, breaker: Breaker) -> Self {
        self.breaker = Some(breaker);
        self
    }

    /// Adds a token bucket, which limits the rate.
    pub fn bucket(mut self, bucket: TokenBucket) -> Self {
        self.bucket = Some(bucket);
        self
    }

    /// Adds a bulkhead, which limits the number of concurrent calls.
    pub fn bulkhead(mut self, bulkhead: Bulkhead) -> Self {
        self.bulkhead = Some(bulkhead);
        self
    }

    /// Sets how long a call may wait for a token of the bucket. Default: 100 ms.
    ///
    /// The call holds its slot of the bulkhead in the meantime.
    pub fn token_timeout(mut self, time: Duration) -> Self {
        self.token_timeout = Some(time);
        self
    }

    /// Sets how long a call must have run for its deadline to count as a failure of the backend.
    /// Default: 100 ms.
    pub fn fair_time(mut self, time: Duration) -> Self {
        self.fair_time = Some(time);
        self
    }

    /// Sets the clock for deadlines. Default: the system clock.
    ///
    /// The parts have their own clocks, which should be the same.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Builds the pipeline.
    ///
    /// # Errors
    ///
    /// [`InvalidSettings`], with the name of the setting that is empty or has no part to apply to.
    pub fn build(self) -> Result<ResiliencePipeline, InvalidSettings> {
        let name = self.name;
        if name.is_empty() {
            return Err(InvalidSettings::new("a pipeline's name is empty: it labels its metrics"));
        }
        let wrong = |what: &str| Err(InvalidSettings::new(format!("pipeline `{name}`: {what}")));
        if self.token_timeout.is_some() && self.bucket.is_none() {
            return wrong("token_timeout is set, but there is no bucket");
        }
        if self.fair_time.is_some() && self.breaker.is_none() {
            return wrong("fair_time is set, but there is no breaker");
        }
        Ok(ResiliencePipeline {
            parts: Arc::new(Parts {
                name,
                clock: self.clock,
                breaker: self.breaker,
                bucket: self.bucket,
                bulkhead: self.bulkhead,
                token_timeout: self.token_timeout.unwrap_or(DEFAULT_TOKEN_WAIT),
                fair_time: self.fair_time.unwrap_or(DEFAULT_FAIR_TIME),
            }),
        })
    }
}
