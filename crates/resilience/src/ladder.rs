//! The ladder: fresh, else stale, else a fallback, else shed, and always said which.
//!
//! Each rung is tried only if none above it answered, and its future is only made then. A rung says
//! `Ok(Some(value))` (here it is), `Ok(None)` (nothing here) or `Err` (kept, for the log). Rungs are
//! run as they are named, so nothing is boxed and the usual case, a fresh answer, costs nothing.
//!
//! Invariant: every value comes with the rung it came from. A degraded answer that looks like a
//! good one is how an outage becomes wrong data.
//!
//! Deliberately absent: time limits of rungs. A rung that can hang runs in a
//! [`Governor`](super::Governor), which has them.

use std::fmt;

/// Where an answer came from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rung {
    /// The best there is.
    Fresh,
    /// Right once, and perhaps no longer.
    Stale,
    /// Something else that will do: a default, an estimate, an empty list.
    Fallback,
}

impl Rung {
    /// A word for labels and logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Rung::Fresh => "fresh",
            Rung::Stale => "stale",
            Rung::Fallback => "fallback",
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer<T, E> {
    /// The value.
    pub value: T,
    /// The rung that gave it.
    pub rung: Rung,
    /// What went wrong on the rungs above, in order.
    pub errors: Vec<(Rung, E)>,
}

/// No rung had an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exhausted<E> {
    /// What went wrong, in order; empty when the rungs simply had nothing.
    pub errors: Vec<(Rung, E)>,
}

impl<E: fmt::Display> fmt::Display for Exhausted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer")?;
        for (index, (rung, error)) in self.errors.iter().enumerate() {
            let lead = if index == 0 { ": " } else { "; " };
            write!(f, "{lead}{}: {error}", rung.as_str())?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for Exhausted<E> {}

/// Tries better answers before worse ones.
///
/// ```
/// use seawall_resilience::{Ladder, Rung};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let answer = Ladder::new("shop")
///     .fresh(|| async { Err("the database does not answer") })
///     .await
///     .stale(|| async { Ok(Some("the shop as of a minute ago")) })
///     .await
///     .fallback(|| async { Ok(Some("an empty page")) })
///     .await
///     .finish()
///     .unwrap();
/// assert_eq!(answer.rung, Rung::Stale);
/// assert_eq!(answer.value, "the shop as of a minute ago");
/// assert_eq!(answer.errors, [(Rung::Fresh, "the database does not answer")]);
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a ladder has its answer in `finish`"]
pub struct Ladder<T, E> {
    name: &'static str,
    answer: Option<(T, Rung)>,
    errors: Vec<(Rung, E)>,
}

impl<T, E> Ladder<T, E> {
    /// A ladder without rungs. The name is the label of its metrics.
    pub fn new(name: &'static str) -> Self {
        Self { name, answer: None, errors: Vec::new() }
    }

    /// The best answer.
    pub async fn fresh<F, Fut>(self, rung: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        self.rung(Rung::Fresh, rung).await
    }

    /// An answer that was right once.
    pub async fn stale<F, Fut>(self, rung: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        self.rung(Rung::Stale, rung).await
    }

    /// Something else that will do.
    pub async fn fallback<F, Fut>(self, rung: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        self.rung(Rung::Fallback, rung).await
    }

    /// The answer, or that there is none: then shed.
    ///
    /// # Errors
    ///
    /// [`Exhausted`] with the errors of all rungs.
    pub fn finish(self) -> Result<Answer<T, E>, Exhausted<E>> {
        let Self { name, answer, errors } = self;
        let word = answer.as_ref().map_or("shed", |(_, rung)| rung.as_str());
        metrics::counter!("seawall_ladder_answers_total", "name" => name, "rung" => word)
            .increment(1);
        match answer {
            Some((value, rung)) => Ok(Answer { value, rung, errors }),
            None => Err(Exhausted { errors }),
        }
    }

    async fn rung<F, Fut>(mut self, rung: Rung, attempt: F) -> Self
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<Option<T>, E>>,
    {
        if self.answer.is_none() {
            match attempt().await {
                Ok(Some(value)) => self.answer = Some((value, rung)),
                Ok(None) => {}
                Err(error) => self.errors.push((rung, error)),
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
        rungs: [Said; 3],
    ) -> (Result<Answer<u8, &'static str>, Exhausted<&'static str>>, Vec<Rung>) {
        let tried = RefCell::new(Vec::new());
        let [fresh, stale, fallback] = rungs;
        let tell = |rung, said: Said| {
            let tried = &tried;
            move || {
                tried.borrow_mut().push(rung);
                async move { said }
            }
        };
        let answer = Ladder::new("test")
            .fresh(tell(Rung::Fresh, fresh))
            .await
            .stale(tell(Rung::Stale, stale))
            .await
            .fallback(tell(Rung::Fallback, fallback))
            .await
            .finish();
        (answer, tried.into_inner())
    }

    #[tokio::test]
    async fn the_first_rung_that_answers_is_the_last_that_is_tried() {
        let (answer, tried) = climb([Ok(Some(1)), Ok(Some(2)), Ok(Some(3))]).await;
        assert_eq!(answer, Ok(Answer { value: 1, rung: Rung::Fresh, errors: vec![] }));
        assert_eq!(tried, [Rung::Fresh]);

        let (answer, tried) = climb([Err("down"), Ok(Some(2)), Ok(Some(3))]).await;
        let errors = vec![(Rung::Fresh, "down")];
        assert_eq!(answer, Ok(Answer { value: 2, rung: Rung::Stale, errors: errors.clone() }));
        assert_eq!(tried, [Rung::Fresh, Rung::Stale]);

        let (answer, tried) = climb([Err("down"), Ok(None), Ok(Some(3))]).await;
        assert_eq!(answer, Ok(Answer { value: 3, rung: Rung::Fallback, errors }));
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
            Ladder::new("test").fresh(async || Ok(Some(text.len()))).await.finish().unwrap();
        assert_eq!(answer.value, 8);
    }
}
