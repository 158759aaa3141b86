//! Follow sets: one set per user, with the users that this user follows. The fans of a user are the
//! same structure in the other direction, under another name.
//!
//! With a source ([`FollowBuilder::source`]) the set is a copy of the database: one process
//! rebuilds it if Redis does not have it, and an absent set is never treated as an empty one (see
//! `rebuild`). Write the database first and then call [`FollowsOf::follow`]: it is applied to a
//! complete set, so that a rebuild which read the database a moment before cannot undo it. If it
//! fails, call [`FollowsOf::forget`].
//!
//! Without a source Redis is the source of truth, and an absent set is an empty one.

use std::{sync::Arc, time::Duration};

use redis::{FromRedisValue, cmd};
use seawall_client::{
    Handle,
    client::{Client, Script, ScriptInvocation},
    error::{Error, Result},
    member::Member,
};

use super::{
    SLICE,
    copies::{Copies, UserFn, handles},
    rebuild::{Kind, Rank, Rebuilt, Snapshot},
    template::members,
};

static FOLLOW: Script = Script::new(include_str!("script/follow.lua"));

impl<M: Member> Follows<M> {
    /// Returns a builder for follow sets with this name.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>) -> FollowBuilder<M> {
        FollowBuilder {
            copies: Copies::new(handle, "follow", name, Kind::Set),
            limit: 0,
            source: None,
        }
    }
}

/// Settings of [`Follows`].
pub struct FollowBuilder<M> {
    copies: Copies,
    limit: usize,
    source: Option<UserFn<M, Vec<M>>>,
}

impl<M: Member> FollowBuilder<M> {
    /// Sets how many others a user may follow. Default: no limit.
    #[must_use]
    pub fn max_follows(mut self, most: usize) -> Self {
        self.limit = most;
        self
    }

    /// Sets how long a set is used before it is read from the source again. Default: one day.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.copies.ttl = time;
        self
    }

    /// Sets the source of a set that Redis does not have: `load` returns everyone this user
    /// follows.
    #[must_use]
    pub fn source<F, Fut, E>(mut self, load: F) -> Self
    where
        F: Fn(M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<M>, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        self.source = Some(UserFn::new(load));
        self
    }

    /// Builds the follow sets.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the lifetime is below a second.
    pub fn build(self) -> Result<Follows<M>> {
        self.copies.check()?;
        Ok(Follows { inner: Arc::new(self) })
    }
}

/// Follow sets of all users; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::Follow};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let follows = seawall.follows::<u64>("user").build()?;
/// let (ann, ben) = (follows.of(&1)?, follows.of(&2)?);
/// assert_eq!(ann.follow(&3).await?, Follow::Followed);
/// assert_eq!(ann.follow(&3).await?, Follow::Already);
/// assert_eq!(ann.follow(&1).await?, Follow::Oneself);
/// let _ = ben.follow(&3).await?;
/// assert_eq!(ann.common(&ben, 10).await?, [3]);
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct Follows<M> {
    inner: Arc<FollowBuilder<M>>,
}

/// Outcome of [`FollowsOf::follow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it may have been refused"]
pub enum Follow {
    /// This call added the follow.
    Followed,
    /// The user already followed the other one.
    Already,
    /// A user cannot follow itself.
    Oneself,
    /// The user already follows as many others as are allowed.
    Full,
}

/// Outcome of [`FollowsOf::unfollow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says whether something has to follow, such as cleaning an inbox"]
pub enum Unfollow {
    /// This call removed the follow.
    Unfollowed,
    /// The user did not follow the other one.
    NotFollowing,
}

impl<M: Member> Follows<M> {
    /// Returns the follow set of a user.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the user is not a valid part of a key.
    pub fn of(&self, who: &M) -> Result<FollowsOf<M>> {
        let copy = self.inner.copies.of(who)?;
        Ok(FollowsOf { inner: Arc::clone(&self.inner), who: who.clone(), copy })
    }
}

