//! What becomes of a hold: sold, released, taken back. Decided at its home, then told to its parts.
//!
//! A part that cannot be told stays held, asks its home when it is due ([`super::levels`]) and then
//! does what was decided. So the caller may rely on the home's answer alone.
//!
//! A part that answers, and is not there although it is being sold, was lost: a fail-over forgot it.
//! Other units of its shard take its place; where there are none, the sale is taken back at once, for
//! more must not be sold than there is.

use futures_util::future::join_all;

use super::{
    inventory::{Inner, Inventory},
    record::{Part, Record, Standing},
    reference::Reference,
};
use crate::{
    error::{Error, Result},
    link::Script,
};

static DECIDE: Script =
    Script::new(concat!(include_str!("script/shard.lua"), include_str!("script/decide.lua")));
static SETTLE: Script =
    Script::new(concat!(include_str!("script/shard.lua"), include_str!("script/settle.lua")));

/// What a decision about a hold came to.
#[must_use = "whoever does not look does not know what became of the units"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// This call did it.
    Now {
        /// With so many units.
        units: u64,
    },
    /// It was done before.
    Before {
        /// With so many units.
        units: u64,
    },
    /// It cannot be done: the reference stands elsewhere. A release of something
    /// [`Standing::Unknown`] is noted: a hold that arrives later finds it released.
    Not(Standing),
    /// The home cannot be reached, and nothing was moved; may be repeated.
    Unavailable,
}

/// What parts are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This call has just sold them: none of them can be forgotten yet.
    SoldNow,
    /// They were sold some time ago.
    Sold,
    /// They go back.
    Back,
}

impl Verdict {
    fn letter(self) -> &'static str {
        match self {
            Verdict::SoldNow | Verdict::Sold => "S",
            Verdict::Back => "R",
        }
    }
}

impl Inventory {
    /// Sells what is held under a reference.
    ///
    /// # Errors
    /// [`Error::Indeterminate`]: it may be sold; repeat. Else as [`Link::send`](crate::Link::send).
    pub async fn sell(&self, reference: &Reference) -> Result<Settled> {
        self.inner.settle_at_home(reference, "S", Standing::Sold).await
    }

    /// Lets go what is held under a reference: it is for sale again.
    ///
    /// # Errors
    /// As [`Inventory::sell`].
    pub async fn release(&self, reference: &Reference) -> Result<Settled> {
        self.inner.settle_at_home(reference, "R", Standing::Released).await
    }

    /// Takes back what was sold under a reference, as when goods are returned: it is for sale again.
    ///
    /// # Errors
    /// As [`Inventory::sell`].
    pub async fn take_back(&self, reference: &Reference) -> Result<Settled> {
        self.inner.settle_at_home(reference, "B", Standing::TakenBack).await
    }

    /// Where a reference stands, and with how many units.
    ///
    /// # Errors
    /// As [`Link::send`](crate::Link::send); [`Error::Unavailable`] when its home cannot be reached.
    pub async fn standing(&self, reference: &Reference) -> Result<(Standing, u64)> {
        let home = reference.home(self.shards());
        let record = self.inner.decide(home, reference, "?", 0).await?;
        Ok(record.map_or((Standing::Unknown, 0), |(_, record)| (record.standing, record.total())))
    }
}

impl Inner {
    async fn settle_at_home(
        &self,
        reference: &Reference,
        to: &'static str,
        wanted: Standing,
    ) -> Result<Settled> {
        let home = reference.home(self.shards.len());
        let (word, record) = match self.decide(home, reference, to, 0).await {
            Err(Error::Unavailable(_)) => return Ok(Settled::Unavailable),
            Err(error) => return Err(error),
            Ok(None) => return Ok(Settled::Not(Standing::Unknown)),
            Ok(Some(decided)) => decided,
        };
        if record.standing != wanted {
            return Ok(Settled::Not(record.standing));
        }
        let verdict = match (to, word.as_str()) {
            ("S", "DONE") => Verdict::SoldNow,
            ("S", _) => Verdict::Sold,
            _ => Verdict::Back,
        };
        if let Some(over) = self.settle_sale(reference, &record, verdict).await? {
            return Ok(Settled::Not(over));
        }
        let units = record.total();
        Ok(if word == "DONE" { Settled::Now { units } } else { Settled::Before { units } })
    }

