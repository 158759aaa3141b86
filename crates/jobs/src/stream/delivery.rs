//! The delivery that a handler receives.

use std::sync::Arc;

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
