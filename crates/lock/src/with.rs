//! Runs a body under a lock: [`Lock::with`] for a body that cannot fail, [`Lock::try_with`] for one that
//! returns a `Result`.
//!
//! Both acquire the lock, cancel the body if the lock is lost, and release the lock whatever happens. They
//! differ in how they answer: `with` returns an outcome, `try_with` one flat `Result`, so that `?` works.

use std::time::Duration;

use seawall_client::error::{Error, Result};

use super::{
    acquire::AcquireOutcome,
    guard::{Guard, Release},
    mutex::Lock,
};

/// Outcome of [`Lock::with`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the body may not have run"]
pub enum With<T> {
    /// The body completed and the lock was held throughout.
    Done(T),
    /// The lock was lost. The body was cancelled at an await point (`None`), or had just completed
    /// with this result.
    Lost(Option<T>),
    /// Another owner held the lock for the whole waiting time.
    Busy,
}

/// Why [`Lock::try_with`] has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WithError<E> {
    /// The body failed. The lock was held throughout.
    #[error("{0}")]
    Body(#[source] E),
    /// The body did not run: another owner held the lock for the whole waiting time.
    #[error("the lock is busy")]
    Busy,
    /// The lock was lost while the body ran. The body was cancelled at an await point, or completed too
    /// late to be trusted: another owner may hold the lock. A result or an error of the body is dropped; use
    /// [`Lock::with`] to see it.
    #[error("the lock was lost while the body ran")]
    Lost,
    /// The body did not run: the lock could not be acquired.
    #[error("the lock cannot be acquired: {0}")]
    NotRun(#[source] Error),
}

impl Lock {
    /// Runs `body` under the lock.
    ///
    /// Waits at most `within` for it, cancels the body if the lock is lost, and always gives the
    /// lock back. This is the recommended way to use a lock. If the body returns a `Result`, use
    /// [`Lock::try_with`].
    ///
    /// # Errors
    /// As [`Lock::acquire`]. If the body completed but the lock could not be given back, the
    /// outcome is still [`With::Done`]: the release continues in the background, and the lock is
    /// free when the lease ends at the latest.
    ///
    /// # Cancel safety
    /// If the future is dropped, the body is dropped too and the lock is given back.
    pub async fn with<T, F>(
        &self,
        within: Duration,
        body: impl FnOnce(Guard) -> F,
    ) -> Result<With<T>>
    where
        F: Future<Output = T>,
    {
        let AcquireOutcome::Acquired(guard) = self.acquire(within).await? else {
            return Ok(With::Busy);
        };
        let value = tokio::select! {
            biased;
            () = guard.lost() => return Ok(With::Lost(None)),
            value = body(guard.reenter()) => value,
        };
        let was_lost = guard.is_lost();
        match guard.release().await {
            // The body may have kept its guard; the lock then stays held.
            Ok(Release::Released | Release::StillHeld) => Ok(With::Done(value)),
            Err(_) if !was_lost => Ok(With::Done(value)),
            Ok(Release::AlreadyLost) | Err(_) => Ok(With::Lost(Some(value))),
        }
    }

    /// Like [`Lock::with`], for a body that returns a `Result`: one flat `Result` instead of a nested one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::{io, time::Duration};
    /// use seawall::Seawall;
    ///
    /// async fn pay(order: u64, token: u64) -> io::Result<String> {
    ///     Ok(format!("order {order} paid under token {token}"))
    /// }
    ///
    /// let seawall = Seawall::connect("embedded:").await?;
    /// let receipt = seawall
    ///     .lock(("order", 42))
    ///     .try_with(Duration::from_secs(1), |guard| pay(42, guard.token().sequence))
    ///     .await?;
    /// assert_eq!(receipt, "order 42 paid under token 1");
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`WithError`]: the body's own error, or why the body did not run to its end under the lock.
    ///
    /// # Cancel safety
    /// If the future is dropped, the body is dropped too and the lock is given back.
    pub async fn try_with<T, E, F>(
        &self,
        within: Duration,
        body: impl FnOnce(Guard) -> F,
    ) -> std::result::Result<T, WithError<E>>
    where
        F: Future<Output = std::result::Result<T, E>>,
    {
        match self.with(within, body).await {
            Ok(With::Done(result)) => result.map_err(WithError::Body),
            Ok(With::Lost(_)) => Err(WithError::Lost),
            Ok(With::Busy) => Err(WithError::Busy),
            Err(error) => Err(WithError::NotRun(error)),
        }
    }
}
