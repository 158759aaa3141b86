//! Holds and sells units: at the home shard if it has enough, else gathered from several shards.
//!
//! Gathering, for a reference whose home has too few units:
//!
//! ```text
//! home      begin   G, attempt a, takes what it gives        (in doubt: goes back after 5 s)
//! others    part    H for attempt a                          (in doubt: they ask the home)
//! home      commit  G of attempt a → H or S with its parts   ← the one step that decides
//! ```
//!
//! Nothing is decided before the commit, so an undo is exact: the home gives up the attempt, the
//! parts are told, and a part that arrives late or twice finds that its attempt is over. A process
//! that dies in between leaves parts that ask the home when they are due, and get the same verdict.
//! The home records which shards may be asked before any of them is asked, and forgets nothing
//! until each of them has answered. The rebuild of a shard first ends all gatherings
//! ([`super::rebuild`]), because they may count on parts that the shard lost.

use std::time::Duration;

use futures_util::future::join_all;
use seawall_client::{
    client::Script,
    error::{Error, Result},
    retry::{Doubt, midway},
};
use seawall_resilience::clock::millis;

use super::{
    inventory::{Inner, Inventory},
    record::{Part, Record, Standing, written},
    reference::Reference,
    sale::MAX_UNITS,
    settle::{Answered, Verdict},
    sweeper::Asked,
};

/// Time that a gathering may take before its home takes its units back.
const GATHERING: Duration = Duration::from_secs(5);
/// When a part first asks its home, unless it was told before.
const ASK_FIRST: Duration = Duration::from_secs(2);
/// Maximum calls to a home while expired holds are returned there, at least 128 per call.
const MAX_ASKED: usize = 10_000;
/// Maximum gathering attempts when other callers take the units first.
const MAX_GATHERINGS: usize = 6;
/// Shards that a gathering may ask beyond those that have enough, in case other callers were faster
/// there.
const SPARE_SHARDS: usize = 8;

static HOLD: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/hold.lua")));
static BEGIN: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/begin.lua")));
static PART: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/part.lua")));
static COMMIT: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/commit.lua")));

/// Units that are held until a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Number of units.
    pub units: u64,
    /// When the hold expires, by the server's clock, in milliseconds since 1970.
    pub until_millis: i64,
    /// The shards that hold the units; the home first.
    pub parts: Vec<Part>,
}

/// Outcome of [`Inventory::hold`] and [`Inventory::sell_now`].
#[must_use = "the units may not have been held"]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Held {
    /// The units are held, by this call or by an earlier one with the same reference.
    Held(Hold),
    /// The units are sold under this reference.
    Sold {
        /// Number of units.
        units: u64,
    },
    /// The reference is used up: its units were released, expired or taken back.
    Over(Standing),
    /// Fewer units are left than requested, and every shard was asked.
    SoldOut {
        /// Units left at all shards.
        left: u64,
    },
    /// The units could not be gathered: some shards did not answer, or other callers took the units
    /// first in every attempt.
    Partial {
        /// Units left at the shards that answered.
        left: u64,
    },
    /// The home cannot be reached, and nothing was moved. A reference with another home may
    /// succeed: see [`Inventory::hold_anywhere`].
    Unavailable,
}

impl Held {
    /// Returns `true` if the caller has the units, held or sold.
    #[must_use]
    pub fn is_yours(&self) -> bool {
        matches!(self, Held::Held(_) | Held::Sold { .. })
    }
}

/// Returns `true` if the home replied that it has too few units.
fn is_short(word: &str) -> bool {
    matches!(word, "SHORT" | "MORE")
}

/// A request for units.
#[derive(Clone, Copy)]
struct Want<'a> {
    reference: &'a Reference,
    units: u64,
    lifetime: Duration,
    /// `H` or `S`.
    state: &'static str,
}

impl Inventory {
    /// Holds units for `lifetime`. The call may be repeated with the same reference.
    ///
    /// # Errors
    /// [`Error::Indeterminate`]: the units may be held; repeat the call, or [`Inventory::release`].
    /// Otherwise as [`Client::send`](seawall_client::Client::send).
    ///
    /// # Cancel safety
    /// If the future is dropped, the units may be held: repeat or release, as above. Units that are
    /// not claimed again return after the lifetime.
    pub async fn hold(
        &self,
        reference: &Reference,
        units: u64,
        lifetime: Duration,
    ) -> Result<Held> {
        self.inner.take(Want { reference, units, lifetime, state: "H" }).await
    }

    /// Sells units without holding them first. The call may be repeated with the same reference;
    /// units already held under it are sold.
    ///
    /// # Errors
    /// As [`Inventory::hold`].
    pub async fn sell_now(&self, reference: &Reference, units: u64) -> Result<Held> {
        let lifetime = GATHERING;
        let held = self.inner.take(Want { reference, units, lifetime, state: "S" }).await?;
        match held {
            Held::Held(_) => Ok(match self.sell(reference).await? {
                super::Settled::Now { units } | super::Settled::Before { units } => {
                    Held::Sold { units }
                }
                super::Settled::Not(standing) => Held::Over(standing),
                super::Settled::Unavailable => Held::Unavailable,
            }),
            other => Ok(other),
        }
    }

