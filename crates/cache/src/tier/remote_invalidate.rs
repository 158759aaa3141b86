//! Invalidations in Redis: entries, their copies, and the numbered message to every local tier.

use redis::Value;
use seawall_client::{
    client::{Script, ScriptInvocation, Topology},
    error::{Error, Result},
};
use smallvec::SmallVec;

use crate::{backplane::message::about_keys, tier::remote::RemoteTier};

static INVALIDATE: Script = Script::with_time(include_str!("script/invalidate.lua"));
static ANNOUNCE: Script = Script::with_time(include_str!("script/announce.lua"));

/// Entries that one invalidation script takes at most.
const BATCH: usize = 64;

/// Outcome of an invalidation.
pub(crate) struct Invalidated {
    /// The version from which on readers see what came after those that are done.
    pub(crate) version: u64,
    /// Gone from Redis, and every local tier is told.
    pub(crate) done: Vec<Vec<u8>>,
    /// Not gone, or not told, as far as is known; with the first reason for it.
    pub(crate) left: Vec<Vec<u8>>,
    pub(crate) error: Option<Error>,
}

impl RemoteTier {
    /// Drops entries and kills their leases, then tells every local tier.
    pub(crate) async fn invalidate(&self, keys: Vec<Vec<u8>>, keep: bool) -> Invalidated {
        if self.client.topology() == Topology::Cluster {
            return self.invalidate_spread(keys, keep).await;
        }
        match self.invalidate_here(&keys, keep).await {
            Ok(version) => Invalidated { version, done: keys, left: Vec::new(), error: None },
            Err(error) => {
                Invalidated { version: 0, done: Vec::new(), left: keys, error: Some(error) }
            }
        }
    }

    /// Invalidates entries of one server.
    async fn invalidate_here(&self, keys: &[Vec<u8>], keep: bool) -> Result<u64> {
        let message = about_keys(keys);
        let mut version = 0;
        let chunks = keys.chunks(BATCH).count();
        for (index, chunk) in keys.chunks(BATCH).enumerate() {
            let mut names: Vec<&[u8]> = chunk.iter().map(Vec::as_slice).collect();
            // The message goes with the last of them: by then all entries are gone.
            if index + 1 == chunks {
                names.push(self.names.counter());
            }
            let call = self.invalidate_call(&names, chunk.len(), keep, &message);
            version = version.max(self.invalidated(self.client.run(&call).await?).await?);
        }
        Ok(version)
    }

    /// Invalidates entries of a Cluster. A server that is away does not affect those of the others.
    async fn invalidate_spread(&self, keys: Vec<Vec<u8>>, keep: bool) -> Invalidated {
        let calls: Vec<ScriptInvocation> =
            keys.iter().map(|key| self.invalidate_call(&[key], 1, keep, b"")).collect();
        let replies = self.client.run_all(&calls).await;
        let mut all = Invalidated { version: 0, done: Vec::new(), left: Vec::new(), error: None };
        for (key, reply) in keys.into_iter().zip(replies) {
            let version = match reply {
                Ok(reply) => self.invalidated(reply).await,
                Err(error) => Err(error),
            };
            match version {
                Ok(version) => {
                    all.version = all.version.max(version);
                    all.done.push(key);
                }
                Err(error) => {
                    all.left.push(key);
                    all.error.get_or_insert(error);
                }
            }
        }
        if all.done.is_empty() {
            return all;
        }
        let told = async {
            self.drop_copies(&all.done).await?;
            self.announce(&about_keys(&all.done)).await
        };
        if let Err(error) = told.await {
            all.left.append(&mut all.done);
            all.error.get_or_insert(error);
        }
        all
    }

    async fn invalidated(&self, reply: Value) -> Result<u64> {
        let Value::Array(answer) = reply else { return Ok(redis::from_redis_value(reply)?) };
        let mut answer = answer.into_iter();
        let version = redis::from_redis_value(answer.next().unwrap_or(Value::Nil))?;
        for manifest in answer {
            self.retire(Some(manifest)).await;
        }
        Ok(version)
    }

    /// Drops all copies of these entries, and kills the leases of those that are being made.
    pub(crate) async fn drop_copies(&self, keys: &[Vec<u8>]) -> Result<()> {
        let Some(copies) = &self.copies else { return Ok(()) };
        let names = copies.names(keys);
        let calls: Vec<ScriptInvocation> =
            names.iter().map(|name| self.invalidate_call(&[name], 1, false, b"")).collect();
        self.client.run_all(&calls).await.into_iter().try_for_each(|reply| reply.map(drop))
    }

    fn invalidate_call<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        entries: usize,
        keep: bool,
        message: &[u8],
    ) -> ScriptInvocation {
        INVALIDATE
            .on(keys)
            .arg(entries)
            .arg(if keep { "keep" } else { "drop" })
            .arg(self.names.wake_prefix())
            .arg(self.names.channel())
            .arg(message)
    }

    /// Returns the keys of a script that writes an entry: where that is on the same server, the counter
    /// of messages too, so that the message goes along and is numbered when the entry is there.
    pub(crate) fn written_keys<'a>(&'a self, key: &'a [u8]) -> SmallVec<[&'a [u8]; 2]> {
        let counter = self.tells_at_once().then(|| self.names.counter());
        std::iter::once(key).chain(counter).collect()
    }

    /// Announces a write whose script could not.
    pub(crate) async fn tell_written(&self, key: &[u8], message: &[u8]) -> Result<()> {
        if self.tells_at_once() {
            return Ok(());
        }
        self.drop_copies(&[key.to_vec()]).await?;
        self.announce(message).await
    }

    /// Returns whether scripts on entries can announce by themselves; there are no copies then.
    fn tells_at_once(&self) -> bool {
        self.client.topology() != Topology::Cluster && self.copies.is_none()
    }

    /// Numbers and sends a message to every local tier.
    pub(crate) async fn announce(&self, message: &[u8]) -> Result<()> {
        let call = ANNOUNCE.on(&[self.names.counter()]).arg(self.names.channel()).arg(message);
        self.client.run(&call).await.map(drop)
    }
}
