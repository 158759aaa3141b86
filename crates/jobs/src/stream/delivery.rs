//! What a handler is given, and what it answers.

use std::{fmt, sync::Arc, time::Duration};

use super::entry::{EntryId, Fields};

/// The field that holds the reference of an entry that has one of its own.
pub(super) const REFERENCE: &str = "seawall-ref";

/// One entry in a handler's hands.
#[derive(Debug, Clone)]
pub struct Delivery<T> {
    pub(super) stream: Arc<str>,
    pub(super) id: EntryId,
    pub(super) reference: Option<String>,
    pub(super) attempt: u64,
    pub(super) payload: T,
}

impl<T> Delivery<T> {
    /// What was appended.
    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// What was appended, to keep.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload
    }

    /// The stream's name.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The entry's id in the stream.
    #[must_use]
    pub fn id(&self) -> EntryId {
        self.id
    }

    /// How often it was begun, this time included; 1 the first time. An upper bound: an entry whose
    /// worker died may not have been begun there.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// What names this entry through every delivery, also after it was parked and driven again: a
    /// handler that writes it under a unique key in its own transaction applies the entry once,
    /// however often it is delivered.
    #[must_use]
    pub fn reference(&self) -> String {
        match &self.reference {
            Some(own) => format!("{}:{own}", self.stream),
            None => format!("{}:{}", self.stream, self.id),
        }
    }
}

/// The reference that an entry carries.
pub(super) fn reference(fields: &Fields) -> Option<String> {
    fields.get(REFERENCE).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// What became of a delivery. A panic of the handler is [`Outcome::Failed`].
///
/// ```
/// use seawall::stream::Outcome;
///
/// // What returns a result can be a handler's last line.
/// let outcome = Outcome::from(Err::<(), _>("the card was refused"));
/// assert!(matches!(outcome, Outcome::Failed(_)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Committed: it is acknowledged.
    Done,
    /// Not yet: again after this time. It counts as an attempt.
    Retry(Duration),
    /// Not yet, and that is not the entry's fault (the database is away): again after this time,
    /// without counting.
    Postpone(Duration),
    /// It failed: again after a pause that grows with the attempts. The text is the reason that the
    /// parked entry carries if this was the last attempt.
    Failed(String),
    /// It can never succeed: parked at once, with this reason.
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
