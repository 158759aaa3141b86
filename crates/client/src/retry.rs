//! Retries for idempotent operations that never lose an indeterminate outcome.
//!
//! A command whose reply was lost may have been executed. If it is sent again, the second attempt
//! may fail with "nothing was sent" or with a refusal. That is true of the second attempt and says
//! nothing about the first. Reporting only the second error would tell the caller that nothing
//! happened, and the caller would act on it. Invariant: once [`Error::Indeterminate`], always
//! [`Error::Indeterminate`], until a reply arrives.

use crate::error::{Error, Result};

/// Remembers whether an earlier attempt may have been executed.
#[derive(Debug, Default)]
pub struct Doubt(Option<Error>);

impl Doubt {
    /// Records a failed attempt.
    pub fn note(&mut self, error: &Error) {
        if self.0.is_none() && error.is_indeterminate() {
            self.0 = Some(error.clone());
        }
    }

    /// Returns `true` if an earlier attempt may have been executed.
    pub fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// Combines the last error with the earlier attempts into the error to report.
    pub fn report(self, last: Error) -> Error {
        match (self.0, last) {
            // A mistake of the caller, or a reply that was not understood, which is still a reply.
            (
                _,
                last @ (Error::Invalid(_) | Error::Unexpected(_) | Error::Indeterminate { .. }),
            )
            | (None, last) => last,
            (Some(Error::Indeterminate { waited, cause }), last) => {
                Error::Indeterminate { waited, cause: format!("{cause}; then: {last}").into() }
            }
            (Some(first), _) => first,
        }
    }
}

/// Calls `ask` up to `attempts` times while replies are lost.
///
/// Only for operations that may be executed twice.
pub async fn again<T, F: Future<Output = Result<T>>>(
    attempts: usize,
    ask: impl Fn() -> F,
) -> Result<T> {
    again_in_doubt(attempts, ask).await.map(|(reply, _)| reply)
}

/// Like [`again`], and also returns what is unknown about earlier attempts: a request whose reply was
/// lost may still be in flight, and be executed after the one that was answered. A refusal says nothing
/// about it.
pub async fn again_in_doubt<T, F: Future<Output = Result<T>>>(
    attempts: usize,
    ask: impl Fn() -> F,
) -> Result<(T, Doubt)> {
    let mut doubt = Doubt::default();
    let mut attempt = 1;
    loop {
        match ask().await {
            Err(error) if error.is_indeterminate() && attempt < attempts => {
                doubt.note(&error);
                attempt += 1;
            }
            Err(error) => return Err(doubt.report(error)),
            Ok(reply) => return Ok((reply, doubt)),
        }
    }
}

/// Converts the error of a step that followed an executed step: "nothing was sent" becomes
/// indeterminate, because the state has already changed.
pub fn midway(error: Error) -> Error {
    match error {
        Error::Unavailable(cause) => {
            Error::Indeterminate { waited: std::time::Duration::ZERO, cause }
        }
        error => error,
    }
}

/// Combines the outcomes of steps that ran concurrently: all replies, or one error for all of them.
///
/// If any step was executed or may have been, the error does not claim that nothing was sent.
pub fn together<T>(outcomes: Vec<Result<T>>) -> Result<Vec<T>> {
    let mut doubt = Doubt::default();
    let (mut done, mut failed) = (Vec::with_capacity(outcomes.len()), None);
    for outcome in outcomes {
        match outcome {
            Ok(reply) => done.push(reply),
            Err(error) => {
                doubt.note(&error);
                failed.get_or_insert(error);
            }
        }
    }
    match failed {
        None => Ok(done),
        Some(error) if done.is_empty() => Err(doubt.report(error)),
        Some(error) => Err(doubt.report(midway(error))),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, time::Duration};

    use super::*;

    fn unknown() -> Error {
        Error::Indeterminate { waited: Duration::from_secs(1), cause: "lost".into() }
    }

    async fn tried(script: Vec<Result<u8>>) -> (Result<u8>, usize) {
        let script = RefCell::new(script.into_iter());
        let outcome = again(3, || {
            let next = script.borrow_mut().next();
            async move { next.expect("not asked more often") }
        });
        let outcome = outcome.await;
        let left = script.borrow().len();
        (outcome, left)
    }

    #[test]
    fn a_step_that_was_not_sent_does_not_hide_one_that_may_have_been() {
        let away = || Error::Unavailable("refused".into());
        let outcome = together::<u8>(vec![Err(away()), Err(unknown())]);
        assert!(outcome.as_ref().is_err_and(Error::is_indeterminate), "{outcome:?}");
        let outcome = together(vec![Ok(7), Err(away())]);
        assert!(outcome.as_ref().is_err_and(Error::is_indeterminate), "{outcome:?}");
        let outcome = together::<u8>(vec![Err(away()), Err(away())]);
        assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
        assert_eq!(together(vec![Ok(1), Ok(2)]).ok(), Some(vec![1, 2]));
    }

    #[tokio::test]
    async fn what_is_unknown_once_stays_unknown_until_a_reply_comes() {
        let away = || Error::Unavailable("refused".into());
        let full = || Error::Refused { code: "OOM".into(), message: "".into() };
        let is_unknown =
            |outcome: &Result<u8>| outcome.as_ref().is_err_and(Error::is_indeterminate);
        for last in [away(), full(), Error::Closed, unknown()] {
            let (outcome, _) = tried(
                vec![Err(unknown()), Err(last)].into_iter().chain([Err(unknown())]).collect(),
            )
            .await;
            assert!(is_unknown(&outcome), "{outcome:?}");
        }
        let (outcome, _) = tried(vec![Err(unknown()), Err(unknown()), Ok(7)]).await;
        assert_eq!(outcome.ok(), Some(7));
        let (outcome, left) = tried(vec![Err(away()), Ok(7)]).await;
        assert!(matches!(outcome, Err(Error::Unavailable(_))) && left == 1, "{outcome:?}");
    }
}
