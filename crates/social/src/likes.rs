//! Likes: who likes a thing, since when, and who was first.
//!
//! One sorted set a thing, member → milliseconds of the server's clock. Whether somebody *newly*
//! likes it is decided by what ZADD and ZREM changed, inside one script: a double click finds the
//! member there and changes nothing, and the count is the set's own cardinality, never a number that
//! is kept beside it.
//!
//! A thing with millions of likes is spread over several sets by [`Likes::spread`]: each member has
//! one bucket, so the gate stays one command on one key, buckets lie on different primaries of a
//! Cluster, the count is the sum of cardinalities and the first ones are merged from the first of
//! each bucket. Deliberately absent: trimming. Whoever was trimmed away could like twice.
//!
//! [`LikesOf::toggle`] is the one operation that cannot simply be repeated; it carries a reference,
//! under which the server remembers the outcome for [`REMEMBERED`].

use std::{collections::BinaryHeap, marker::PhantomData, time::Duration};

use redis::{Cmd, cmd};
use seawall_client::{
    Handle, KeyPart,
    client::Script,
    error::{Error, Result},
    member::Member,
    retry::again,
};

use super::{
    SLICE,
    template::{Template, check_count, check_reference, check_score, remembered, scored},
};

/// For how long a toggle's outcome is known by its reference.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How often a toggle is sent when no reply comes.
const TOGGLE_ATTEMPTS: usize = 3;
/// Most buckets.
const MAX_SPREAD: u16 = 1024;

static SWITCH: Script = Script::new(include_str!("script/like.lua"));

impl<M: Member> Likes<M> {
    /// Likes of one kind of thing; all who use the name must say the same [`Likes::spread`].
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> Likes<M> {
        Likes { template: Template::new(handle, "like", name), spread: 1, member: PhantomData }
    }
}

/// Likes of one kind of thing; a cheap clone.
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

/// Whether something was changed, or was so already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says whether a counter elsewhere has to follow"]
pub enum Change {
    /// It is so by this call.
    Changed,
    /// It was so before.
    Unchanged,
}

/// What a toggle came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says which way it went"]
pub enum Toggle {
    /// It is liked now.
    On,
    /// It is not liked any more.
    Off,
}

impl<M: Member> Likes<M> {
    /// Spreads each thing's likes over so many keys, 1 to 1,024; 1 without it. For things with more
    /// than some ten thousand likes.
    ///
    /// # Errors
    /// [`Error::Invalid`] beyond these bounds.
    pub fn spread(mut self, keys: u16) -> Result<Self> {
        if keys == 0 || keys > MAX_SPREAD {
            return Err(Error::Invalid(format!(
                "spread is {keys}: 1 to {MAX_SPREAD} keys are allowed"
            )));
        }
        self.spread = keys;
        Ok(self)
    }

    /// The likes of one thing.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the subject is empty or too long.
    pub fn of(&self, subject: &(impl KeyPart + ?Sized)) -> Result<LikesOf<M>> {
        let keys = match self.spread {
            1 => vec![self.template.key(subject)?],
            many => (0..many)
                .map(|bucket| self.template.key(&(subject, bucket)))
                .collect::<Result<_>>()?,
        };
        Ok(LikesOf { template: self.template.clone(), keys, member: PhantomData })
    }

    /// Which of these things a member likes: one answer each, in order.
    ///
    /// # Errors
    /// When Redis does not answer.
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

/// The likes of one thing.
#[derive(Debug, Clone)]
pub struct LikesOf<M> {
    template: Template,
    /// One a bucket.
    keys: Vec<Vec<u8>>,
    member: PhantomData<fn(M) -> M>,
}

impl<M: Member> LikesOf<M> {
    /// Likes it. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn like(&self, member: &M) -> Result<Change> {
        change(self.switch(member, "like", "").await?)
    }

    /// Takes a like back. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn unlike(&self, member: &M) -> Result<Change> {
        change(self.switch(member, "unlike", "").await?)
    }

    /// Turns it round, once: when a reply is lost it is asked again under the same reference.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn toggle(&self, member: &M) -> Result<Toggle> {
        let reference = format!("{:032x}", rand::random::<u128>());
        again(TOGGLE_ATTEMPTS, || self.toggle_once(member, &reference)).await
    }

    /// Turns it round, once for each reference of this member: a client that names its click can repeat
    /// it for five minutes and gets the first answer again.
    ///
    /// # Errors
    /// When Redis does not answer; [`Error::Invalid`] for a reference that is empty or longer than
    /// 128 bytes.
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
            .arg(REMEMBERED.as_millis() as u64);
        self.template.client().eval(&call).await
    }

    /// How many like it.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn count(&self) -> Result<u64> {
        let mut count = 0;
        for reply in self.each_bucket(|key| one_key("ZCARD", key)).await? {
            count += redis::from_redis_value::<u64>(reply)?;
        }
        Ok(count)
    }

    /// The first to like it, in order of time; those of one millisecond in order of their bytes. At
    /// most [`SLICE`].
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn first(&self, count: usize) -> Result<Vec<M>> {
        check_count(count)?;
        let replies = self.each_bucket(|key| {
            let mut command = one_key("ZRANGE", key);
            command.arg(0).arg(count - 1).arg("WITHSCORES");
            command
        });
        // The largest of the `count` smallest is on top, and leaves first.
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

    /// Which of these like it: one answer each, in order.
    ///
    /// # Errors
    /// When Redis does not answer.
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

    /// Puts likes back that the database knows, with the times at which they were given; those that
    /// are there keep theirs. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer: some of them may be there.
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

    /// Forgets all of them, as when the thing is deleted. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer.
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
