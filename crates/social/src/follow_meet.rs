//! Where follow sets meet: whom two have in common, whom one might like to follow.
//!
//! Sets of different people lie in different slots, so no single command can intersect them on a
//! Cluster, and on one server SINTER over large sets would hold up everybody else. So the smaller set
//! is walked in steps and each step is asked of the larger one: bounded commands, the same on every
//! topology. What changes while it is walked may or may not be seen.

use std::collections::{BTreeMap, BTreeSet};

use redis::cmd;
use seawall_client::{error::Result, member::Member};

use super::{
    FollowsOf,
    template::{check_count, members},
};

/// What a step of a walk is asked for.
const STEP: usize = 500;
/// Of how many whom one follows the follows are looked at for suggestions.
const SUGGEST_FROM: usize = 32;
/// How many of theirs.
const SUGGEST_EACH: usize = 64;

impl<M: Member> FollowsOf<M> {
    /// Whom both follow, in order of their ids; when there are more than `limit`, which is at most
    /// [`SLICE`](super::SLICE), some of them.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
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

    /// A step of a walk over everybody whom one follows: some of them, and where to go on; begin with
    /// 0. Everybody who is there all the time comes at least once. For fan-out over large sets.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
    pub async fn walk(&self, place: u64) -> Result<(Vec<M>, Option<u64>)> {
        let call = self.call("scan").arg(place).arg(STEP);
        let (next, found): (u64, Vec<Vec<u8>>) = self.run(&call).await?;
        Ok((members(&found)?, (next != 0).then_some(next)))
    }

    /// Whom one might like to follow: those whom most of a sample of one's followees follow, the most
    /// common first. By chance, and only from what Redis has at hand: nothing is rebuilt for it.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn suggested(&self, count: usize) -> Result<Vec<M>> {
        check_count(count)?;
        let mut commands = Vec::new();
        for followee in self.sample(SUGGEST_FROM).await? {
            let key = self.template().key_of(&followee)?;
            let mut command = cmd("SRANDMEMBER");
            command.arg(&key).arg(SUGGEST_EACH);
            commands.push((key, command));
        }
        let mut votes: BTreeMap<M, usize> = BTreeMap::new();
        for reply in self.template().client().send_all(commands).await {
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
