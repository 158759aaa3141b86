//! Entries that could not be handled: list, redrive or discard them.
//!
//! They are stored in a separate stream beside the original one, with their reason, attempts and
//! original id, and stay there until they are redriven or discarded.

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

/// Most entries of one listing.
const PAGE: usize = 1_000;
/// Number of fields before the entry's own fields.
const HEAD: usize = 4;

static REDRIVE: Script = Script::new(include_str!("script/redrive.lua"));

/// A dead letter: an entry that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Id of the dead letter.
    pub id: EntryId,
    /// Id that the entry had in its stream.
    pub original: EntryId,
    /// The group that gave it up.
    pub group: String,
    /// Why it was given up.
    pub reason: String,
    /// Number of attempts that count.
    ///
    /// Counted are attempts that ended without success, including the last one, and attempts that
    /// ended their process while no other handler ran. It is 0 if no handler was called, for
    /// example because the entry cannot be decoded. With
    /// [`max_attempts`](super::WorkerBuilder::max_attempts) `n` it is at most `n`.
    pub attempts: u64,
    /// The fields that were appended.
    pub fields: Fields,
}

/// Outcome of [`Stream::redrive`] for one dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Redriven {
    /// The entry is in its stream again, with this id; it keeps its reference.
    As(EntryId),
    /// There is no such dead letter, or no longer.
    NotFound,
}

impl<T> Stream<T> {
    /// Returns the dead letters after this one (or from the first), oldest first, at most a
    /// thousand.
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

    /// Returns the number of dead letters.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn dead_letter_count(&self) -> Result<u64> {
        self.client().query(&self.core.parked, cmd("XLEN").arg(&self.core.parked)).await
    }

    /// Decodes the payload of a dead letter.
    ///
    /// # Errors
    /// The text says why the payload cannot be decoded.
    pub fn read_dead_letter(&self, parked: &DeadLetter) -> Result<T, String> {
        self.core.decode(&parked.fields)
    }

    /// Appends dead letters to the stream again and removes them from the dead letters, each in one
    /// step.
    ///
    /// All groups of the stream receive them, with their old references.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). Safe to retry.
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

    /// Deletes dead letters and returns how many existed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send). Safe to retry.
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