    /// Holds units under a name, starting at a rotating shard and skipping shards that cannot be
    /// reached. Returns the reference under which they are held; the caller must keep it.
    ///
    /// # Errors
    /// As [`Inventory::hold`], if no shard answered. Units that may be held under an abandoned
    /// reference return after the lifetime.
    pub async fn hold_anywhere(
        &self,
        name: &str,
        units: u64,
        lifetime: Duration,
    ) -> Result<(Reference, Held)> {
        let (mut away, mut doubt) = (None, Doubt::default());
        for skipped in 0..self.shards() {
            let reference = Reference::at(name, self.inner.next_home(skipped))?;
            match self.hold(&reference, units, lifetime).await {
                Ok(Held::Unavailable) => away = Some(reference),
                Err(error) if error.is_indeterminate() => doubt.note(&error),
                Ok(held) => return Ok((reference, held)),
                Err(error) => return Err(doubt.report(error)),
            }
        }
        match away {
            Some(reference) if !doubt.exists() => Ok((reference, Held::Unavailable)),
            _ => Err(doubt.report(Error::Unavailable("no shard answered".into()))),
        }
    }
}

impl Inner {
    async fn take(&self, want: Want<'_>) -> Result<Held> {
        let clock = self.client.network_clock();
        let began = clock.now();
        let held = self.take_units(want).await;
        self.reserve_seconds.record(clock.now().since(began));
        held
    }

    async fn take_units(&self, want: Want<'_>) -> Result<Held> {
        if want.units == 0 || want.units > MAX_UNITS {
            return Err(Error::Invalid(format!("1 to {MAX_UNITS} units can be held")));
        }
        let _asked = Asked(self);
        let home = want.reference.home(self.shards.len());
        let words = match self.take_at(home, want).await {
            Err(Error::Unavailable(_)) => return Ok(Held::Unavailable),
            words => words?,
        };
        match words.split_first() {
            Some((word, _)) if is_short(word) => match self.gather(home, want).await {
                Err(Error::Unavailable(_)) => Ok(Held::Unavailable),
                held => held,
            },
            Some((_, record)) => self.held(home, record),
            None => Err(Error::unexpected("a shard answered nothing")),
        }
    }

    /// Takes units from the home alone. Repeats the call as long as expired holds may still return
    /// units there.
    async fn take_at(&self, home: usize, want: Want<'_>) -> Result<Vec<String>> {
        let mut words = Vec::new();
        for _ in 0..MAX_ASKED {
            words = self
                .call(home, &HOLD, |call| {
                    call.arg(want.reference.as_str())
                        .arg(want.units)
                        .arg(millis(want.lifetime))
                        .arg(want.state)
                })
                .await?;
            if words.first().is_none_or(|word| word != "MORE") {
                break;
            }
        }
        Ok(words)
    }

    /// Maps a record at its home to an outcome.
    fn held(&self, home: usize, words: &[String]) -> Result<Held> {
        let record = Record::from_answer(words)?;
        Ok(match record.standing {
            Standing::Held => {
                let mut parts = record.parts.clone();
                if record.units > 0 {
                    parts.insert(0, Part { shard: home, units: record.units });
                }
                let units = record.total();
                Held::Held(Hold { units, until_millis: record.ends_millis, parts })
            }
            Standing::Sold => Held::Sold { units: record.total() },
            over => Held::Over(over),
        })
    }

    async fn gather(&self, home: usize, want: Want<'_>) -> Result<Held> {
        let mut sum = 0;
        for _ in 0..MAX_GATHERINGS {
            // Every shard is checked before the caller is told that there is nothing.
            let looks = (0..self.shards.len()).map(|shard| self.clear(shard));
            let looks = join_all(looks).await;
            let complete = looks.iter().all(|look| look.as_ref().is_ok_and(|look| look.is_all));
            let mut others: Vec<Part> = looks
                .into_iter()
                .enumerate()
                .filter_map(|(shard, look)| Some(Part { shard, units: look.ok()?.left }))
                .filter(|part| part.units > 0)
                .collect();
            sum = others.iter().map(|part| part.units).sum::<u64>();
            others.retain(|part| part.shard != home);
            // The fullest shards first, to get the fewest parts.
            others.sort_by_key(|part| std::cmp::Reverse(part.units));
            if sum < want.units {
                return Ok(match complete {
                    true => Held::SoldOut { left: sum },
                    false => Held::Partial { left: sum },
                });
            }
            if let Some(held) = self.gather_from(home, &others, want).await? {
                return Ok(held);
            }
        }
        Ok(Held::Partial { left: sum })
    }

