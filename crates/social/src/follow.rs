//! Follow sets: whom somebody follows, one set each; the fans of somebody are the same the other way
//! round, under another name.
//!
//! With a source ([`FollowBuilder::source`]) the set is a copy of what the database says: it is
//! rebuilt when Redis does not have it, by one process, and an absent set is never taken for an empty
//! one (see `rebuild`). Write the database first and then call [`FollowsOf::follow`]: it is applied
//! to a complete set, so that a rebuild which read the database a moment before cannot undo it. If it
//! fails, [`FollowsOf::forget`] the set.
//!
//! Without a source Redis is the truth, and an absent set is an empty one.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use redis::{FromRedisValue, cmd};
use seawall_client::{
    Handle,
    client::{Script, ScriptInvocation},
    error::{Error, Result},
    member::Member,
};

use super::{
    SLICE,
    rebuild::{Kind, LIFETIME, Rank, Rebuilt, Snapshot, check_lifetime, source_error},
    template::{Template, handles, members},
};

static FOLLOW: Script = Script::new(include_str!("script/follow.lua"));

type Source<M> = Arc<dyn Fn(M) -> BoxFuture<'static, Result<Vec<M>>> + Send + Sync>;

impl<M: Member> Follows<M> {
    /// Begins follow sets by their name.
    #[must_use]
    pub fn builder(handle: &Handle, name: impl Into<String>) -> FollowBuilder<M> {
        FollowBuilder {
            template: Template::new(handle, "follow", name),
            limit: 0,
            lifetime: LIFETIME,
            source: None,
        }
    }
}

/// Settings of [`Follows`].
pub struct FollowBuilder<M> {
    template: Template,
    limit: usize,
    lifetime: Duration,
    source: Option<Source<M>>,
}

impl<M: Member> FollowBuilder<M> {
    /// How many somebody may follow; any number without it.
    #[must_use]
    pub fn limit(mut self, most: usize) -> Self {
        self.limit = most;
        self
    }

    /// How long a set is believed before it is read from the source again; a day without it.
    #[must_use]
    pub fn lifetime(mut self, time: Duration) -> Self {
        self.lifetime = time;
        self
    }

    /// Where a set comes from that Redis does not have: everybody whom this one follows.
    #[must_use]
    pub fn source<F, Fut, E>(mut self, load: F) -> Self
    where
        F: Fn(M) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<M>, E>> + Send + 'static,
        E: std::fmt::Display,
    {
        self.source =
            Some(Arc::new(move |who| load(who).map(|read| read.map_err(source_error)).boxed()));
        self
    }

    /// Builds them.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a lifetime below a second.
    pub fn build(self) -> Result<Follows<M>> {
        check_lifetime(self.lifetime)?;
        Ok(Follows { inner: Arc::new(self) })
    }
}

/// Follow sets of everybody; a cheap clone.
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

/// What following came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it may have been refused"]
pub enum Follow {
    /// By this call.
    Followed,
    /// Was so before.
    Already,
    /// Nobody follows oneself.
    Oneself,
    /// As many as are allowed are followed already.
    Full,
}

/// What unfollowing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "it says whether something has to follow, such as cleaning an inbox"]
pub enum Unfollow {
    /// By this call.
    Unfollowed,
    /// Was not followed.
    NotFollowing,
}

impl<M: Member> Follows<M> {
    /// Whom this one follows.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is no valid part of a key.
    pub fn of(&self, who: &M) -> Result<FollowsOf<M>> {
        let key = self.inner.template.key_of(who)?;
        let keys = Rebuilt::new(Kind::Set, key, self.inner.lifetime);
        Ok(FollowsOf { inner: Arc::clone(&self.inner), who: who.clone(), keys })
    }
}

/// Whom one follows.
pub struct FollowsOf<M> {
    inner: Arc<FollowBuilder<M>>,
    pub(super) who: M,
    pub(super) keys: Rebuilt,
}

impl<M: Member> FollowsOf<M> {
    /// Follows somebody. May be repeated.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
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

    /// Ends following. May be repeated.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
    pub async fn unfollow(&self, whom: &M) -> Result<Unfollow> {
        match self.run(&self.call("unfollow").arg(0).arg(&*whom.to_member()?)).await? {
            1 => Ok(Unfollow::Unfollowed),
            0 => Ok(Unfollow::NotFollowing),
            other => Err(Error::unexpected(format!("{other} is not an answer to unfollowing"))),
        }
    }

    /// How many one follows.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
    pub async fn count(&self) -> Result<u64> {
        self.run(&self.call("count").arg(0)).await
    }

    /// Whether one follows this one.
    ///
    /// # Errors
    /// When Redis or the source does not answer.
    pub async fn is_following(&self, whom: &M) -> Result<bool> {
        Ok(self.following(std::slice::from_ref(whom)).await?.pop().unwrap_or_default())
    }

    /// Which of these one follows: one answer each, in order. In slices of [`SLICE`].
    ///
    /// # Errors
    /// When Redis or the source does not answer.
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

    /// Forgets the copy in Redis; with a source it is read anew when it is needed. May be repeated.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn forget(&self) -> Result<()> {
        self.keys.forget(self.inner.template.client()).await
    }

    /// A script on this set; with the marker as a second key where there is a source.
    pub(super) fn call(&self, mode: &str) -> ScriptInvocation {
        let keys = [&self.keys.key, &self.keys.marker];
        let keys = if self.inner.source.is_some() { &keys[..] } else { &keys[..1] };
        FOLLOW.on(keys).arg(mode)
    }

    /// Runs it on a complete set, which is rebuilt where needed.
    pub(super) async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation) -> Result<T> {
        let client = self.inner.template.client();
        let Some(source) = &self.inner.source else { return client.eval(call).await };
        let load = || async {
            let followed = source(self.who.clone()).await?;
            let members =
                followed.iter().map(|whom| Ok((Rank::None, whom.to_member()?.into_owned())));
            Ok(Snapshot::new(members.collect::<Result<_>>()?, 0))
        };
        self.keys.complete(client, || client.eval::<Option<T>>(call), load).await
    }

    /// Some of those whom one follows, by chance; fewer when there are not so many.
    pub(super) async fn sample(&self, count: usize) -> Result<Vec<M>> {
        self.count().await?;
        let mut command = cmd("SRANDMEMBER");
        command.arg(&self.keys.key).arg(count);
        let found: Vec<Vec<u8>> =
            self.inner.template.client().query(&self.keys.key, &command).await?;
        members(&found)
    }

    pub(super) fn template(&self) -> &Template {
        &self.inner.template
    }
}

handles!(FollowBuilder, Follows, FollowsOf);
