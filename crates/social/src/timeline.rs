//! Timelines: members by time, one sorted set per subject, each a copy of database rows.
//!
//! The users that like a note and since when, a reader's inbox, an author's latest posts: all are
//! the same structure. Redis answers quickly, the source is the truth. One process reads a set that
//! Redis does not have from the source, and an absent set is never treated as an empty one (see
//! `rebuild`).
//!
//! Write the source first, then call [`TimelineOf::put`] or [`TimelineOf::remove`]. These change
//! only a complete set. If there is none, they end a rebuild that may have read the source too
//! early, and the next reader reads the source again. If they fail, call [`TimelineOf::forget`] as
//! soon as Redis answers. Changes of one member must come in the same order as in the source; a
//! lock around both writes ensures that.
//!
//! With [`TimelineBuilder::max_kept`] only the newest members are kept, and [`Newest::end`] says
//! whether the source has older ones. A member that is older than the oldest one kept is not added:
//! it would hide the members in between.

use std::{sync::Arc, time::Duration};

use redis::{FromRedisValue, Value};
use seawall_client::{
    Handle,
    client::ScriptInvocation,
    error::{Error, Result},
    member::Member,
};

use super::{
    Change, FanOut,
    by_time::{self, call, put},
    copies::{Copies, UserFn, handles},
    inbox_box::flat,
    rebuild::{Kind, Rebuilt, Snapshot},
    template::{check_count, check_score, members},
};

/// Largest number of members that may be kept.
const MAX_KEEP: usize = 100_000;
/// Scripts in one pipeline.
const FAN_OUT: usize = 500;

impl<M: Member> Timelines<M> {
    /// Returns a builder for timelines with this name.
    ///
    /// `load` reads a subject's members with their times from the source: all of them, or with
    /// [`TimelineBuilder::max_kept`] at least one more than are kept, if there are that many.
    #[must_use]
    pub fn builder<F, Fut, E>(
        handle: &Handle,
        name: impl Into<String>,
        load: F,
    ) -> TimelineBuilder<M>
    where
        F: Fn(M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<(M, i64)>, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        TimelineBuilder {
            copies: Copies::new(handle, "timeline", name, Kind::SortedSet),
            keep: 0,
            source: UserFn::new(load),
        }
    }
}

/// Settings of [`Timelines`].
pub struct TimelineBuilder<M> {
    copies: Copies,
    keep: usize,
    source: UserFn<M, Vec<(M, i64)>>,
}

impl<M: Member> TimelineBuilder<M> {
    /// Sets how many of the newest members are kept. Default: all.
    #[must_use]
    pub fn max_kept(mut self, newest: usize) -> Self {
        self.keep = newest;
        self
    }

    /// Sets how long a set is used before it is read from the source again. Default: one day.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.copies.ttl = time;
        self
    }

    /// Builds the timelines.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the lifetime is below a second, or more than 100,000 are kept.
    pub fn build(self) -> Result<Timelines<M>> {
        self.copies.check()?;
        if self.keep > MAX_KEEP {
            let keep = self.keep;
            return Err(Error::Invalid(format!(
                "max_kept is {keep}: at most {MAX_KEEP} are allowed"
            )));
        }
        Ok(Timelines { inner: Arc::new(self) })
    }
}

/// Timelines of all subjects; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::Change};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// // The source: note 42 is liked by 7 and 8.
/// let load = |note: u64| async move {
///     Ok::<_, std::io::Error>(if note == 42 { vec![(7, 1_000), (8, 2_000)] } else { vec![] })
/// };
/// let likes = seawall.timelines::<u64, _, _, _>("likes", load).build()?;
/// let note = likes.of(&42)?;
/// assert_eq!(note.first(5).await?, [7, 8]);
/// assert_eq!(note.put(&9, 3_000).await?, Change::Changed);
/// assert_eq!(note.put(&9, 3_000).await?, Change::Unchanged);
/// assert_eq!(note.count().await?, 3);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct Timelines<M> {
    inner: Arc<TimelineBuilder<M>>,
}

/// Members of a timeline, newest first; members of the same millisecond are in descending order of
/// their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest<M> {
    /// Members and their times.
    pub members: Vec<(M, i64)>,
    /// Whether the source has no older members either.
    pub end: bool,
}

impl<M: Member> Timelines<M> {
    /// Returns the timeline of one subject.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the subject is not a valid part of a key.
    pub fn of(&self, subject: &M) -> Result<TimelineOf<M>> {
        let copy = self.inner.copies.of(subject)?;
        Ok(TimelineOf { inner: Arc::clone(&self.inner), subject: subject.clone(), copy })
    }

    /// Adds a member to the timelines of many subjects, where they are complete. Safe to retry.
    ///
    /// # Errors
    /// [`Error::Invalid`] if an argument is not valid; then nothing is sent. Subjects whose server
    /// failed are in [`FanOut::missed`].
    pub async fn put_all(&self, subjects: &[M], member: &M, millis: i64) -> Result<FanOut<M>> {
        check_score(millis)?;
        let bytes = member.to_member()?.into_owned();
        let keep = self.inner.keep;
        self.fan_out(subjects, |copy| put(copy, &bytes, millis, keep)).await
    }

    /// Removes a member from the timelines of many subjects. Safe to retry.
    ///
    /// # Errors
    /// As [`Timelines::put_all`].
    pub async fn remove_all(&self, subjects: &[M], member: &M) -> Result<FanOut<M>> {
        let bytes = member.to_member()?.into_owned();
        self.fan_out(subjects, |copy| call(copy, "remove").arg(&bytes)).await
    }

