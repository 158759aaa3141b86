//! Likes: the members that like an object, since when, and the first of them.
//!
//! There is one sorted set per object, member → milliseconds of the server's clock. Whether a like
//! is *new* is decided by what ZADD and ZREM changed, inside one script. A double click finds the
//! member there and changes nothing. The count is the cardinality of the set, never a separate
//! number.
//!
//! [`Likes::shards`] spreads an object with millions of likes over several sets. Each member has
//! one bucket, so a like is still one script on one key, and the buckets are on different primaries
//! of a Cluster. The count is the sum of the cardinalities, and the first likes are merged from the
//! first of each bucket. Deliberately absent: trimming. A member that was trimmed could like twice.
//!
//! [`LikesOf::toggle`] is the only operation that is not safe to retry as it is. It has a
//! reference, for which the server remembers the outcome for [`REMEMBERED`].

use std::{collections::BinaryHeap, marker::PhantomData, time::Duration};

use redis::{Cmd, cmd};
use seawall_client::{
    Handle, KeyPart,
    client::Script,
    error::{Error, Result},
    member::Member,
    retry::again,
};
use seawall_resilience::clock::millis;

use super::{
    SLICE,
    template::{Template, check_count, check_reference, check_score, remembered, scored},
};

/// How long the outcome of a toggle is remembered for its reference.
const REMEMBERED: Duration = Duration::from_secs(300);
/// Attempts of a toggle if no reply arrives.
const TOGGLE_ATTEMPTS: usize = 3;
/// Most buckets.
const MAX_SPREAD: u16 = 1024;

static SWITCH: Script = Script::with_time(include_str!("script/like.lua"));

impl<M: Member> Likes<M> {
    /// Creates likes for one kind of object; all processes that use the name must set the same
    /// [`Likes::shards`].
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> Likes<M> {
        Likes { template: Template::new(handle, "like", name), spread: 1, member: PhantomData }
    }
}

/// Likes of one kind of object; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::{Change, Toggle}};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let note = seawall.likes::<u64>("note").of(&42)?;
/// assert_eq!(note.like(&7).await?, Change::Changed);
/// assert_eq!(note.like(&7).await?, Change::Unchanged, "a double click is one like");
/// assert_eq!(note.toggle(&7).await?, Toggle::Off);
/// assert_eq!(note.count().await?, 0);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Likes<M> {
    template: Template,
    spread: u16,
    member: PhantomData<fn(M) -> M>,
}

/// Outcome of [`LikesOf::like`] and of other changes that are safe to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says whether a counter elsewhere has to follow"]
pub enum Change {
    /// This call made the change.
    Changed,
    /// It was so before.
    Unchanged,
}

/// Outcome of [`LikesOf::toggle`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says which way it went"]
pub enum Toggle {
    /// The member likes it now.
    On,
    /// The member no longer likes it.
    Off,
}

impl<M: Member> Likes<M> {
    /// Sets the number of keys over which each object's likes are spread, 1 to 1,024. Default: 1.
    ///
    /// Use more than 1 for objects with more than about ten thousand likes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the number is out of range.
    pub fn shards(mut self, keys: u16) -> Result<Self> {
        if keys == 0 || keys > MAX_SPREAD {
            return Err(Error::Invalid(format!(
                "shards is {keys}: 1 to {MAX_SPREAD} keys are allowed"
            )));
        }
        self.spread = keys;
        Ok(self)
    }

    /// Returns the likes of one object.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the subject is empty or too long.
    pub fn of(&self, subject: &(impl KeyPart + ?Sized)) -> Result<LikesOf<M>> {
        let keys = match self.spread {
            1 => vec![self.template.key(subject)?],
            many => (0..many)
                .map(|bucket| self.template.key(&(subject, bucket)))
                .collect::<Result<_>>()?,
        };
        Ok(LikesOf { template: self.template.clone(), keys, member: PhantomData })
    }

    /// Returns which of these objects a member likes: one answer each, in order.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn liked_by<K: KeyPart>(&self, member: &M, subjects: &[K]) -> Result<Vec<bool>> {
        let bytes = member.to_member()?;
        let mut liked = Vec::with_capacity(subjects.len());
        for slice in subjects.chunks(SLICE) {
            let mut commands = Vec::with_capacity(slice.len());
            for subject in slice {
                let of = self.of(subject)?;
                let key = of.keys[of.bucket(&bytes)].clone();
                let mut command = cmd("ZSCORE");
                command.arg(&key).arg(&*bytes);
                commands.push((key, command));
            }
            for reply in self.template.client().send_all(commands).await {
                liked.push(reply? != redis::Value::Nil);
            }
        }
        Ok(liked)
    }
}

/// The likes of one object.
#[derive(Debug, Clone)]
pub struct LikesOf<M> {
    template: Template,
    /// One key per bucket.
    keys: Vec<Vec<u8>>,
    member: PhantomData<fn(M) -> M>,
}

