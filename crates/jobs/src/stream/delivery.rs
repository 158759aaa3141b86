//! The delivery that a handler receives, and the outcome that it returns.

use std::{fmt, sync::Arc, time::Duration};

use super::entry::{EntryId, Fields};

/// The field that holds the reference of an entry that was appended with one.
pub(super) const REFERENCE: &str = "seawall-ref";

/// One entry, delivered to a handler.
#[derive(Debug, Clone)]
pub struct Delivery<T> {
    pub(super) stream: Arc<str>,
    pub(super) id: EntryId,
    pub(super) reference: Option<String>,
    pub(super) attempt: u64,
    pub(super) payload: T,
}

impl<T> Delivery<T> {
    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// Consumes the delivery and returns the payload.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload
    }

    /// Returns the stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Returns the entry's id in the stream.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// Returns the 1-based number of this attempt.
    ///
    /// It is an upper bound: an entry whose worker died may never have reached a handler there.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// Returns the entry's reference, which stays the same through every delivery, even after the
    /// entry became a dead letter and was redriven.
    ///
    /// A handler that writes the reference under a unique key in its own transaction applies the
    /// entry once, even if the entry is delivered several times.
    #[must_use]
    pub fn reference(&self) -> String {
        match &self.reference {
            Some(own) => format!("{}:{own}", self.stream),
            None => format!("{}:{}", self.stream, self.id),
        }
    }
}

/// Returns the reference that an entry carries.
pub(super) fn reference(fields: &Fields) -> Option<String> {
    fields.get(REFERENCE).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Outcome of a delivery. A panic of the handler counts as [`Outcome::Failed`].
///
/// ```
/// use seawall::stream::Outcome;
///
/// // A handler can end with a `Result`.
/// let outcome = Outcome::from(Err::<(), _>("the card was refused"));
/// assert!(matches!(outcome, Outcome::Failed(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Committed: the entry is acknowledged.
    Done,
    /// Retry after this delay. It counts as an attempt.
    Retry(Duration),
    /// Retry after this delay, without counting an attempt: the cause is not the entry (the
    /// database is unavailable, for example).
    Postpone(Duration),
    /// Failed: retry after a delay that grows with the attempts. If this was the last attempt, the
    /// entry becomes a dead letter with this text as the reason.
    Failed(String),
    /// Can never succeed: the entry becomes a dead letter at once, with this reason.
    Park(String),
}

impl<E: fmt::Display> From<Result<(), E>> for Outcome {
    fn from(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        }
    }
}
