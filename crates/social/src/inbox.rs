//! Inboxes: the posts of a reader's followees, newest first, one sorted set per reader.
//!
//! A post is pushed into the inbox of every fan. Posts of authors with too many fans are pulled
//! when a page is read ([`InboxOf::page_with`](super::InboxOf::page_with)) from the author's own
//! list, which is the same structure under another name. Both are ordered by time and then by
//! bytes, so that one [`Cursor`](super::Cursor) is a position in all of them at once.
//!
//! The member is `author:item`, so that an author's posts can be removed from an inbox without
//! asking the database which posts there are.
//!
//! Pushing is idempotent: pushing the same post again changes nothing. It is sent in pipelines of
//! [`FAN_OUT`] scripts, one for each server. Fans whose server did not answer are returned, to be
//! tried again.

use std::{marker::PhantomData, time::Duration};

use redis::cmd;
use seawall_client::{
    Handle,
    client::Script,
    error::{Error, Result},
    key::KeyBuffer,
    lifetime,
    member::Member,
};

use super::{
    InboxOf,
    template::{Template, check_score},
};

/// Scripts in one pipeline.
const FAN_OUT: usize = 500;
/// Default number of posts that an inbox keeps.
const KEEP: usize = 1000;
/// Largest number of posts that an inbox may keep.
const MAX_KEEP: usize = 100_000;

static PUSH: Script = Script::new(include_str!("script/push.lua"));

impl<M: Member> Inbox<M> {
    /// Creates inboxes with this name.
    #[must_use]
    pub fn new(handle: &Handle, name: impl Into<String>) -> Inbox<M> {
        Inbox {
            template: Template::new(handle, "inbox", name),
            keep: KEEP,
            lifetime: None,
            member: PhantomData,
        }
    }
}

/// Inboxes of all readers; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, social::Post};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let feed = seawall.inbox::<u64>("feed");
/// // Three posts of one millisecond, to the fans 7 and 8.
/// for item in [501, 502, 503] {
///     feed.push(&Post { author: 1, item, time: 1_000 }, &[7, 8]).await?;
/// }
/// let first = feed.of(&7)?.page(None, 2).await?;
/// let second = feed.of(&7)?.page(first.next.as_ref(), 2).await?;
/// let seen: Vec<_> = first.posts.iter().chain(&second.posts).map(|post| post.item).collect();
/// assert_eq!(seen, [503, 502, 501]);
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Inbox<M> {
    pub(super) template: Template,
    pub(super) keep: usize,
    lifetime: Option<Duration>,
    member: PhantomData<fn(M) -> M>,
}

/// A post in an inbox.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Post<M> {
    /// The author.
    pub author: M,
    /// The item.
    pub item: M,
    /// The time, in milliseconds.
    pub time: i64,
}

/// Outcome of a push to many inboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "fans that could not be reached have to be tried again"]
pub struct FanOut<M> {
    /// Number of inboxes that accepted the call.
    pub reached: usize,
    /// Fans whose inbox could not be reached; pass them to the same call again.
    pub missed: Vec<M>,
}

impl<M: Member> Inbox<M> {
    /// Sets how many of the newest posts an inbox keeps. Default: 1,000.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is 0 or above 100,000.
    pub fn max_kept(mut self, newest: usize) -> Result<Self> {
        if newest == 0 || newest > MAX_KEEP {
            return Err(Error::Invalid(format!(
                "max_kept is {newest}: 1 to {MAX_KEEP} are allowed"
            )));
        }
        self.keep = newest;
        Ok(self)
    }