impl<M: Member> LikesOf<M> {
    /// Adds a like. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn like(&self, member: &M) -> Result<Change> {
        change(self.switch(member, "like", "").await?)
    }

    /// Removes a like. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn unlike(&self, member: &M) -> Result<Change> {
        change(self.switch(member, "unlike", "").await?)
    }

    /// Toggles a like, exactly once: if a reply is lost, the call is repeated with the same
    /// reference.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn toggle(&self, member: &M) -> Result<Toggle> {
        let reference = format!("{:032x}", self.template.client().randomness().u128());
        again(TOGGLE_ATTEMPTS, || self.toggle_once(member, &reference)).await
    }

    /// Toggles a like once per reference of this member.
    ///
    /// A client that sends a reference with its click can retry for five minutes and gets the first
    /// answer again.
    ///
    /// # Errors
    /// If Redis does not answer; [`Error::Invalid`] if the reference is empty or longer than 128
    /// bytes.
    pub async fn toggle_once(&self, member: &M, reference: &str) -> Result<Toggle> {
        check_reference(reference)?;
        match self.switch(member, "toggle", reference).await? {
            1 => Ok(Toggle::On),
            2 => Ok(Toggle::Off),
            other => Err(Error::unexpected(format!("{other} is not a toggle's answer"))),
        }
    }

    async fn switch(&self, member: &M, mode: &str, reference: &str) -> Result<u8> {
        let bytes = member.to_member()?;
        let key = &self.keys[self.bucket(&bytes)];
        let remembered = remembered(key, ":toggle:", &bytes, reference);
        let call = SWITCH
            .on(&[key.as_slice(), &remembered])
            .arg(mode)
            .arg(&*bytes)
            .arg(millis(REMEMBERED));
        self.template.client().eval(&call).await
    }

    /// Returns the number of likes.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn count(&self) -> Result<u64> {
        let mut count = 0;
        for reply in self.each_bucket(|key| one_key("ZCARD", key)).await? {
            count += redis::from_redis_value::<u64>(reply)?;
        }
        Ok(count)
    }

    /// Returns the first members to like it, in order of time, at most [`SLICE`].
    ///
    /// Members of the same millisecond are ordered by their bytes.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn first(&self, count: usize) -> Result<Vec<M>> {
        check_count(count)?;
        let replies = self.each_bucket(|key| {
            let mut command = one_key("ZRANGE", key);
            command.arg(0).arg(count - 1).arg("WITHSCORES");
            command
        });
        // The largest of the `count` smallest is on top, and is removed first.
        let mut smallest = BinaryHeap::with_capacity(count + 1);
        for reply in replies.await? {
            for (member, time) in scored(reply)? {
                smallest.push((time, member));
                if smallest.len() > count {
                    smallest.pop();
                }
            }
        }
        smallest.into_sorted_vec().iter().map(|(_, member)| M::from_member(member)).collect()
    }

    /// Returns which of these members like it: one answer each, in order.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn among(&self, asked: &[M]) -> Result<Vec<bool>> {
        let mut liked = vec![false; asked.len()];
        for (slice, answers) in asked.chunks(SLICE).zip(liked.chunks_mut(SLICE)) {
            let mut places: Vec<Vec<usize>> = vec![Vec::new(); self.keys.len()];
            let mut commands: Vec<Cmd> =
                self.keys.iter().map(|key| one_key("ZMSCORE", key)).collect();
            for (place, member) in slice.iter().enumerate() {
                let bytes = member.to_member()?;
                let bucket = self.bucket(&bytes);
                commands[bucket].arg(&*bytes);
                places[bucket].push(place);
            }
            let wanted = self.keys.iter().cloned().zip(commands).zip(places);
            let (commands, places): (Vec<_>, Vec<_>) =
                wanted.filter(|(_, places)| !places.is_empty()).unzip();
            let replies = self.template.client().send_all(commands).await;
            for (reply, places) in replies.into_iter().zip(places) {
                let scores: Vec<Option<f64>> = redis::from_redis_value(reply?)?;
                for (score, place) in scores.into_iter().zip(places) {
                    answers[place] = score.is_some();
                }
            }
        }
        Ok(liked)
    }

    /// Restores likes from the database, with their times; likes that exist keep their times. Safe
    /// to retry.
    ///
    /// # Errors
    /// If Redis does not answer: some of them may have been restored.
    pub async fn restore(&self, likes: &[(M, i64)]) -> Result<()> {
        for slice in likes.chunks(SLICE) {
            let mut commands: Vec<Option<Cmd>> = vec![None; self.keys.len()];
            for (member, millis) in slice {
                check_score(*millis)?;
                let bytes = member.to_member()?;
                let bucket = self.bucket(&bytes);
                let command = commands[bucket].get_or_insert_with(|| {
                    let mut command = one_key("ZADD", &self.keys[bucket]);
                    command.arg("NX");
                    command
                });
                command.arg(*millis).arg(&*bytes);
            }
            let commands = self.keys.iter().cloned().zip(commands);
            let commands = commands.filter_map(|(key, command)| Some((key, command?))).collect();
            for reply in self.template.client().send_all(commands).await {
                reply?;
            }
        }
        Ok(())
    }

    /// Removes all likes, for example when the object is deleted. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn clear(&self) -> Result<()> {
        self.each_bucket(|key| one_key("UNLINK", key)).await.map(drop)
    }

    async fn each_bucket(&self, command: impl Fn(&[u8]) -> Cmd) -> Result<Vec<redis::Value>> {
        let commands = self.keys.iter().map(|key| (key.clone(), command(key))).collect();
        self.template.client().send_all(commands).await.into_iter().collect()
    }

    fn bucket(&self, member: &[u8]) -> usize {
        (xxhash_rust::xxh3::xxh3_64_with_seed(member, 0) % self.keys.len() as u64) as usize
    }
}

fn one_key(name: &str, key: &[u8]) -> Cmd {
    let mut command = cmd(name);
    command.arg(key);
    command
}

fn change(answer: u8) -> Result<Change> {
    match answer {
        0 => Ok(Change::Unchanged),
        1 | 2 => Ok(Change::Changed),
        other => Err(Error::unexpected(format!("{other} is not a like's answer"))),
    }
}
