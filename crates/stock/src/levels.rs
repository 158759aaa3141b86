//! Levels of an inventory, the audit that accounts for every unit, and the clean-up of expired
//! holds.
//!
//! The units of an expired hold return with the next movement of its shard, or when a sweeper
//! visits it. The same script names parts that have not heard from their home, and their home is
//! asked.
//!
//! One call handles a page of records, so that no script takes long. A caller that needs the number
//! of units repeats it until the page was not full.

use std::{ops::Add, time::Duration};

use futures_util::future::join_all;
use seawall_client::{
    client::Script,
    error::{Error, Result},
};
use seawall_resilience::clock::millis;

use super::inventory::{Inner, Inventory, Said};

/// Records that one call handles.
const RECORDS_A_LOOK: u64 = 128;
/// Maximum calls per shard; after that the result counts as incomplete.
const MAX_LOOKS: usize = 10_000;
/// How often the same part asks its home.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(2);

static LOOK: Script =
    Script::with_time(concat!(include_str!("script/shard.lua"), include_str!("script/look.lua")));

/// Units by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Levels {
    /// Units ever received.
    pub received: u64,
    /// Units held.
    pub held: u64,
    /// Units sold.
    pub sold: u64,
    /// Units for sale.
    pub left: u64,
}

impl Levels {
    /// Returns `true` if `held + sold + left = received`.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.held + self.sold + self.left == self.received
    }
}

impl Add for Levels {
    type Output = Levels;

    fn add(self, other: Levels) -> Levels {
        Levels {
            received: self.received + other.received,
            held: self.held + other.held,
            sold: self.sold + other.sold,
            left: self.left + other.left,
        }
    }
}

/// Levels of all shards, each read at one moment.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// Levels by shard; `None` if the shard could not be reached or is [closed](Audit::closed).
    pub shards: Vec<Option<Levels>>,
    /// Shards that answered but cannot sell: they have lost their data, or a rebuild was not
    /// finished. [`Inventory::rebuild`] opens them. Any other shard without levels did not answer:
    /// its units return when it does.
    pub closed: Vec<usize>,
    /// Units held as parts of a hold that its home does not know, because the home lost it. They
    /// stay held until an [`Inventory::rebuild`] from a ledger finds out which reference they
    /// belong to.
    pub astray: u64,
}

impl Audit {
    /// Returns the sum over the shards that answered.
    #[must_use]
    pub fn total(&self) -> Levels {
        self.shards.iter().flatten().fold(Levels::default(), |sum, levels| sum + *levels)
    }

    /// Returns `true` if every shard that answered has `held + sold + left = received` and no units
    /// are astray.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.astray == 0 && self.shards.iter().flatten().all(Levels::is_conserved)
    }

    /// Returns `true` if every shard answered.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.shards.iter().all(Option::is_some)
    }
}

/// State of one shard.
struct Look {
    levels: Levels,
    /// What may still be due beyond this page.
    due: Due,
    /// Units of parts whose home does not know them.
    astray: u64,
    /// Parts whose home must be asked: "attempt home reference"; holds whose parts must be told: "!
    /// reference".
    parts: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Expired holds, whose units return.
    Holds,
    /// Records to forget, or parts to settle.
    Other,
    Nothing,
}

/// Units available at a shard after clean-up.
pub(super) struct Cleared {
    pub(super) left: u64,
    /// `false` if some units may still be held although their hold has ended.
    pub(super) is_all: bool,
}

impl Inventory {
    /// Returns the levels of all shards. Correct during concurrent movements: each shard is read in
    /// one step.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); a shard that cannot be reached is not an
    /// error.
    pub async fn audit(&self) -> Result<Audit> {
        let looks = (0..self.shards()).map(|shard| self.inner.look_at_all(shard));
        let mut audit = Audit { shards: Vec::new(), closed: Vec::new(), astray: 0 };
        for (shard, look) in join_all(looks).await.into_iter().enumerate() {
            match look {
                Ok(Some(look)) => {
                    audit.shards.push(Some(look.levels));
                    audit.astray += look.astray;
                }
                Ok(None) => {
                    audit.shards.push(None);
                    audit.closed.push(shard);
                }
                Err(error) if error.is_outage() => audit.shards.push(None),
                Err(error) => return Err(error),
            }
        }
        Ok(audit)
    }

