//! Tags that values carry, in Redis: which of them were cleared since a value was loaded.
//!
//! Every clear of such a tag has a number; a load notes the last number before it begins, and its entry
//! keeps that. An entry counts if none of its value's tags has a later one. So a clear that comes while
//! a load runs needs to know nothing of the load, and the load nothing of the clear.
//!
//! The last number is read together with the entry. If it is the entry's own, no tag was cleared since
//! the load began, and that is all. Otherwise the last clears of the value's tags are asked for; what
//! was learned holds for all entries until the next clear.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use redis::{Value, cmd};
use seawall_client::{
    MAX_COMMAND_MEMBERS,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::remote::RemoteTier;
use crate::store::entry::Entry;

static TAGS: Script = Script::with_time(include_str!("script/tags.lua"));

/// Tags whose last clear Redis remembers. When there are more, the oldest clears become the floor:
/// entries that were loaded before it are misses.
const MAX_CLEARED: usize = 100_000;
/// Tags whose last clear this process remembers.
const MAX_LEARNED: usize = 4096;

/// What decides whether an entry counts, as a reader found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// One number for the generations of the key's tags and of the namespace; 0 without any.
    pub(crate) generations: u64,
    /// The last clear of any tag that values carry; 0 in a cache without such tags.
    pub(crate) clears: u64,
}

/// The last clears of some tags, as they were at one moment.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    /// The last clear of any tag.
    last: u64,
    /// Tags that are not remembered were not cleared after this one.
    floor: u64,
    tags: HashMap<u64, u64>,
}

impl Cleared {
    /// Returns whether a value with these tags, loaded after the clear `since`, still counts. `None`: not
    /// all of its tags are known.
    fn spares(&self, since: u64, tags: &[u64]) -> Option<bool> {
        // One from the future was written by a server that has lost its memory since.
        if since < self.floor || since > self.last {
            return Some(false);
        }
        let mut spared = true;
        for tag in tags {
            spared &= *self.tags.get(tag)? <= since;
        }
        Some(spared)
    }

    fn learn(&mut self, found: &Cleared) {
        if self.last != found.last || self.tags.len() + found.tags.len() > MAX_LEARNED {
            (self.last, self.tags) = (found.last, HashMap::new());
        }
        self.floor = found.floor;
        self.tags.extend(&found.tags);
    }
}

/// What this process knows of the clears of a cache.
#[derive(Debug, Default)]
pub(crate) struct TagClears(Mutex<Cleared>);

