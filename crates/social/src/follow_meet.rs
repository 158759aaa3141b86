//! Operations over several follow sets: common followees, and suggestions.
//!
//! Sets of different users are in different slots, so no single command can intersect them on a
//! Cluster, and on one server SINTER over large sets would block all other clients. So the smaller
//! set is scanned in steps, and each step is looked up in the larger one: bounded commands, the
//! same on every topology. Changes during the scan may or may not be seen.

use std::collections::{BTreeMap, BTreeSet};

use redis::cmd;
use seawall_client::{error::Result, member::Member};

use super::{
    FollowsOf,
    template::{check_count, members},
};

/// Members per step of a scan.
const STEP: usize = 500;
/// Followees whose own followees are read for suggestions.
const SUGGEST_FROM: usize = 32;
/// Followees that are read of each of them.
const SUGGEST_EACH: usize = 64;

impl<M: Member> FollowsOf<M> {
    /// Returns the users that both follow, in order of their ids.
    ///
    /// If there are more than `limit`, which is at most [`SLICE`](super::SLICE), some of them are
    /// returned.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn common(&self, other: &FollowsOf<M>, limit: usize) -> Result<Vec<M>> {
        check_count(limit)?;
        let (ours, theirs) = (self.count().await?, other.count().await?);
        let (small, large) = if ours <= theirs { (self, other) } else { (other, self) };
        let mut common = BTreeSet::new();
        let mut at = Some(0);
        while let Some(place) = at.filter(|_| common.len() < limit) {
            let (found, next) = small.walk(place).await?;
            let there = large.following(&found).await?;
            common.extend(found.into_iter().zip(there).filter(|(_, there)| *there).map(|(m, _)| m));
            at = next;
        }
        Ok(common.into_iter().take(limit).collect())
    }

    /// Returns one step of a scan over all followees: some of them, and where to continue. Start
    /// with 0.
    ///
    /// Every followee that is present during the whole scan is returned at least once. Use it for
    /// fan-out over large sets.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn walk(&self, place: u64) -> Result<(Vec<M>, Option<u64>)> {
        let call = self.call("scan").arg(place).arg(STEP);
        let (next, found): (u64, Vec<Vec<u8>>) = self.run(&call).await?;
        Ok((members(&found)?, (next != 0).then_some(next)))
    }

    /// Suggests users to follow: those that most of a random sample of the followees follow, most
    /// common first.
    ///
    /// The followees' sets are read as far as Redis has them; none of them is rebuilt for it.
    ///
    /// # Errors
    /// If Redis or the source of this user's own set does not answer.
    pub async fn suggested(&self, count: usize) -> Result<Vec<M>> {
        check_count(count)?;
        let mut commands = Vec::new();
        for followee in self.sample(SUGGEST_FROM).await? {
            let key = self.key_of(&followee)?;
            let mut command = cmd("SRANDMEMBER");
            command.arg(&key).arg(SUGGEST_EACH);
            commands.push((key, command));
        }
        let mut votes: BTreeMap<M, usize> = BTreeMap::new();
        for reply in self.client().send_all(commands).await {
            let found: Vec<Vec<u8>> = redis::from_redis_value(reply?)?;
            for candidate in members::<M>(&found)? {
                if candidate != self.who {
                    *votes.entry(candidate).or_default() += 1;
                }
            }
        }
        let candidates: Vec<M> = votes.keys().cloned().collect();
        for (candidate, there) in candidates.iter().zip(self.following(&candidates).await?) {
            if there {
                votes.remove(candidate);
            }
        }
        let mut ranked: Vec<(M, usize)> = votes.into_iter().collect();
        ranked.sort_by(|(a, votes_a), (b, votes_b)| votes_b.cmp(votes_a).then_with(|| a.cmp(b)));
        Ok(ranked.into_iter().take(count).map(|(candidate, _)| candidate).collect())
    }
}
