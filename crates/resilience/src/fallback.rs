//! Fallback chain: fresh, else stale, else a fallback, else shed; the level is always reported.
//!
//! Each level runs only if no level above it answered, and its future is only created then. A level
//! returns `Ok(Some(value))` (an answer), `Ok(None)` (no answer) or `Err` (kept for the log). Each
//! level runs when its method is called, so nothing is boxed and the usual case, a fresh answer,
//! costs nothing.
//!
//! Invariant: every value is returned with its level. A degraded answer that looks like a good one
//! turns an outage into wrong data.
//!
//! Deliberately absent: time limits for levels. A level that can hang should run in a
//! [`ResiliencePipeline`](super::ResiliencePipeline), which has them.

use std::fmt;

/// The source of an answer, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FallbackLevel {
    /// The best available answer.
    Fresh,
    /// An answer that was correct once and may be outdated.
    Stale,
    /// A substitute: a default, an estimate, an empty list.
    Fallback,
}

impl FallbackLevel {
    /// Returns the name for labels and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            FallbackLevel::Fresh => "fresh",
            FallbackLevel::Stale => "stale",
            FallbackLevel::Fallback => "fallback",
        }
    }
}

/// A value and the level it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer<T, E> {
    /// The value.
    pub value: T,
    /// The level that returned it.
    pub level: FallbackLevel,
    /// Errors of the levels above, in order.
    pub errors: Vec<(FallbackLevel, E)>,
}

/// No level had an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exhausted<E> {
    /// Errors of the levels, in order; empty if the levels simply had no answer.
    pub errors: Vec<(FallbackLevel, E)>,
}

impl<E: fmt::Display> fmt::Display for Exhausted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer")?;
        for (index, (level, error)) in self.errors.iter().enumerate() {
            let lead = if index == 0 { ": " } else { "; " };
            write!(f, "{lead}{}: {error}", level.as_str())?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Exhausted<E> {}

/// Tries better answers before worse ones.
///
/// ```
/// use seawall_resilience::{FallbackChain, FallbackLevel};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let answer = FallbackChain::new("shop")
///     .fresh(|| async { Err("the database does not answer") })
///     .await
///     .stale(|| async { Ok(Some("the shop as of a minute ago")) })
///     .await
///     .fallback(|| async { Ok(Some("an empty page")) })
///     .await
///     .finish()
///     .unwrap();
/// assert_eq!(answer.level, FallbackLevel::Stale);
/// assert_eq!(answer.value, "the shop as of a minute ago");
/// assert_eq!(answer.errors, [(FallbackLevel::Fresh, "the database does not answer")]);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a fallback chain has its answer in `finish`"]
pub struct FallbackChain<T, E> {
    name: &'static str,
    answer: Option<(T, FallbackLevel)>,
    errors: Vec<(FallbackLevel, E)>,
}

impl<T, E> FallbackChain<T, E> {
    /// Creates a chain without levels. The name labels its metrics.
    pub fn new(name: &'static str) -> Self {
        Self { name, answer: None, errors: Vec::new() }
    }

    /// Tries the best answer.
    pub async fn fresh<F, Fut>(self, level: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        self.level(FallbackLevel::Fresh, level).await
    }

    /// Tries an answer that may be outdated.
    pub async fn stale<F, Fut>(self, level: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        self.level(FallbackLevel::Stale, level).await
    }

    /// Tries a substitute.
    pub async fn fallback<F, Fut>(self, level: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        self.level(FallbackLevel::Fallback, level).await
    }

    /// Returns the answer of the first level that had one.
    ///
    /// Without an answer the request should be shed.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] with the errors of all levels.
    pub fn finish(self) -> Result<Answer<T, E>, Exhausted<E>> {
        let Self { name, answer, errors } = self;
        let word = answer.as_ref().map_or("shed", |(_, level)| level.as_str());
        metrics::counter!("seawall_ladder_answers_total", "name" => name, "rung" => word)
            .increment(1);
        match answer {
            Some((value, level)) => Ok(Answer { value, level, errors }),
            None => Err(Exhausted { errors }),
        }
    }

    async fn level<F, Fut>(mut self, level: FallbackLevel, attempt: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        if self.answer.is_none() {
            match attempt().await {
                Ok(Some(value)) => self.answer = Some((value, level)),
                Ok(None) => {}
                Err(error) => self.errors.push((level, error)),
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    type Said = Result<Option<u8>, &'static str>;

    async fn climb(
        levels: [Said; 3],
    ) -> (Result<Answer<u8, &'static str>, Exhausted<&'static str>>, Vec<FallbackLevel>) {
        let tried = RefCell::new(Vec::new());
        let [fresh, stale, fallback] = levels;
        let tell = |level, said: Said| {
            let tried = &tried;
            move || {
                tried.borrow_mut().push(level);
                async move { said }
            }
        };
        let answer = FallbackChain::new("test")
            .fresh(tell(FallbackLevel::Fresh, fresh))
            .await
            .stale(tell(FallbackLevel::Stale, stale))
            .await
            .fallback(tell(FallbackLevel::Fallback, fallback))
            .await
            .finish();
        (answer, tried.into_inner())
    }

    #[tokio::test]
    async fn the_first_rung_that_answers_is_the_last_that_is_tried() {
        let (answer, tried) = climb([Ok(Some(1)), Ok(Some(2)), Ok(Some(3))]).await;
        assert_eq!(answer, Ok(Answer { value: 1, level: FallbackLevel::Fresh, errors: vec![] }));
        assert_eq!(tried, [FallbackLevel::Fresh]);

        let (answer, tried) = climb([Err("down"), Ok(Some(2)), Ok(Some(3))]).await;
        let errors = vec![(FallbackLevel::Fresh, "down")];
        assert_eq!(
            answer,
            Ok(Answer { value: 2, level: FallbackLevel::Stale, errors: errors.clone() })
        );
        assert_eq!(tried, [FallbackLevel::Fresh, FallbackLevel::Stale]);

        let (answer, tried) = climb([Err("down"), Ok(None), Ok(Some(3))]).await;
        assert_eq!(answer, Ok(Answer { value: 3, level: FallbackLevel::Fallback, errors }));
        assert_eq!(tried.len(), 3);
    }

    #[tokio::test]
    async fn without_an_answer_all_errors_are_told() {
        let (answer, _) = climb([Err("down"), Ok(None), Err("none")]).await;
        let exhausted = answer.unwrap_err();
        assert_eq!(exhausted.to_string(), "no answer: fresh: down; fallback: none");
        let (answer, _) = climb([Ok(None), Ok(None), Ok(None)]).await;
        assert_eq!(answer.unwrap_err().to_string(), "no answer");
    }

    #[tokio::test]
    async fn async_closures_are_rungs_too() {
        let text = String::from("borrowed");
        let answer: Answer<usize, &str> =
            FallbackChain::new("test").fresh(async || Ok(Some(text.len()))).await.finish().unwrap();
        assert_eq!(answer.value, 8);
    }
}
