//! A sorted set over buckets, ordered by merging.
//!
//! Each bucket is ordered by itself. A page of the whole is merged from a page of each bucket, and
//! a rank is the sum of the counts before it in each bucket. Equal scores are ordered by the
//! members' bytes, as in Redis, so a place in the order is a score *and* a member. Pages that
//! continue from the last place neither repeat nor skip members, however many share one score and
//! whatever is added meanwhile.

use std::{cmp::Ordering, collections::BTreeMap, fmt, marker::PhantomData};

use redis::Value;
use seawall_client::Handle;
use seawall_client::{
    MAX_COMMAND_MEMBERS,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
};

use super::{
    Cursor, Element, Growth, Kind,
    core::{Core, MAX_MEMBER_BYTES, Operation, check},
    element,
    hash::total,
    whole::pairs,
};

static AFTER: Script = Script::new(include_str!("script/after.lua"));

const SCORE: Operation = Operation::read("ZSCORE");
const ADD: Operation = Operation::write("ZADD", 2, 2);
const INCREMENT: Operation = Operation::write("ZINCRBY", 2, 2);
const REMOVE: Operation = Operation::write("ZREM", 1, 1);

/// How often a page is read again because buckets had moved.
const MAX_TRIES: u32 = 64;
/// Members of a page; with the longest members this stays below the limit of a command.
const PAGE: usize = MAX_COMMAND_MEMBERS / 5;

/// The direction in which a sorted set is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// From the lowest score.
    Rising,
    /// From the highest score.
    Falling,
}

/// A place in the order: a score, and a member among those that share it.
#[derive(Debug, Clone, PartialEq)]
pub struct Place<M> {
    /// Its score.
    pub score: f64,
    /// The member.
    pub member: M,
}

/// A sorted set whose members are spread over buckets; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, bigkey::{Order, Place}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let scores = seawall.bucketed_sorted_set::<String>("scores", 8)?;
/// let place = |score, member: &str| Place { score, member: member.to_owned() };
/// scores.add(&[place(3.0, "ann"), place(7.0, "bob"), place(7.0, "cyn")]).await?;
/// let top = scores.first(Order::Falling, 2).await?;
/// assert_eq!(top, [place(7.0, "cyn"), place(7.0, "bob")]);
/// assert_eq!(scores.rank(Order::Falling, &"ann".to_owned()).await?, Some(2));
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct BucketedSortedSet<M> {
    core: Core,
    shape: PhantomData<fn() -> M>,
}

impl<M: Element> BucketedSortedSet<M> {
    /// Creates a handle for a sorted set over buckets.
    ///
    /// `buckets` is used only when the set is created, not if it exists already.
    ///
    /// # Errors
    /// [`Error::Invalid`](seawall_client::Error::Invalid) if the name cannot be a key, or the
    /// number of buckets is not allowed.
    pub fn new(handle: &Handle, name: &str, buckets: u64) -> Result<Self> {
        let core = Core::new(handle, Kind::SortedSet, name, buckets)?;
        Ok(BucketedSortedSet { core, shape: PhantomData })
    }

    /// Adds members or changes their scores, and returns how many are new.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] if a member is too
    /// long or a score is NaN. After an error some may have been added.
    pub async fn add(&self, places: &[Place<M>]) -> Result<u64> {
        let all: Result<Vec<_>> = places
            .iter()
            .map(|place| Ok(vec![text(place.score)?, place.member.to_bytes().into_owned()]))
            .collect();
        total(self.core.each(ADD, all?).await?)
    }

    /// Adds to a member's score, and returns the sum.
    ///
    /// # Errors
    /// As [`BucketedSortedSet::add`]. After [`Error::Indeterminate`] it is unknown whether it was
    /// added.
    pub async fn increment(&self, member: &M, by: f64) -> Result<f64> {
        let args = vec![text(by)?, member.to_bytes().into_owned()];
        score(self.core.one(INCREMENT, args).await?)?
            .ok_or_else(|| Error::unexpected("an increment without a sum"))
    }

