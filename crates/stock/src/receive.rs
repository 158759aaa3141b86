//! Receives units: a receipt reaches all shards in rounds, a little at a time.
//!
//! Writing everything at once would put all load on the shards that were reached before a failure.
//! In rounds they fill evenly. Each shard records its progress, so repeating a receipt (after a
//! lost reply, a crash, an outage) continues where it stopped and never adds twice.
//!
//! Shares differ by one unit at most, the first shards having more: 300 over 3 are 100 each, in 10
//! rounds of 10 (30 writes); 2 over 3 are 1, 1, 0. A round brings a shard at least 3 units or its
//! whole share, so a small receipt takes fewer rounds: 30 over 3 are 9 writes. A round that brings
//! a shard nothing writes nothing.

use futures_util::future::join_all;
use seawall_client::{
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{
    inventory::{Inner, Inventory},
    reference::MAX_REFERENCE_BYTES,
    sale::MAX_UNITS,
};

static RECEIVE: Script = Script::with_time(concat!(
    include_str!("script/shard.lua"),
    include_str!("script/receive.lua")
));

/// Minimum units that a round brings to a shard, unless its whole share is less.
const LEAST_A_ROUND: u64 = 3;

/// Outcome of [`Inventory::receive`].
#[must_use = "a receipt that is not complete has to be repeated"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// All units are received.
    Complete {
        /// Units that this call added; 0 if all were received before.
        added: u64,
    },
    /// Some shards could not be reached. Repeat the call with the same receipt and number.
    Partly {
        /// Units that this call added.
        added: u64,
        /// Number of shards that miss units.
        missing: u64,
    },
    /// The receipt was begun with another number of units before; nothing was added.
    Differs {
        /// The earlier number.
        units: u64,
    },
}

/// Returns how many units of a receipt a shard gets.
#[must_use]
pub fn share(units: u64, shard: usize, shards: usize) -> u64 {
    let shards = shards.max(1) as u64;
    units / shards + u64::from((shard as u64) < units % shards)
}

/// Returns how many units of its share a shard has after a round, without a product that could
/// overflow.
fn after_round(share: u64, round: u64, rounds: u64) -> u64 {
    let rounds = rounds.min((share / LEAST_A_ROUND).max(1));
    let round = round.min(rounds);
    share / rounds * round + share % rounds * round / rounds
}

impl Inventory {
    /// Receives units, once per receipt. Use it for restocking too.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the receipt has no name or too many units, alone (2⁵²) or together
    /// with what a shard has received before (also 2⁵²); [`Error::Indeterminate`]: repeat the call.
    /// Otherwise as [`Client::send`](seawall_client::Client::send).
    pub async fn receive(&self, receipt: &str, units: u64) -> Result<Received> {
        if receipt.is_empty() || receipt.len() > MAX_REFERENCE_BYTES {
            return Err(Error::Invalid(format!("a receipt has 1 to {MAX_REFERENCE_BYTES} bytes")));
        }
        if units > MAX_UNITS {
            return Err(Error::Invalid(format!("a receipt has {MAX_UNITS} units at most")));
        }
        let inner = &*self.inner;
        let count = inner.shards.len();
        let mut added = 0;
        let mut reached = vec![true; count];
        for round in 1..=inner.rounds {
            let due = |shard: usize, round: u64| {
                after_round(share(units, shard, count), round, inner.rounds)
            };
            // The first shard goes before the others: if any shard has a record of the receipt, it
            // has one, and reports a different number before anything is added.
            for turn in [0..1, 1..count] {
                let writes = turn
                    .filter(|shard| reached[*shard] && due(*shard, round) > due(*shard, round - 1))
                    .map(async |shard| {
                        let (upto, share) = (due(shard, round), share(units, shard, count));
                        (shard, inner.receive_at(shard, receipt, upto, (units, share)).await)
                    });
                for (shard, written) in join_all(writes).await {
                    match written {
                        Ok(Ok(more)) => added += more,
                        Ok(Err(units)) => return Ok(Received::Differs { units }),
                        Err(error) if error.is_outage() => {
                            tracing::warn!(sku = %inner.name, shard, %error, "not all was received");
                            reached[shard] = false;
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        let missing = reached.iter().filter(|reached| !**reached).count() as u64;
        Ok(match missing {
            0 => Received::Complete { added },
            missing => Received::Partly { added, missing },
        })
    }
}

impl Inner {
    /// Brings a shard up to a number of units of a receipt. Returns the units added, or the number
    /// that the receipt had before.
    async fn receive_at(
        &self,
        shard: usize,
        receipt: &str,
        upto: u64,
        (units, share): (u64, u64),
    ) -> Result<Result<u64, u64>> {
        let arguments = |call: ScriptInvocation| {
            call.arg(receipt).arg(upto).arg(units).arg(share).arg(MAX_UNITS)
        };
        let words = self.call(shard, &RECEIVE, arguments).await?;
        let number = words.get(1).and_then(|number| number.parse().ok());
        match (words.first().map(String::as_str), number) {
            (Some("ADDED"), Some(added)) => Ok(Ok(added)),
            (Some("DIFFERS"), Some(units)) => Ok(Err(units)),
            (Some("TOO_MANY"), Some(has)) => Err(Error::Invalid(format!(
                "shard {shard} of {} has received {has} units: with {share} more they could not be \
                 counted exactly, which is up to {MAX_UNITS}",
                self.name
            ))),
            _ => Err(Error::unexpected(format!("{words:?} is not a receipt's answer"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_rounds_come_out_even() {
        let shares = |units, shards| -> Vec<u64> {
            (0..shards).map(|shard| share(units, shard, shards)).collect()
        };
        assert_eq!(shares(300, 3), [100, 100, 100]);
        assert_eq!(shares(100, 5), [20, 20, 20, 20, 20]);
        assert_eq!(shares(2, 3), [1, 1, 0]);
        assert_eq!(shares(0, 3), [0, 0, 0]);
        for share in [0, 1, 9, 10, 11, 99, MAX_UNITS, u64::MAX] {
            assert_eq!(after_round(share, 10, 10), share);
            for round in 1..=10 {
                assert!(after_round(share, round, 10) >= after_round(share, round - 1, 10));
            }
        }
        assert_eq!((1..=10).map(|round| after_round(100, round, 10)).sum::<u64>(), 550);
        let steps: Vec<u64> = (1..=5).map(|round| after_round(11, round, 10)).collect();
        assert_eq!(steps, [3, 7, 11, 11, 11], "three units a round, or more");
    }
}