    /// Sets how long an inbox is kept after its last push. Default: forever.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.lifetime = Some(time);
        self
    }

    /// Returns the inbox of one reader.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the reader is not a valid part of a key.
    pub fn of(&self, reader: &M) -> Result<InboxOf<M>> {
        Ok(InboxOf::new(self.clone(), self.template.key_of(reader)?))
    }

    /// Pushes a post into the inboxes of these fans. Safe to retry.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the post is not valid, or if the lifetime is below a millisecond or
    /// above ten years; then nothing is sent. Fans whose server failed are in [`FanOut::missed`].
    pub async fn push(&self, post: &Post<M>, fans: &[M]) -> Result<FanOut<M>> {
        let member = post.encode()?;
        check_score(post.time)?;
        let lifetime = self.lifetime.map(|time| lifetime::millis("ttl", time));
        let lifetime = lifetime.transpose()?.unwrap_or(0);
        let mut done = FanOut { reached: 0, missed: Vec::new() };
        for slice in fans.chunks(FAN_OUT) {
            let mut calls = Vec::with_capacity(slice.len());
            for fan in slice {
                let key = self.template.key_of(fan)?;
                let call = PUSH.on(&[key]).arg(post.time).arg(&member);
                calls.push(call.arg(self.keep).arg(lifetime));
            }
            done.note(slice, self.template.client().run_all(&calls).await)?;
        }
        Ok(done)
    }

    /// Removes a post from the inboxes of these fans, for example when it is deleted. Safe to
    /// retry.
    ///
    /// # Errors
    /// As [`Inbox::push`].
    pub async fn withdraw(&self, post: &Post<M>, fans: &[M]) -> Result<FanOut<M>> {
        let member = post.encode()?;
        let mut done = FanOut { reached: 0, missed: Vec::new() };
        for slice in fans.chunks(FAN_OUT) {
            let mut commands = Vec::with_capacity(slice.len());
            for fan in slice {
                let key = self.template.key_of(fan)?;
                let mut command = cmd("ZREM");
                command.arg(&key).arg(&member);
                commands.push((key, command));
            }
            done.note(slice, self.template.client().send_all(commands).await)?;
        }
        Ok(done)
    }
}

impl<M: Member> FanOut<M> {
    pub(super) fn note(&mut self, fans: &[M], replies: Vec<Result<redis::Value>>) -> Result<()> {
        for (fan, reply) in fans.iter().zip(replies) {
            match reply {
                Ok(_) => self.reached += 1,
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) => {
                    tracing::debug!(%error, "an inbox could not be reached");
                    self.missed.push(fan.clone());
                }
            }
        }
        Ok(())
    }
}

impl<M: Member> Post<M> {
    /// Encodes `author:item`, each escaped so that the separator is unambiguous.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let mut member = KeyBuffer::default();
        member.push_part(&self.author.to_member()?);
        member.push_separator();
        member.push_part(&self.item.to_member()?);
        Ok(member.as_bytes().to_vec())
    }

    pub(super) fn decode((member, time): &(Vec<u8>, i64)) -> Result<Self> {
        let mut parts = member.splitn(2, |byte| *byte == b':');
        let (Some(author), Some(item)) = (parts.next(), parts.next()) else {
            return Err(Error::unexpected("an inbox has a member that is no post"));
        };
        let author = M::from_member(&unescape(author))?;
        Ok(Post { author, item: M::from_member(&unescape(item))?, time: *time })
    }
}

/// Returns the prefix of all members of this author.
pub(super) fn author_start(author: &impl Member) -> Result<Vec<u8>> {
    let mut start = KeyBuffer::default();
    start.push_part(&author.to_member()?);
    start.push_separator();
    Ok(start.as_bytes().to_vec())
}

/// Reverses [`KeyBuffer::push_part`].
fn unescape(part: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part;
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', b'2', b'5', ..] => Some(b'%'),
            [b'%', b'3', b'A', ..] => Some(b':'),
            [b'%', b'7', b'B', ..] => Some(b'{'),
            [b'%', b'7', b'D', ..] => Some(b'}'),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn posts_come_back(author in "[a:%{}]{1,6}", item in "[b:%{}25]{1,6}", time in 0..super::super::MAX_SCORE) {
            let post = Post { author, item, time };
            let encoded = post.encode()?;
            prop_assert!(encoded.starts_with(&author_start(&post.author)?));
            prop_assert_eq!(Post::decode(&(encoded, time))?, post);
        }
    }
}
