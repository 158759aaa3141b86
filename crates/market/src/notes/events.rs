//! What happened to notes, as a stream: others follow it in their own time.
//!
//! An event is appended after the database has committed. If that fails, because Redis is away or
//! the process ends in between, the feed's sweep finds the note in the database and appends it later;
//! the reference makes sure that it is there once.

use seawall::{
    Seawall,
    stream::{Appended, Stream},
};
use serde::{Deserialize, Serialize};

use crate::error::Result;

/// The stream's name.
pub(crate) const STREAM: &str = "notes";

/// Something that readers of feeds and pages should learn of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Event {
    /// A note was published.
    Posted {
        /// Its id.
        note: u64,
        /// Who wrote it.
        author: u64,
        /// When, in milliseconds.
        time: i64,
    },
    /// A note is gone.
    Deleted {
        /// Its id.
        note: u64,
        /// Who wrote it.
        author: u64,
        /// When it was published, in milliseconds.
        time: i64,
    },
    /// An author has fewer fans again than those whose notes are pulled: the newest go to the fans.
    Backfill {
        /// Who.
        author: u64,
        /// When this was found, in milliseconds.
        time: i64,
    },
}

/// Where events are appended.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    pub(crate) stream: Stream<Event>,
}

impl Events {
    pub(crate) fn new(seawall: &Seawall) -> Result<Self> {
        Ok(Events { stream: seawall.stream(STREAM)? })
    }

    /// Appends an event, once however often it is repeated within a day.
    pub(crate) async fn append(&self, event: Event) -> Result<Appended> {
        let reference = match event {
            Event::Posted { note, .. } => ("posted", note, 0),
            Event::Deleted { note, .. } => ("deleted", note, 0),
            Event::Backfill { author, time } => ("backfill", author, time),
        };
        Ok(self.stream.append_once(&reference, &event).await?)
    }
}