impl TagClears {
    fn lock(&self) -> MutexGuard<'_, Cleared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RemoteTier {
    /// Returns whether an entry counts for a reader that found this stamp beside it.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub(crate) async fn spares<V>(&self, entry: &Entry<V>, stamp: Stamp) -> Result<bool> {
        Ok(self.spares_each(&[(entry, stamp)]).await?.pop().unwrap_or_default())
    }

    /// Returns which of these entries count, each for a reader that found this stamp beside it.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub(crate) async fn spares_each<V>(&self, found: &[(&Entry<V>, Stamp)]) -> Result<Vec<bool>> {
        let judge = |cleared: &Cleared, (entry, stamp): &(&Entry<V>, Stamp), exact: bool| {
            if entry.clears == stamp.clears {
                return Some(true);
            }
            // What is remembered may be used only if it is of the number that the reader found, and the
            // entry is older than that number. On a Cluster and in batches both are read separately, so
            // the entry may be newer: then Redis is asked.
            let holds = exact || cleared.last == stamp.clears && entry.clears < stamp.clears;
            holds
                .then(|| cleared.spares(entry.clears, entry.tags.as_deref().unwrap_or_default()))?
        };
        let known: Vec<Option<bool>> = match &self.tag_clears {
            Some(known) => {
                let known = known.lock();
                found.iter().map(|found| judge(&known, found, false)).collect()
            }
            None => vec![Some(true); found.len()],
        };
        let unknown = found.iter().zip(&known).filter(|(_, known)| known.is_none());
        let tags = unknown.flat_map(|((entry, _), _)| entry.tags.iter().flat_map(|tags| &**tags));
        let mut tags: Vec<u64> = tags.copied().collect();
        if known.iter().all(Option::is_some) {
            return Ok(known.into_iter().flatten().collect());
        }
        tags.sort_unstable();
        tags.dedup();
        let now = self.cleared(&tags).await?;
        let judged = found.iter().zip(known);
        let judged = judged.map(|(found, known)| known.or_else(|| judge(&now, found, true)));
        Ok(judged.map(Option::unwrap_or_default).collect())
    }

    /// Like [`spares`](Self::spares), and changes nothing: what is lost is not begun anew.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub(crate) async fn would_spare<V>(&self, entry: &Entry<V>, stamp: Stamp) -> Result<bool> {
        if entry.clears == stamp.clears {
            return Ok(true);
        }
        let tags = entry.tags.as_deref().unwrap_or_default();
        let names = tags.iter().map(|tag| tag.to_be_bytes().to_vec()).chain([Vec::new()]);
        let key = self.names.cleared_tags();
        let commands = names.map(|name| {
            let mut score = cmd("ZSCORE");
            score.arg(key).arg(name);
            (key.to_vec(), score)
        });
        let mut clears = Vec::with_capacity(tags.len() + 1);
        for reply in self.client.send_all(commands.collect()).await {
            clears.push(redis::from_redis_value::<Option<f64>>(reply?)?.map(|clear| clear as u64));
        }
        // Without a floor, what was cleared is lost.
        let Some(floor) = clears.pop().flatten() else { return Ok(false) };
        let clears = clears.into_iter().map(Option::unwrap_or_default);
        let tags_cleared = tags.iter().copied().zip(clears).collect();
        let now = Cleared { last: stamp.clears, floor, tags: tags_cleared };
        Ok(now.spares(entry.clears, tags).unwrap_or_default())
    }

    /// Reads the last clears of tags.
    async fn cleared(&self, tags: &[u64]) -> Result<Cleared> {
        let (mut all, mut is_one_moment) = (Cleared::default(), true);
        let slices = tags.chunks(MAX_COMMAND_MEMBERS).chain(tags.is_empty().then_some(tags));
        for (index, slice) in slices.enumerate() {
            let call = slice
                .iter()
                .fold(self.tags_call().arg("read"), |call, tag| call.arg(&tag.to_be_bytes()[..]));
            let key = self.names.clears();
            let reply: Vec<u64> = self.guarded(key, || self.client.eval(&call)).await?;
            let (Some(&[last, floor]), Some(clears)) = (reply.first_chunk(), reply.get(2..)) else {
                return Err(Error::unexpected("clears of tags without their number"));
            };
            is_one_moment &= index == 0 || last == all.last;
            (all.last, all.floor) = (last, floor);
            all.tags.extend(slice.iter().copied().zip(clears.iter().copied()));
        }
        if let (Some(known), true) = (&self.tag_clears, is_one_moment) {
            known.lock().learn(&all);
        }
        Ok(all)
    }

    /// Returns the number of the last clear from its reply; begins one where it is lost.
    pub(super) async fn last_clear(&self, reply: Value) -> Result<u64> {
        match redis::from_redis_value(reply)? {
            Some(last) => Ok(last),
            // Boxed, because it is rare.
            None => Ok(Box::pin(self.cleared(&[])).await?.last),
        }
    }

    /// Reads the number of the last clear; 0 in a cache whose values carry no tags.
    pub(crate) async fn read_last_clear(&self) -> Result<u64> {
        if self.tag_clears.is_none() {
            return Ok(0);
        }
        let key = self.names.clears();
        let mut get = cmd("GET");
        get.arg(key);
        self.last_clear(self.guarded(key, || self.client.send(key, &get)).await?).await
    }

    /// Ends all entries whose values carry this tag.
    pub(super) async fn clear_value_tag(&self, tag: u64) -> Result<()> {
        let call = self.tags_call().arg("clear").arg(&tag.to_be_bytes()[..]).arg(MAX_CLEARED);
        self.client.run(&call).await.map(drop)
    }

    fn tags_call(&self) -> ScriptInvocation {
        TAGS.on(&[self.names.clears(), self.names.cleared_tags()])
    }
}