    async fn fan_out(
        &self,
        subjects: &[M],
        change: impl Fn(&Rebuilt) -> ScriptInvocation,
    ) -> Result<FanOut<M>> {
        let mut done = FanOut { reached: 0, missed: Vec::new() };
        for slice in subjects.chunks(FAN_OUT) {
            let calls = slice.iter().map(|subject| Ok(change(&self.inner.copies.of(subject)?)));
            let calls = calls.collect::<Result<Vec<_>>>()?;
            done.note(slice, self.inner.copies.client().run_all(&calls).await)?;
        }
        Ok(done)
    }

    /// Returns which of these subjects' timelines have a member: one answer each, in order.
    ///
    /// The answer is `None` if Redis has no complete timeline. Nothing is rebuilt.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn known(&self, member: &M, subjects: &[M]) -> Result<Vec<Option<bool>>> {
        let bytes = member.to_member()?.into_owned();
        let mut answers = Vec::with_capacity(subjects.len());
        for slice in subjects.chunks(FAN_OUT) {
            let calls = slice
                .iter()
                .map(|subject| Ok(call(&self.inner.copies.of(subject)?, "has").arg(&bytes)))
                .collect::<Result<Vec<_>>>()?;
            for reply in self.inner.copies.client().run_all(&calls).await {
                let found: Option<Vec<Value>> = redis::from_redis_value(reply?)?;
                answers.push(found.map(|found| found.first().is_some_and(|it| *it != Value::Nil)));
            }
        }
        Ok(answers)
    }
}

/// The timeline of one subject.
pub struct TimelineOf<M> {
    inner: Arc<TimelineBuilder<M>>,
    subject: M,
    copy: Rebuilt,
}

impl<M: Member> TimelineOf<M> {
    /// Adds a member, after the source has it. Unchanged if there is no complete timeline. Safe to
    /// retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn put(&self, member: &M, millis: i64) -> Result<Change> {
        check_score(millis)?;
        let put = put(&self.copy, &member.to_member()?, millis, self.inner.keep);
        self.change(&put).await
    }

    /// Removes a member, after the source has removed it. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn remove(&self, member: &M) -> Result<Change> {
        self.change(&call(&self.copy, "remove").arg(&*member.to_member()?)).await
    }

    async fn change(&self, call: &ScriptInvocation) -> Result<Change> {
        match self.inner.copies.client().eval::<Option<u8>>(call).await? {
            Some(1) => Ok(Change::Changed),
            Some(0) | None => Ok(Change::Unchanged),
            Some(other) => Err(Error::unexpected(format!("{other} is not a change's answer"))),
        }
    }

    /// Returns which of these members it has: one answer each, in order; at most
    /// [`SLICE`](super::SLICE).
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn has(&self, asked: &[M]) -> Result<Vec<bool>> {
        check_count(asked.len())?;
        let mut call = call(&self.copy, "has");
        for member in asked {
            call = call.arg(&*member.to_member()?);
        }
        let found: Vec<Value> = self.run(&call).await?;
        Ok(found.iter().map(|score| *score != Value::Nil).collect())
    }

    /// Returns the number of members, of those that are kept.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.run(&call(&self.copy, "count")).await
    }

    /// Returns the number of members that are newer than this time, of those that are kept.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn count_since(&self, millis: i64) -> Result<u64> {
        check_score(millis)?;
        self.run(&call(&self.copy, "since").arg(millis)).await
    }

    /// Returns the first members in order of time, at most [`SLICE`](super::SLICE).
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn first(&self, count: usize) -> Result<Vec<M>> {
        check_count(count)?;
        let found: Vec<Vec<u8>> = self.run(&call(&self.copy, "first").arg(count)).await?;
        members(&found)
    }

    /// Returns the newest members with a time of at most `max`, at most [`SLICE`](super::SLICE).
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn newest(&self, max: i64, count: usize) -> Result<Newest<M>> {
        check_count(count)?;
        check_score(max)?;
        let call = call(&self.copy, "newest").arg(max).arg(count);
        let (flag, found): (u8, Value) = self.run(&call).await?;
        let found = flat(found)?;
        let end = flag == 1 && found.len() < count;
        let members = found.iter().map(|(member, time)| Ok((M::from_member(member)?, *time)));
        Ok(Newest { members: members.collect::<Result<_>>()?, end })
    }

    /// Deletes the copy; it is read from the source when it is needed again. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn forget(&self) -> Result<()> {
        self.copy.forget().await
    }

    /// Returns the newest members of the source, as they are written to Redis.
    async fn snapshot(&self) -> Result<Snapshot> {
        let mut found = self.inner.source.call(self.subject.clone()).await?;
        found.sort_unstable_by(|(a, at), (b, bt)| bt.cmp(at).then_with(|| b.cmp(a)));
        found.iter().try_for_each(|(_, millis)| check_score(*millis))?;
        let (keep, read) = (self.inner.keep, found.len());
        if keep > 0 {
            found.truncate(keep);
        }
        by_time::snapshot(found, keep == 0 || read <= keep)
    }

    /// Runs a script on a complete timeline; rebuilds the timeline if needed.
    async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation) -> Result<T> {
        self.copy.eval(call, || self.snapshot()).await
    }
}

handles!(TimelineBuilder, Timelines, TimelineOf);