    /// Releases expired holds and settles parts that were left behind, as the background sweeper
    /// does. Returns `true` if no part had to be settled.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send), from the first shard that failed; the
    /// others were swept.
    pub async fn sweep(&self) -> Result<bool> {
        self.inner.sweep().await
    }
}

impl Inner {
    pub(super) async fn look(&self, shard: usize) -> Result<Levels> {
        let look = self.look_at_all(shard).await?;
        Ok(look.ok_or_else(|| self.closed(shard))?.levels)
    }

    /// Reads a shard after all its expired holds are released. Returns `None` if the shard is
    /// closed.
    async fn look_at_all(&self, shard: usize) -> Result<Option<Look>> {
        let mut look = self.look_once(shard, Duration::ZERO).await?;
        for _ in 1..MAX_LOOKS {
            if look.as_ref().is_none_or(|look| look.due != Due::Holds) {
                break;
            }
            look = self.look_once(shard, Duration::ZERO).await?;
        }
        Ok(look)
    }

    fn closed(&self, shard: usize) -> Error {
        self.unavailable(shard, "has lost its data or is being rebuilt")
    }

    /// Releases everything at a shard that has ended, including parts that have not heard of it.
    pub(super) async fn clear(&self, shard: usize) -> Result<Cleared> {
        let (mut left, mut asked) = (0, true);
        for _ in 0..MAX_LOOKS {
            let look = self.look_after(shard, ASK_AGAIN).await?;
            left = look.levels.left;
            if look.due != Due::Holds && look.parts.is_empty() {
                return Ok(Cleared { left, is_all: asked });
            }
            let told = look.parts.iter().map(|part| self.resolve(shard, part));
            for told in join_all(told).await {
                if let Err(error) = told {
                    tracing::debug!(sku = %self.name, shard, %error, "a part asks later");
                    asked = false;
                }
            }
        }
        Ok(Cleared { left, is_all: false })
    }

    /// Reads a shard and claims its due parts: other callers do not get them for `parts_for`.
    async fn look_after(&self, shard: usize, parts_for: Duration) -> Result<Look> {
        self.look_once(shard, parts_for).await?.ok_or_else(|| self.closed(shard))
    }

    /// Like [`Inner::look_after`], but returns `None` if the shard is closed.
    async fn look_once(&self, shard: usize, parts_for: Duration) -> Result<Option<Look>> {
        let said =
            self.ask(shard, &LOOK, |call| call.arg(RECORDS_A_LOOK).arg(millis(parts_for))).await?;
        let words = match said {
            Said::Words(words) => words,
            Said::Lost | Said::Rebuilding => return Ok(None),
        };
        let number = |at: usize| words.get(at).and_then(|number| number.parse::<u64>().ok());
        match (number(1), number(2), number(3), number(4)) {
            (Some(received), Some(held), Some(sold), Some(left)) => Ok(Some(Look {
                levels: Levels { received, held, sold, left },
                due: match words.get(5).map(String::as_str) {
                    Some("HOLDS") => Due::Holds,
                    Some("OTHER") => Due::Other,
                    _ => Due::Nothing,
                },
                astray: number(6).unwrap_or(0),
                parts: words.into_iter().skip(7).collect(),
            })),
            _ => Err(Error::unexpected(format!("{words:?} is not a shard"))),
        }
    }

    pub(super) async fn sweep(&self) -> Result<bool> {
        let mut outcome = Ok(true);
        for shard in 0..self.shards.len() {
            let swept = async {
                let mut nothing = true;
                for _ in 0..MAX_LOOKS {
                    let look = self.look_after(shard, ASK_AGAIN).await?;
                    for part in &look.parts {
                        nothing = false;
                        self.resolve(shard, part).await?;
                    }
                    if look.due == Due::Nothing {
                        break;
                    }
                }
                Ok(nothing)
            };
            match swept.await {
                Ok(nothing) => outcome = outcome.map(|clean| clean && nothing),
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }
}
