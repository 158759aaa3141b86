//! Resilience pipeline: breaker, rate, concurrency and deadline around one call.
//!
//! The order matters. First the breaker is checked, so that no call queues for a dead backend; then
//! a slot is taken; then a token, which is thus never spent on a call that finds no slot; last the
//! breaker's permit, so that a probe never waits in one of these queues.
//!
//! Invariants: a [`Shed`] call was not started. A call that was started and did not end in time is
//! [`CallError::DeadlineExceeded`]: its future was dropped, and what it had sent may have been
//! executed. In every case, including a panic or a dropped future, slot and permit are given back.
//!
//! A deadline that passes counts against the backend only if the call had `fair_time` to succeed:
//! callers that arrive with no time left must not open the breaker for all others.

mod builder;
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc, time::Duration};

pub use self::builder::ResiliencePipelineBuilder;
use super::{Breaker, Bulkhead, Open, Outcome, Permit, Refusal, Slot, TokenBucket};
use crate::clock::{Clock, Moment};

/// The limit that rejected a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ShedReason {
    /// The breaker is open: the backend does not answer.
    Breaker,
    /// The rate limit is exhausted.
    Rate,
    /// Too many concurrent calls.
    Concurrency,
    /// The deadline had already passed when the call arrived. If it passes while the call waits,
    /// the reason is the limit it waited for.
    Deadline,
}

impl ShedReason {
    /// Returns the name for labels and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ShedReason::Breaker => "breaker",
            ShedReason::Rate => "rate",
            ShedReason::Concurrency => "concurrency",
            ShedReason::Deadline => "deadline",
        }
    }
}

/// The call was rejected before it started; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("shed by the {} limit, try again in {retry_after:?}", .reason.as_str())]
pub struct Shed {
    /// The limit that rejected it.
    pub reason: ShedReason,
    /// When a retry may succeed.
    pub retry_after: Duration,
}

/// Why a call has no answer.
///
/// Exhaustive: a call is not started, does not end, or fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError<E> {
    /// The call was not started.
    #[error(transparent)]
    Shed(Shed),
    /// The call was started and did not end in time; it may have been executed.
    #[error("no answer within {ran:?}, by the deadline")]
    DeadlineExceeded {
        /// How long the call ran.
        ran: Duration,
    },
    /// The call itself failed.
    #[error("the call failed")]
    Failed(#[source] E),
}

impl<E> CallError<E> {
    /// Returns the [`Shed`] if the call was not started.
    #[must_use]
    pub fn shed(&self) -> Option<Shed> {
        match self {
            CallError::Shed(shed) => Some(*shed),
            CallError::DeadlineExceeded { .. } | CallError::Failed(_) => None,
        }
    }
}

/// Runs calls to a backend within its limits. Cheap to clone; clones share the limits.
///
/// ```
/// use std::time::Duration;
/// use seawall_resilience::{Breaker, Bulkhead, CallError, ResiliencePipeline, Rate, TokenBucket};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pipeline = ResiliencePipeline::builder("stock database")
///     .breaker(Breaker::new("stock database"))
///     .bucket(TokenBucket::builder("stock database", Rate::per_second(200)).build()?)
///     .bulkhead(Bulkhead::builder("stock database", 16).build()?)
///     .build()?;
/// let stock = pipeline
///     .within(Duration::from_secs(1), || async { Ok::<u32, std::io::Error>(7) })
///     .await;
/// match stock {
///     Ok(left) => assert_eq!(left, 7),
///     Err(CallError::Shed(shed)) => println!("come back in {:?}", shed.retry_after),
///     Err(error) => println!("{error}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ResiliencePipeline {
    parts: Arc<Parts>,
}

struct Parts {
    name: Arc<str>,
    clock: Clock,
    breaker: Option<Breaker>,
    bucket: Option<TokenBucket>,
    bulkhead: Option<Bulkhead>,
    token_timeout: Duration,
    fair_time: Duration,
}

/// What a call holds while it runs.
struct Admitted {
    /// Declared before the slot, so that its outcome is known before the next call enters.
    permit: Option<Permit>,
    _slot: Option<Slot>,
}

impl ResiliencePipeline {
    /// Returns a builder for a pipeline, which has no limits at first. The name labels its metrics.
    pub fn builder(name: impl Into<Arc<str>>) -> ResiliencePipelineBuilder {
        ResiliencePipelineBuilder::new(name.into())
    }