    /// Decides at the home; the record as it is then, and whether it was this call.
    pub(super) async fn decide(
        &self,
        home: usize,
        reference: &Reference,
        to: &'static str,
        attempt: u64,
    ) -> Result<Option<(String, Record)>> {
        let words = self
            .call(home, &DECIDE, |call| call.arg(reference.as_str()).arg(to).arg(attempt))
            .await?;
        match words.as_slice() {
            [none] if none == "NONE" => Ok(None),
            [word, record @ ..] => Ok(Some((word.clone(), Record::from_answer(record)?))),
            [] => Err(Error::unexpected("a shard answered nothing")),
        }
    }

    /// Tells the parts of a record; where it has become of it something else, what that is: a sale
    /// that has just been made and whose parts are not there any more is taken back.
    pub(super) async fn settle_sale(
        &self,
        reference: &Reference,
        record: &Record,
        verdict: Verdict,
    ) -> Result<Option<Standing>> {
        let missing = self.settle(reference, record.attempt, &record.parts, verdict).await;
        if missing == 0 || verdict != Verdict::SoldNow {
            return Ok(None);
        }
        tracing::warn!(sku = %self.name, %reference, missing, "parts were lost: a sale is taken back");
        let home = reference.home(self.shards.len());
        let back = self.decide(home, reference, "B", 0).await?;
        self.settle(reference, record.attempt, &record.parts, Verdict::Back).await;
        Ok(Some(back.map_or(Standing::Unknown, |(_, record)| record.standing)))
    }

    /// Tells parts what was decided. Who cannot be told asks later; how many are not there although
    /// they are sold.
    pub(super) async fn settle(
        &self,
        reference: &Reference,
        attempt: u64,
        parts: &[Part],
        verdict: Verdict,
    ) -> usize {
        let home = reference.home(self.shards.len());
        let told = parts.iter().filter(|part| part.shard < self.shards.len()).map(async |part| {
            let told = self
                .call(part.shard, &SETTLE, |call| {
                    let units = if verdict == Verdict::SoldNow { part.units } else { 0 };
                    let call = call.arg(reference.as_str()).arg(attempt).arg(verdict.letter());
                    call.arg(0).arg(units).arg(home)
                })
                .await;
            match told {
                Ok(words) => words.first().is_some_and(|word| word == "MISSING"),
                Err(error) => {
                    let shard = part.shard;
                    tracing::debug!(sku = %self.name, shard, %error, "a part asks later");
                    false
                }
            }
        });
        join_all(told).await.into_iter().filter(|missing| *missing).count()
    }

    /// Asks the home of a part and carries out what it says.
    pub(super) async fn resolve(&self, shard: usize, part: &str) -> Result<()> {
        let mut words = part.splitn(3, ' ');
        let mut next = || words.next().ok_or_else(|| Error::unexpected("not a part"));
        let (attempt, home, reference) = (next()?, next()?, next()?);
        let attempt: u64 = attempt.parse().map_err(|_| Error::unexpected("not a part"))?;
        let home: usize = home.parse().map_err(|_| Error::unexpected("not a part"))?;
        if home >= self.shards.len() {
            return Err(Error::unexpected("a part's home is no shard"));
        }
        let reference = Reference::new(reference)?;
        let record = self.decide(home, &reference, "?", attempt).await?;
        let record = record.map(|(_, record)| record).filter(|record| record.attempt == attempt);
        let (verdict, wait) = match record {
            Some(record) if matches!(record.standing, Standing::Held | Standing::Gathering) => {
                ("K", (record.ends_millis - self.link.server_millis()).max(1_000))
            }
            Some(record) if record.standing == Standing::Sold => ("S", 0),
            _ => ("R", 0),
        };
        self.call(shard, &SETTLE, |call| {
            call.arg(reference.as_str()).arg(attempt).arg(verdict).arg(wait).arg(0).arg(home)
        })
        .await?;
        Ok(())
    }
}