/// The follow set of one user.
pub struct FollowsOf<M> {
    inner: Arc<FollowBuilder<M>>,
    pub(super) who: M,
    copy: Rebuilt,
}

impl<M: Member> FollowsOf<M> {
    /// Follows another user. Safe to retry.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn follow(&self, whom: &M) -> Result<Follow> {
        if *whom == self.who {
            return Ok(Follow::Oneself);
        }
        let call = self.call("follow").arg(self.inner.limit).arg(&*whom.to_member()?);
        match self.run(&call).await? {
            0 => Ok(Follow::Already),
            1 => Ok(Follow::Followed),
            2 => Ok(Follow::Full),
            other => Err(Error::unexpected(format!("{other} is not an answer to following"))),
        }
    }

    /// Unfollows another user. Safe to retry.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn unfollow(&self, whom: &M) -> Result<Unfollow> {
        match self.run(&self.call("unfollow").arg(0).arg(&*whom.to_member()?)).await? {
            1 => Ok(Unfollow::Unfollowed),
            0 => Ok(Unfollow::NotFollowing),
            other => Err(Error::unexpected(format!("{other} is not an answer to unfollowing"))),
        }
    }

    /// Returns how many others the user follows.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.run(&self.call("count").arg(0)).await
    }

    /// Returns `true` if the user follows this one.
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn is_following(&self, whom: &M) -> Result<bool> {
        Ok(self.following(std::slice::from_ref(whom)).await?.pop().unwrap_or_default())
    }

    /// Returns which of these the user follows: one answer each, in order. Asks in slices of
    /// [`SLICE`].
    ///
    /// # Errors
    /// If Redis or the source does not answer.
    pub async fn following(&self, asked: &[M]) -> Result<Vec<bool>> {
        let mut answers = Vec::with_capacity(asked.len());
        for slice in asked.chunks(SLICE) {
            let mut call = self.call("has").arg(0);
            for whom in slice {
                call = call.arg(&*whom.to_member()?);
            }
            answers.extend(self.run::<Vec<u8>>(&call).await?.into_iter().map(|there| there == 1));
        }
        Ok(answers)
    }

    /// Deletes the copy in Redis; with a source it is read again when it is needed. Safe to retry.
    ///
    /// # Errors
    /// If Redis does not answer.
    pub async fn forget(&self) -> Result<()> {
        self.copy.forget().await
    }

    /// Returns a script call on this set; if there is a source, with the marker as a second key.
    pub(super) fn call(&self, mode: &str) -> ScriptInvocation {
        let keys = [&self.copy.key, &self.copy.marker];
        let keys = if self.inner.source.is_some() { &keys[..] } else { &keys[..1] };
        FOLLOW.on(keys).arg(mode)
    }

    /// Runs a script on a complete set; rebuilds the set if needed.
    pub(super) async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation) -> Result<T> {
        let Some(source) = &self.inner.source else { return self.client().eval(call).await };
        let load = || async {
            let followed = source.call(self.who.clone()).await?;
            let members =
                followed.iter().map(|whom| Ok((Rank::None, whom.to_member()?.into_owned())));
            Ok(Snapshot::new(members.collect::<Result<_>>()?, 0))
        };
        self.copy.eval(call, load).await
    }

    /// Returns up to `count` random followees.
    pub(super) async fn sample(&self, count: usize) -> Result<Vec<M>> {
        self.count().await?;
        let mut command = cmd("SRANDMEMBER");
        command.arg(&self.copy.key).arg(count);
        let found: Vec<Vec<u8>> = self.client().query(&self.copy.key, &command).await?;
        members(&found)
    }

    /// Returns the key of another user's set.
    pub(super) fn key_of(&self, other: &M) -> Result<Vec<u8>> {
        Ok(self.inner.copies.of(other)?.key)
    }

    pub(super) fn client(&self) -> &Client {
        self.inner.copies.client()
    }
}

handles!(FollowBuilder, Follows, FollowsOf);