    /// Runs `work` within the limits, until `deadline` at most.
    ///
    /// Every error of the work counts against the backend; use [`call_judged`](Self::call_judged)
    /// where that is not correct.
    ///
    /// # Errors
    ///
    /// [`CallError`], which tells whether the call was started at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, gives back what was held and counts nothing.
    pub async fn call<T, E, F, Fut>(&self, deadline: Moment, work: F) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let judge = |result: &Result<T, E>| match result {
            Ok(_) => Outcome::Ok,
            Err(_) => Outcome::Failed,
        };
        self.call_judged(deadline, judge, work).await
    }

    /// Like [`call`](Self::call), with a duration from now instead of a deadline.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn within<T, E, F, Fut>(&self, time: Duration, work: F) -> Result<T, CallError<E>>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.call(self.parts.clock.now() + time, work).await
    }

    /// Like [`call`](Self::call), but `judge` decides what a result means for the backend, so that
    /// a bug of the caller does not open the breaker.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn call_judged<T, E, J, F, Fut>(
        &self,
        deadline: Moment,
        judge: J,
        work: F,
    ) -> Result<T, CallError<E>>
    where
        J: FnOnce(&Result<T, E>) -> Outcome,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let mut admitted = self.admit(deadline).await.map_err(CallError::Shed)?;
        let began = self.parts.clock.now();
        let result = tokio::select! {
            biased;
            result = work() => Some(result),
            () = self.parts.clock.sleep_until(deadline) => None,
        };
        let Some(result) = result else {
            let ran = self.parts.clock.now().since(began);
            let fair = ran >= self.parts.fair_time;
            admitted.record(if fair { Outcome::Failed } else { Outcome::Ignored });
            return Err(CallError::DeadlineExceeded { ran });
        };
        admitted.record(judge(&result));
        result.map_err(CallError::Failed)
    }

    /// Returns the clock used for deadlines.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.parts.clock
    }

    /// Returns the breaker, if there is one.
    #[must_use]
    pub fn breaker(&self) -> Option<&Breaker> {
        self.parts.breaker.as_ref()
    }

    /// Returns the token bucket, if there is one; use it to change the rate at run time.
    #[must_use]
    pub fn bucket(&self) -> Option<&TokenBucket> {
        self.parts.bucket.as_ref()
    }

    /// Returns the bulkhead, if there is one.
    #[must_use]
    pub fn bulkhead(&self) -> Option<&Bulkhead> {
        self.parts.bulkhead.as_ref()
    }

    async fn admit(&self, deadline: Moment) -> Result<Admitted, Shed> {
        self.pass_limits(deadline).await.inspect_err(|shed| {
            metrics::counter!(
                "seawall_governor_shed_total",
                "name" => Arc::clone(&self.parts.name),
                "reason" => shed.reason.as_str()
            )
            .increment(1);
        })
    }

    async fn pass_limits(&self, deadline: Moment) -> Result<Admitted, Shed> {
        let Parts { clock, breaker, bucket, bulkhead, token_timeout, .. } = &*self.parts;
        if clock.now() >= deadline {
            return Err(shed(ShedReason::Deadline, Duration::ZERO));
        }
        let open = |open: Open| shed(ShedReason::Breaker, open.retry_after);
        if let Some(breaker) = breaker {
            breaker.check().map_err(open)?;
        }
        let mut slot = match bulkhead {
            None => None,
            Some(bulkhead) => Some(
                bulkhead
                    .enter(deadline)
                    .await
                    .map_err(|_| shed(ShedReason::Concurrency, bulkhead.retry_after()))?,
            ),
        };
        if let Some(bucket) = bucket {
            slot.iter_mut().for_each(Slot::pause);
            let until = deadline.min(clock.now() + *token_timeout);
            bucket.take(1, until).await.map_err(|refusal| {
                let retry_after = match refusal {
                    Refusal::RetryAfter(time) => time,
                    // One token always fits: a bucket with a burst of zero cannot be built.
                    Refusal::TooMany { .. } => Duration::ZERO,
                };
                shed(ShedReason::Rate, retry_after)
            })?;
            slot.iter_mut().for_each(Slot::begin);
        }
        let permit = match breaker {
            None => None,
            Some(breaker) => Some(breaker.enter().map_err(open)?),
        };
        Ok(Admitted { permit, _slot: slot })
    }
}

fn shed(reason: ShedReason, retry_after: Duration) -> Shed {
    Shed { reason, retry_after }
}

impl Admitted {
    fn record(&mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            permit.record(outcome);
        }
    }
}

impl fmt::Debug for ResiliencePipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResiliencePipeline")
            .field("name", &self.parts.name)
            .field("breaker", &self.parts.breaker)
            .field("bucket", &self.parts.bucket)
            .field("bulkhead", &self.parts.bulkhead)
            .finish_non_exhaustive()
    }
}
