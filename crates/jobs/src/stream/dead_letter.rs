//! Entries that could not be handled: listed, driven again, or thrown away.
//!
//! They lie in a stream of their own beside the first one, with their reason, attempts and original
//! id, and stay there until somebody decides.

use redis::{Value, cmd};
use seawall_client::{
    Script,
    error::{Error, Result},
};

use super::{
    delivery::REFERENCE,
    entry::{self, EntryId, Fields},
    producer::Stream,
};

/// Entries of one listing at most.
const PAGE: usize = 1_000;
/// Fields that stand before the entry's own.
const HEAD: usize = 4;

static REDRIVE: Script = Script::new(include_str!("script/redrive.lua"));

/// An entry that was parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// What it is called among the parked ones.
    pub id: EntryId,
    /// What it was called in its stream.
    pub original: EntryId,
    /// The group that parked it.
    pub group: String,
    /// Why.
    pub reason: String,
    /// How many attempts counted: those that ended without success, the last one included, and those that
    /// ended their process while nothing else was at work. 0 when no handler was begun, as for an entry
    /// that cannot be decoded. With [`max_attempts`](super::WorkerBuilder::max_attempts) `n` it is `n`
    /// at most.
    pub attempts: u64,
    /// What was appended.
    pub fields: Fields,
}

/// What became of a parked entry that was to be driven again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Redriven {
    /// It is in its stream again, under this id; it keeps its reference.
    As(EntryId),
    /// It is not among the parked ones, or not any more.
    NotFound,
}

impl<T> Stream<T> {
    /// Dead letters after this one (or from the first), the oldest first, a thousand at most.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn dead_letters(&self, after: Option<EntryId>) -> Result<Vec<DeadLetter>> {
        let mut range = cmd("XRANGE");
        range.arg(&self.core.parked);
        match after {
            Some(id) => range.arg(format!("({id}")),
            None => range.arg("-"),
        };
        range.arg("+").arg("COUNT").arg(PAGE);
        let listed = entry::entries(self.client().send(&self.core.parked, &range).await?)?;
        listed.into_iter().map(|entry| parse(entry.id, entry.fields.unwrap_or_default())).collect()
    }

    /// How many are parked.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn dead_letter_count(&self) -> Result<u64> {
        self.client().query(&self.core.parked, cmd("XLEN").arg(&self.core.parked)).await
    }

    /// What a parked entry says, if it can be understood.
    ///
    /// # Errors
    /// The text says why it cannot.
    pub fn read_dead_letter(&self, parked: &DeadLetter) -> Result<T, String> {
        self.core.decode(&parked.fields)
    }

    /// Appends parked entries to the stream again and takes them out of the parked ones, each in one
    /// step. All groups of the stream see them, under their old references.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); it can be repeated.
    pub async fn redrive(&self, ids: &[EntryId]) -> Result<Vec<Redriven>> {
        let mut outcomes = Vec::with_capacity(ids.len());
        for some in ids.chunks(PAGE) {
            let mut call = REDRIVE.on(&[&self.core.parked, &self.core.key]).arg(REFERENCE);
            for id in some {
                call = call.arg(*id);
            }
            let replies: Vec<Value> = self.client().eval(&call).await?;
            for reply in replies {
                outcomes.push(match reply {
                    Value::Nil => Redriven::NotFound,
                    id => Redriven::As(entry::id(id)?),
                });
            }
        }
        Ok(outcomes)
    }

    /// Throws parked entries away; returns how many there were.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); it can be repeated.
    pub async fn discard_dead_letters(&self, ids: &[EntryId]) -> Result<u64> {
        let mut gone = 0;
        for some in ids.chunks(PAGE) {
            let deleted: u64 = self
                .client()
                .query(&self.core.parked, cmd("XDEL").arg(&self.core.parked).arg(some))
                .await?;
            gone += deleted;
        }
        Ok(gone)
    }
}

fn parse(id: EntryId, fields: Fields) -> Result<DeadLetter> {
    let (head, fields) = fields.split_off(HEAD);
    let text = |name: &str| {
        head.get(name)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .ok_or_else(|| Error::unexpected(format!("the parked entry {id} has no `{name}`")))
    };
    Ok(DeadLetter {
        id,
        original: text("id")?.parse()?,
        group: text("group")?,
        reason: text("reason")?,
        attempts: text("attempts")?.parse().unwrap_or(0),
        fields,
    })
}
