//! Events of notes, as a stream: consumers follow it at their own pace.
//!
//! An event is appended after the database has committed. If that fails, because Redis is away or
//! the process ends in between, the feed's sweep finds the note in the database and appends the
//! event later; the reference makes it appear once.

use seawall::{
    Seawall,
    stream::{Appended, Stream},
};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// Name of the stream.
pub(crate) const STREAM: &str = "notes";

/// An event for readers of feeds and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Event {
    /// A note was published.
    Posted {
        /// Id of the note.
        note: u64,
        /// Author.
        author: u64,
        /// Time of publication, in milliseconds.
        time: i64,
    },
    /// A note was deleted.
    Deleted {
        /// Id of the note.
        note: u64,
        /// Author.
        author: u64,
        /// Time of publication, in milliseconds.
        time: i64,
    },
    /// An author fell below the number of followers from which notes are pulled: the followers'
    /// inboxes must be rebuilt.
    Backfill {
        /// Author.
        author: u64,
        /// Time of the event, in milliseconds.
        time: i64,
    },
}

/// Appends events.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    pub(crate) stream: Stream<Event>,
}

impl Events {
    pub(crate) fn new(seawall: &Seawall) -> Result<Self> {
        Ok(Events { stream: seawall.stream(STREAM)? })
    }

    /// Appends an event, once even if repeated within a day.
    pub(crate) async fn append(&self, event: Event) -> Result<Appended> {
        let reference = match event {
            Event::Posted { note, .. } => ("posted", note, 0),
            Event::Deleted { note, .. } => ("deleted", note, 0),
            Event::Backfill { author, time } => ("backfill", author, time),
        };
        Ok(self.stream.append_once(&reference, &event).await?)
    }
}