    /// Returns a member's score.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn score(&self, member: &M) -> Result<Option<f64>> {
        score(self.core.one(SCORE, vec![member.to_bytes().into_owned()]).await?)
    }

    /// Returns the scores of many members, in their order.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn scores(&self, members: &[M]) -> Result<Vec<Option<f64>>> {
        let all = members.iter().map(|member| vec![member.to_bytes().into_owned()]).collect();
        self.core.each(SCORE, all).await?.into_iter().map(score).collect()
    }

    /// Removes members and returns how many existed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn remove(&self, members: &[M]) -> Result<u64> {
        let all = members.iter().map(|member| vec![member.to_bytes().into_owned()]).collect();
        total(self.core.each(REMOVE, all).await?)
    }

    /// Returns the number of members before this one, or `None` if it does not exist.
    ///
    /// Concurrent changes may or may not be counted.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn rank(&self, order: Order, member: &M) -> Result<Option<u64>> {
        let Some(score) = self.score(member).await? else { return Ok(None) };
        let from = (score, member.to_bytes().into_owned());
        Ok(Some(self.merged(order, Some(&from), 0).await?.0))
    }

    /// Returns the first members, at most 200.
    ///
    /// # Errors
    /// As [`BucketedSortedSet::after`].
    pub async fn first(&self, order: Order, count: usize) -> Result<Vec<Place<M>>> {
        self.page(order, None, count).await
    }

    /// Returns the members after a place, at most 200. The place need not exist any more.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send); [`Error::Invalid`] if `count` is too
    /// large, [`Error::Unexpected`] if the bytes are not an `M`.
    pub async fn after(
        &self,
        order: Order,
        place: &Place<M>,
        count: usize,
    ) -> Result<Vec<Place<M>>> {
        text(place.score)?;
        let from = (place.score, place.member.to_bytes().into_owned());
        self.page(order, Some(&from), count).await
    }

    /// Returns members with scores in this range, both ends included, in ascending order.
    ///
    /// A page has at most 200 members and continues from the last place of the page before.
    ///
    /// # Errors
    /// As [`BucketedSortedSet::after`].
    pub async fn range_by_score(
        &self,
        scores: std::ops::RangeInclusive<f64>,
        after: Option<&Place<M>>,
        count: usize,
    ) -> Result<Vec<Place<M>>> {
        text(*scores.start())?;
        // The empty member comes before all others of its score, and is never a member itself.
        let mut from = (*scores.start(), Vec::new());
        if let Some(place) = after
            && place.score >= from.0
        {
            from = (place.score, place.member.to_bytes().into_owned());
        }
        let mut page = self.page(Order::Rising, Some(&from), count).await?;
        page.retain(|place| place.score <= *scores.end());
        Ok(page)
    }

    /// Returns the number of members; see [`BucketedHash::len`](super::BucketedHash::len).
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send).
    pub async fn len(&self) -> Result<u64> {
        self.core.count().await
    }

    /// Returns `true` if there are no members.
    ///
    /// # Errors
    /// As [`BucketedSortedSet::len`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns some members in no particular order, and the cursor to continue with; see
    /// [`BucketedHash::scan`](super::BucketedHash::scan).
    ///
    /// # Errors
    /// As [`BucketedSortedSet::after`].
    pub async fn scan(&self, cursor: &Cursor) -> Result<(Vec<Place<M>>, Option<Cursor>)> {
        let page = self.core.page(cursor).await?;
        let places: Result<Vec<_>> = pairs(page.items)
            .into_iter()
            .map(|(member, score)| Ok(Place { score: parse(&score)?, member: element(member)? }))
            .collect();
        Ok((places?, page.next))
    }

    /// Raises the number of buckets, as [`BucketedHash::grow`](super::BucketedHash::grow).
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn grow(&self, buckets: u64, progress: impl FnMut(Growth)) -> Result<Growth> {
        self.core.grow(buckets, progress).await
    }

    /// Takes over an existing sorted set, as [`BucketedHash::adopt`](super::BucketedHash::adopt).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key cannot be taken over.
    pub async fn adopt(&self, key: &[u8]) -> Result<()> {
        self.core.adopt(key).await
    }

    /// Removes everything, in slices, and returns how many members were removed.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): call again to continue.
    pub async fn remove_all(&self) -> Result<u64> {
        self.core.remove().await
    }

    async fn page(
        &self,
        order: Order,
        from: Option<&(f64, Vec<u8>)>,
        count: usize,
    ) -> Result<Vec<Place<M>>> {
        if count > PAGE {
            return Err(Error::Invalid(format!("{count} members at once, the most is {PAGE}")));
        }
        if count == 0 {
            return Ok(Vec::new());
        }
        let (_, mut all) = self.merged(order, from, count).await?;
        all.sort_by(|one, other| {
            let rising = one.0.total_cmp(&other.0).then_with(|| one.1.cmp(&other.1));
            if order == Order::Rising { rising } else { rising.reverse() }
        });
        all.truncate(count);
        all.into_iter()
            .map(|(score, member)| Ok(Place { score, member: element(member)? }))
            .collect()
    }

    /// Returns the members of each bucket after a place, and how many come before it in all
    /// buckets.
    async fn merged(
        &self,
        order: Order,
        from: Option<&(f64, Vec<u8>)>,
        count: usize,
    ) -> Result<(u64, Vec<(f64, Vec<u8>)>)> {
        let core = &self.core;
        if let Some((_, member)) = from {
            check(member, "member", MAX_MEMBER_BYTES)?;
        }
        'again: for _ in 0..MAX_TRIES {
            let Some(layout) = core.look().await? else { return Ok((0, Vec::new())) };
            let (mut skipped, mut found) = (0, BTreeMap::new());
            // Old buckets first: a member that moves meanwhile is then seen twice, not missed.
            for generation in std::iter::once(layout.current).chain(layout.next) {
                let buckets: Result<Vec<_>> = (0..generation.buckets)
                    .map(|index| core.names.bucket(&layout, generation, index))
                    .collect();
                let calls: Vec<ScriptInvocation> = buckets?
                    .iter()
                    .map(|bucket| {
                        AFTER
                            .on(&[&bucket.gate, &bucket.data])
                            .arg(if order == Order::Rising { "up" } else { "down" })
                            .arg(from.map(|(score, _)| score.to_string()).unwrap_or_default())
                            .arg(from.map(|(_, member)| member.clone()).unwrap_or_default())
                            .arg(count)
                    })
                    .collect();
                for reply in core.handle().client().run_all(&calls).await {
                    let (state, before, items): (String, u64, Vec<Vec<u8>>) =
                        redis::from_redis_value(reply?)?;
                    if state == "gone" && layout.next.is_none() {
                        continue 'again;
                    }
                    skipped += before;
                    for (member, score) in pairs(items) {
                        // The value of the newer bucket wins.
                        found.insert(member, parse(&score)?);
                    }
                }
            }
            let found = found.into_iter().map(|(member, score)| (score, member)).collect();
            return Ok((skipped, found));
        }
        Err(Error::Unavailable("the buckets keep moving".into()))
    }
}

impl<M: PartialOrd> PartialOrd for Place<M> {
    /// By score, then by member: the order of Redis if members are text.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.score.partial_cmp(&other.score)? {
            Ordering::Equal => self.member.partial_cmp(&other.member),
            order => Some(order),
        }
    }
}

fn text(score: f64) -> Result<Vec<u8>> {
    if score.is_nan() {
        return Err(Error::Invalid("a score must be a number".into()));
    }
    Ok(score.to_string().into_bytes())
}

fn parse(score: &[u8]) -> Result<f64> {
    let parsed = std::str::from_utf8(score).ok().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| Error::unexpected("a score that is no number"))
}

fn score(reply: Option<Value>) -> Result<Option<f64>> {
    match reply {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::BulkString(bytes)) => parse(&bytes).map(Some),
        other => Err(Error::unexpected(format!("a score that is {other:?}"))),
    }
}

impl<M> Clone for BucketedSortedSet<M> {
    fn clone(&self) -> Self {
        BucketedSortedSet { core: self.core.clone(), shape: PhantomData }
    }
}

impl<M> fmt::Debug for BucketedSortedSet<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.core.names.name;
        f.debug_struct("BucketedSortedSet").field("name", name).finish_non_exhaustive()
    }
}