    /// Makes one attempt. Returns `None` if it failed.
    async fn gather_from(
        &self,
        home: usize,
        others: &[Part],
        want: Want<'_>,
    ) -> Result<Option<Held>> {
        let alone = others.first().is_some_and(|part| part.units >= want.units);
        let others = candidates(others, want.units);
        let begun = self
            .call(home, &BEGIN, |call| {
                let call = call
                    .arg(want.reference.as_str())
                    .arg(if alone { 0 } else { want.units })
                    .arg(millis(GATHERING));
                others.iter().fold(call, |call, part| call.arg(part.shard))
            })
            .await?;
        let (attempt, mut missing) = match begun.as_slice() {
            [word, attempt, taken] if word == "BEGUN" => {
                let number = |text: &String| text.parse::<u64>().unwrap_or(0);
                (number(attempt), want.units - number(taken).min(want.units))
            }
            [_, record @ ..] => return self.held(home, record).map(Some),
            [] => return Err(Error::unexpected("a shard answered nothing")),
        };
        let (mut parts, mut asked, mut empty) = (Vec::new(), Vec::new(), Vec::new());
        for other in others {
            if missing == 0 {
                empty.push(Answered::unasked(other.shard));
                continue;
            }
            asked.push(other.shard);
            // A shard that does not answer may have given units, so the home waits for it.
            match self.part(other.shard, home, attempt, missing, want).await {
                Ok(0) => empty.push(Answered::told(other.shard, Verdict::Back)),
                Ok(units) => {
                    parts.push(Part { shard: other.shard, units });
                    missing -= units.min(missing);
                }
                Err(error) => {
                    let shard = other.shard;
                    tracing::debug!(sku = %self.name, shard, %error, "a shard gives no part");
                }
            }
        }
        if missing == 0 {
            let committed = self
                .call(home, &COMMIT, |call| {
                    let call = call
                        .arg(want.reference.as_str())
                        .arg(attempt)
                        .arg(millis(want.lifetime))
                        .arg(written(&parts))
                        .arg(want.state);
                    empty.iter().fold(call, |call, shard| call.arg(shard.to_string()))
                })
                .await?;
            if let [word, record @ ..] = committed.as_slice()
                && !record.is_empty()
            {
                let held = self.held(home, record)?;
                if matches!(held, Held::Sold { .. }) {
                    let verdict = if word == "NEW" { Verdict::SoldNow } else { Verdict::Sold };
                    let record = Record::from_answer(record)?;
                    let over = self.settle_sale(want.reference, &record, verdict).await;
                    let over = over.map_err(midway)?;
                    return Ok(Some(over.map_or(held, Held::Over)));
                }
                return Ok(Some(held));
            }
        }
        self.undo(want.reference, attempt, &asked, empty).await?;
        // Perhaps the home alone has enough by now.
        let words = self.take_at(home, want).await?;
        match words.as_slice() {
            [word, _] if is_short(word) => Ok(None),
            [_, record @ ..] => self.held(home, record).map(Some),
            [] => Err(Error::unexpected("a shard answered nothing")),
        }
    }

    async fn part(
        &self,
        shard: usize,
        home: usize,
        attempt: u64,
        most: u64,
        want: Want<'_>,
    ) -> Result<u64> {
        let words = self
            .call(shard, &PART, |call| {
                call.arg(want.reference.as_str())
                    .arg(home)
                    .arg(attempt)
                    .arg(most)
                    .arg(millis(ASK_FIRST))
            })
            .await?;
        Ok(words.get(1).and_then(|units| units.parse().ok()).unwrap_or(0))
    }

    /// Gives up an attempt, first at the home, so that it cannot be committed any more.
    async fn undo(
        &self,
        reference: &Reference,
        attempt: u64,
        asked: &[usize],
        empty: Vec<Answered>,
    ) -> Result<()> {
        let home = reference.home(self.shards.len());
        if let Some((_, record)) = self.decide(home, reference, "N", attempt).await?
            && record.attempt == attempt
            && matches!(record.standing, Standing::Held | Standing::Sold)
        {
            // The attempt was committed after all, so this call must not give its parts back.
            return Ok(());
        }
        let parts: Vec<Part> = asked.iter().map(|shard| Part { shard: *shard, units: 0 }).collect();
        let mut told = self.settle(reference, attempt, &parts, Verdict::Back).await;
        told.answered.extend(empty);
        self.note_answers(reference, attempt, &told.answered).await;
        Ok(())
    }
}

/// Returns the shards to ask: the fullest ones that together have enough, and a few more.
fn candidates(others: &[Part], units: u64) -> &[Part] {
    let mut sum = 0u64;
    let enough = others.iter().take_while(|part| {
        let short = sum < units;
        sum = sum.saturating_add(part.units);
        short
    });
    &others[..others.len().min(enough.count() + SPARE_SHARDS)]
}
