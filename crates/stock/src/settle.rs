//! Settles a hold: sold, released or taken back. Decided at its home, then told to its parts.
//!
//! A part that cannot be told stays held, asks its home when it is due ([`super::levels`]) and then
//! does what was decided. So the caller may rely on the home's answer alone. The home remembers the
//! decision until every shard that may have a part has answered, however long that takes, and tells
//! them again: anything it does not know was lost, not forgotten. A part whose home does not know
//! it therefore stays held, is *astray*, and shows in the audit; a rebuild from a ledger finds out
//! which reference it belongs to.
//!
//! If a shard answers that a part is missing although it is being sold, the part was lost in a
//! fail-over. Other units of its shard take its place. If there are none, the sale is taken back at
//! once, because no more may be sold than there is.

use std::fmt;

use futures_util::future::join_all;
use seawall_client::{
    client::Script,
    error::{Error, Result},
    retry::midway,
};
use seawall_resilience::clock::millis;

use super::{
    inventory::{Inner, Inventory},
    levels::ASK_AGAIN,
    record::{Part, Record, Standing},
    reference::Reference,
};

static DECIDE: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/decide.lua")));
static SETTLE: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/settle.lua")));
static TOLD: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/told.lua")));

/// Outcome of [`Inventory::sell`], [`Inventory::release`] and [`Inventory::take_back`].
#[must_use = "the units may not have been settled"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// This call did it.
    Now {
        /// Number of units.
        units: u64,
    },
    /// An earlier call did it.
    Before {
        /// Number of units.
        units: u64,
    },
    /// Not possible in the present state of the reference. A release of an
    /// [unknown](Standing::Unknown) reference is recorded: a hold that arrives later finds it
    /// released.
    Not(Standing),
    /// The home cannot be reached, and nothing was moved. The call may be repeated.
    Unavailable,
}

/// Verdict that parts are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This call has just sold the parts: no shard can have forgotten them yet.
    SoldNow,
    /// The parts were sold some time ago.
    Sold,
    /// The parts return.
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

/// A shard that has acknowledged the outcome of a hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    shard: usize,
    letter: &'static str,
    was_asked: bool,
}

impl Answered {
    /// The shard was told this verdict.
    pub(super) fn told(shard: usize, verdict: Verdict) -> Self {
        Answered { shard, letter: verdict.letter(), was_asked: true }
    }

    /// The shard was not asked for a part by this attempt.
    pub(super) fn unasked(shard: usize) -> Self {
        Answered { shard, letter: Verdict::Back.letter(), was_asked: false }
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.shard, self.letter, if self.was_asked { "" } else { "?" })
    }
}

/// Outcome of telling parts.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Number of sold parts that are missing at their shards.
    pub(super) missing: usize,
    pub(super) answered: Vec<Answered>,
}

impl Inventory {
    /// Sells the units held under a reference.
    ///
    /// # Errors
    /// [`Error::Indeterminate`]: the units may be sold; repeat the call. Otherwise as
    /// [`Client::send`](seawall_client::Client::send).
    pub async fn sell(&self, reference: &Reference) -> Result<Settled> {
        self.inner.settle_at_home(reference, "S", Standing::Sold).await
    }

    /// Releases the units held under a reference: they are for sale again.
    ///
    /// # Errors
    /// As [`Inventory::sell`].
    pub async fn release(&self, reference: &Reference) -> Result<Settled> {
        self.inner.settle_at_home(reference, "R", Standing::Released).await
    }

    /// Takes back the units sold under a reference, for example when goods are returned: they are
    /// for sale again.
    ///
    /// # Errors
    /// As [`Inventory::sell`].
    pub async fn take_back(&self, reference: &Reference) -> Result<Settled> {
        self.inner.settle_at_home(reference, "B", Standing::TakenBack).await
    }

    /// Returns the state of a reference and its number of units.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Unavailable`] if its home cannot
    /// be reached.
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
        let over = self.settle_sale(reference, &record, verdict).await.map_err(midway)?;
        if let Some(over) = over {
            return Ok(Settled::Not(over));
        }
        let units = record.total();
        Ok(if word == "DONE" { Settled::Now { units } } else { Settled::Before { units } })
    }

    /// Decides at the home. Returns `DONE` or `IS`, depending on whether this call decided, and the
    /// resulting record.
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

    /// Tells the parts of a record. A sale that was just made but whose parts are missing is taken
    /// back; then returns the resulting state.
    pub(super) async fn settle_sale(
        &self,
        reference: &Reference,
        record: &Record,
        verdict: Verdict,
    ) -> Result<Option<Standing>> {
        let told = self.settle(reference, record.attempt, &record.parts, verdict).await;
        self.note_answers(reference, record.attempt, &told.answered).await;
        let missing = told.missing;
        if missing == 0 || verdict != Verdict::SoldNow {
            return Ok(None);
        }
        tracing::warn!(sku = %self.name, %reference, missing, "parts were lost: a sale is taken back");
        let home = reference.home(self.shards.len());
        let back = self.decide(home, reference, "B", 0).await?;
        let told = self.settle(reference, record.attempt, &record.parts, Verdict::Back).await;
        self.note_answers(reference, record.attempt, &told.answered).await;
        Ok(Some(back.map_or(Standing::Unknown, |(_, record)| record.standing)))
    }

    /// Tells parts the verdict. A part that cannot be told asks later.
    pub(super) async fn settle(
        &self,
        reference: &Reference,
        attempt: u64,
        parts: &[Part],
        verdict: Verdict,
    ) -> Told {
        let home = reference.home(self.shards.len());
        let told = parts.iter().filter(|part| part.shard < self.shards.len()).map(async |part| {
            let told = self
                .call(part.shard, &SETTLE, |call| {
                    let units = if verdict == Verdict::SoldNow { part.units } else { 0 };
                    let call = call.arg(reference.as_str()).arg(attempt).arg(verdict.letter());
                    call.arg(0).arg(units).arg(home)
                })
                .await;
            (part.shard, told)
        });
        let mut all = Told::default();
        for (shard, told) in join_all(told).await {
            match told {
                Ok(words) if words.first().is_some_and(|word| word == "MISSING") => {
                    all.missing += 1;
                }
                Ok(_) => all.answered.push(Answered::told(shard, verdict)),
                Err(error) => {
                    tracing::debug!(sku = %self.name, shard, %error, "a part asks later");
                }
            }
        }
        all
    }

    /// Records at the home which shards have answered. If that fails, a sweeper tells them and
    /// records it again.
    pub(super) async fn note_answers(
        &self,
        reference: &Reference,
        attempt: u64,
        answered: &[Answered],
    ) {
        if answered.is_empty() {
            return;
        }
        let home = reference.home(self.shards.len());
        let noted = self.call(home, &TOLD, |call| {
            let call = call.arg(reference.as_str()).arg(attempt);
            answered.iter().fold(call, |call, one| call.arg(one.to_string()))
        });
        if let Err(error) = noted.await {
            tracing::debug!(sku = %self.name, %reference, %error, "answers are noted later");
        }
    }

    /// Tells the outcome of a hold to the shards that its home still waits for.
    pub(super) async fn tell(&self, home: usize, reference: &str) -> Result<()> {
        let reference = Reference::new(reference)?;
        let words = self.call(home, &TOLD, |call| call.arg(reference.as_str()).arg(0)).await?;
        let [word, record @ ..] = words.as_slice() else {
            return Err(Error::unexpected("a shard answered nothing"));
        };
        if word == "NONE" {
            return Ok(());
        }
        let (waits, sure_for) = match record {
            [.., waits, sure_for] => (waits, sure_for.parse().unwrap_or(0)),
            _ => return Err(Error::unexpected(format!("{words:?} is not a record"))),
        };
        let record = Record::from_answer(record)?;
        if matches!(record.standing, Standing::Held | Standing::Gathering) {
            return Ok(());
        }
        let waits: Vec<usize> = waits
            .split(',')
            .filter_map(|one| one.split_once(':')?.0.parse().ok())
            .filter(|shard| *shard < self.shards.len())
            .collect();
        let (sold, back): (Vec<Part>, Vec<Part>) = waits
            .into_iter()
            .map(|shard| {
                let part = record.parts.iter().find(|part| part.shard == shard);
                Part { shard, units: part.map_or(0, |part| part.units) }
            })
            .partition(|part| part.units > 0 && record.standing == Standing::Sold);
        // In the first half of the retention time no told part can have been forgotten, so a
        // missing part was lost.
        let verdict = match sure_for > millis(self.kept / 2).cast_signed() {
            true => Verdict::SoldNow,
            false => Verdict::Sold,
        };
        let mut told = self.settle(&reference, record.attempt, &back, Verdict::Back).await;
        for part in sold {
            let one = self.settle(&reference, record.attempt, &[part], verdict).await;
            if one.missing > 0 && verdict == Verdict::SoldNow {
                let (shard, units) = (part.shard, part.units);
                metrics::counter!("seawall_stock_lost_parts_total").increment(1);
                tracing::error!(sku = %self.name, %reference, shard, units,
                    "units that are sold are missing at this shard: reconcile or rebuild");
            } else if one.missing > 0 {
                told.answered.push(Answered::told(part.shard, verdict));
            }
            told.answered.extend(one.answered);
        }
        self.note_answers(&reference, record.attempt, &told.answered).await;
        Ok(())
    }

    /// Asks the home of a part and carries out the verdict.
    pub(super) async fn resolve(&self, shard: usize, part: &str) -> Result<()> {
        if let Some(reference) = part.strip_prefix("! ") {
            return self.tell(shard, reference).await;
        }
        let mut words = part.splitn(3, ' ');
        let mut next = || words.next().ok_or_else(|| Error::unexpected("not a part"));
        let (attempt, home, reference) = (next()?, next()?, next()?);
        let attempt: u64 = attempt.parse().map_err(|_| Error::unexpected("not a part"))?;
        let home: usize = home.parse().map_err(|_| Error::unexpected("not a part"))?;
        if home >= self.shards.len() {
            return Err(Error::unexpected("a part's home is no shard"));
        }
        let reference = Reference::new(reference)?;
        let known = self.ask_home(home, &reference, attempt, shard).await?;
        let (letter, wait) = match known {
            Known::Undecided { wait_millis } => ("K", wait_millis),
            Known::Decided(verdict) => (verdict.letter(), 0),
            Known::Nothing => ("A", millis(ASK_AGAIN).cast_signed()),
        };
        let words = self
            .call(shard, &SETTLE, |call| {
                call.arg(reference.as_str()).arg(attempt).arg(letter).arg(wait).arg(0).arg(home)
            })
            .await?;
        match known {
            Known::Decided(verdict) => {
                let answered = [Answered::told(shard, verdict)];
                self.note_answers(&reference, attempt, &answered).await;
            }
            Known::Nothing if words.get(1).is_some_and(|units| units != "0") => {
                metrics::counter!("seawall_stock_astray_parts_total").increment(1);
                tracing::error!(sku = %self.name, %reference, shard, units = words[1],
                    "units are held for a reference that its home does not know: rebuild");
            }
            Known::Nothing | Known::Undecided { .. } => {}
        }
        Ok(())
    }

    /// Asks the home what it knows about a part.
    async fn ask_home(
        &self,
        home: usize,
        reference: &Reference,
        attempt: u64,
        shard: usize,
    ) -> Result<Known> {
        let words = self
            .call(home, &DECIDE, |call| call.arg(reference.as_str()).arg("?").arg(attempt))
            .await?;
        let record = match words.as_slice() {
            [none, _before] if none == "NONE" => return Ok(Known::Decided(Verdict::Back)),
            [none] if none == "NONE" => return Ok(Known::Nothing),
            [_, record @ ..] => Record::from_answer(record)?,
            [] => return Err(Error::unexpected("a shard answered nothing")),
        };
        if record.attempt < attempt {
            return Ok(Known::Nothing);
        }
        let counts = record.parts.iter().any(|part| part.shard == shard);
        Ok(match record.standing {
            // A later attempt begins only after the previous one is over, and a committed attempt
            // is never followed by another.
            _ if record.attempt > attempt => Known::Decided(Verdict::Back),
            Standing::Gathering => Known::until(record.ends_millis - self.client.server_millis()),
            Standing::Held if counts => {
                Known::until(record.ends_millis - self.client.server_millis())
            }
            Standing::Sold if counts => Known::Decided(Verdict::Sold),
            _ => Known::Decided(Verdict::Back),
        })
    }
}

/// What a home knows about a part.
#[derive(Debug, Clone, Copy)]
enum Known {
    Undecided { wait_millis: i64 },
    Decided(Verdict),
    Nothing,
}

impl Known {
    fn until(wait_millis: i64) -> Self {
        Known::Undecided { wait_millis: wait_millis.max(1_000) }
    }
}
