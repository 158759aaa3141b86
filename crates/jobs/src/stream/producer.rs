//! A stream by its name: appending to it, and dropping entries that every group has settled.
//!
//! The payload is JSON in one field, so that `redis-cli XRANGE` shows it. Entries that a script or
//! another program appended are read through [`Stream::with_decoder`].

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, cmd};
use seawall_client::{
    Handle, Script,
    client::Client,
    error::{Error, Result},
    key::{KeyPart, with_prefix},
};
use seawall_resilience::clock::millis;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    builder::{Retention, WorkerBuilder},
    delivery::REFERENCE,
    entry::{self, EntryId, Fields},
    status::{self, StreamStatus},
};

/// Longest accepted payload: store larger data elsewhere, with its address in the entry.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// How long [`Stream::append_once`] remembers a reference.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);
/// The field that holds the payload.
const DATA: &str = "data";
/// Most entries that one trimming step drops, and most that it reads to count them.
const TRIM_STEP: usize = 10_000;
const TRIM_LOOK: usize = 500;
/// Most steps of one call of [`Stream::trim`].
const TRIM_STEPS: usize = 64;

static APPEND_ONCE: Script = Script::new(include_str!("script/append_once.lua"));
static TRIM: Script = Script::with_time(include_str!("script/trim.lua"));

type Decode<T> = dyn Fn(&Fields) -> Result<T, String> + Send + Sync;

impl<T> Stream<T> {
    /// Creates a stream of `T` with this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn new(handle: &Handle, name: impl AsRef<str>) -> Result<Self>
    where
        T: DeserializeOwned,
    {
        Stream::with_decoder(handle, name, |fields| {
            let data = fields.get(DATA).ok_or_else(|| format!("no field `{DATA}`"))?;
            serde_json::from_slice(data).map_err(|error| error.to_string())
        })
    }

    /// Creates a stream whose entries are decoded by `decode`, for entries of scripts or other
    /// programs.
    ///
    /// An entry for which `decode` returns an error is parked, with the error as the reason.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn with_decoder(
        handle: &Handle,
        name: impl AsRef<str>,
        decode: impl Fn(&Fields) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let key = handle.key("stream", name.as_ref())?;
        Ok(Stream::on(handle, name.as_ref(), key, Arc::new(decode)))
    }

    /// Like [`Stream::with_decoder`], with an explicit key instead of one that is derived from the
    /// name.
    ///
    /// The key needs a hash tag (`orders:{sale:3}`): dead letters are stored in the same slot.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the key has no hash tag.
    pub fn at_key(
        handle: &Handle,
        key: impl AsRef<[u8]>,
        decode: impl Fn(&Fields) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let key = key.as_ref();
        let open = key.iter().position(|&byte| byte == b'{');
        let tagged = open.is_some_and(|open| {
            key[open + 1..].iter().position(|&byte| byte == b'}').is_some_and(|length| length > 0)
        });
        if !tagged {
            return Err(Error::Invalid(format!(
                "the key {:?} has no hash tag: what belongs to the stream could lie in another slot",
                String::from_utf8_lossy(key)
            )));
        }
        Ok(Stream::on(handle, &String::from_utf8_lossy(key), key.to_vec(), Arc::new(decode)))
    }

    fn on(handle: &Handle, name: &str, key: Vec<u8>, decode: Arc<Decode<T>>) -> Self {
        handle.needs_every_key("streams");
        let mut parked = key.clone();
        parked.extend_from_slice(b":parked");
        let client = handle.client().clone();
        let core = Core { client, name: name.into(), key, parked, decode };
        Stream { handle: handle.clone(), core: Arc::new(core) }
    }
}

/// A stream of `T`; cheap to clone. See the [module](super) for an example.
pub struct Stream<T> {
    handle: Handle,
    pub(super) core: Arc<Core<T>>,
}

/// A worker's view of a stream: everything but the handle, which its tasks must not keep alive.
pub(super) struct Core<T> {
    pub(super) client: Client,
    pub(super) name: Arc<str>,
    pub(super) key: Vec<u8>,
    pub(super) parked: Vec<u8>,
    decode: Arc<Decode<T>>,
}

/// Outcome of [`Stream::append_once`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// The entry was appended with this id.
    Now(EntryId),
    /// The entry had been appended before, with this id.
    Before(EntryId),
}

impl Appended {
    /// Returns the entry's id in either case.
    #[must_use]
    pub fn id(self) -> EntryId {
        match self {
            Appended::Now(id) | Appended::Before(id) => id,
        }
    }
}

impl<T> Stream<T> {
    /// Returns the stream's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Returns the stream's key in Redis, for scripts that append to it.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.core.key
    }

    pub(super) fn client(&self) -> &Client {
        &self.core.client
    }

    /// Returns a builder for a worker of a group on this stream alone.
    ///
    /// See [`WorkerBuilder::new`] for several streams.
    #[must_use]
    pub fn worker(&self, group: impl Into<String>) -> WorkerBuilder<T> {
        WorkerBuilder::new(&self.handle, group, [self.clone()])
    }

    /// Returns the number of entries in the stream, including settled ones.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn len(&self) -> Result<u64> {
        self.client().query(&self.core.key, cmd("XLEN").arg(&self.core.key)).await
    }

    /// Returns `true` if the stream has no entries.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Returns the state of a group on this stream, for operators and for alarms on lag.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn status(&self, group: &str) -> Result<StreamStatus> {
        status::ask(&self.core, group).await
    }

    /// Drops entries that every group has settled, except those that `keep` keeps, and returns
    /// their number.
    ///
    /// An entry that some group has pending, or that was not delivered to it yet, is never dropped.
    /// While there is no group, nothing is dropped.
    ///
    /// # Errors
    /// As [`Client::send`]. Safe to retry.
    pub async fn trim(&self, keep: Retention) -> Result<u64> {
        self.core.trim(keep).await
    }
}

impl<T> Core<T> {
    pub(super) fn decode(&self, fields: &Fields) -> Result<T, String> {
        (self.decode)(fields)
    }

    /// See [`Stream::trim`].
    pub(super) async fn trim(&self, keep: Retention) -> Result<u64> {
        let (word, number, most) = match keep {
            Retention::All => return Ok(0),
            Retention::Unsettled => ("all", 0, TRIM_STEP),
            Retention::Newest(count) => ("newest", count, TRIM_LOOK),
            Retention::For(time) => ("millis", millis(time), TRIM_STEP),
        };
        let call = TRIM.on(&[&self.key]).arg(word).arg(number).arg(most);
        let mut dropped = 0;
        for _ in 0..TRIM_STEPS {
            let step: u64 = self.client.eval(&call).await?;
            dropped += step;
            if step < most as u64 {
                break;
            }
        }
        Ok(dropped)
    }
}

impl<T: Serialize> Stream<T> {
    /// Appends an entry.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the payload cannot be encoded or is too long. After
    /// [`Error::Indeterminate`] the entry may have been appended: a caller that retries should use
    /// [`Stream::append_once`].
    pub async fn append(&self, payload: &T) -> Result<EntryId> {
        let reply = self.client().send(&self.core.key, &self.addition(payload)?).await?;
        entry::id(reply)
    }

    /// Appends several entries in one round trip and returns an outcome for each, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] if one of them cannot be encoded: then none is sent.
    pub async fn append_all(&self, payloads: &[T]) -> Result<Vec<Result<EntryId>>> {
        let commands = payloads
            .iter()
            .map(|payload| Ok((self.core.key.to_vec(), self.addition(payload)?)))
            .collect::<Result<Vec<_>>>()?;
        let replies = self.client().send_all(commands).await;
        Ok(replies.into_iter().map(|reply| entry::id(reply?)).collect())
    }

    /// Appends an entry with a reference; repeating the call within a day has no further effect.
    ///
    /// Handlers see the reference as part of [`Delivery::reference`](super::Delivery::reference).
    ///
    /// # Errors
    /// As [`Stream::append`]. Safe to retry.
    pub async fn append_once(
        &self,
        reference: &(impl KeyPart + ?Sized),
        payload: &T,
    ) -> Result<Appended> {
        let mut start = self.core.key.to_vec();
        start.extend_from_slice(b":ref:");
        let memory = with_prefix(&start, reference)?;
        let call = APPEND_ONCE
            .on(&[&self.core.key[..], memory.as_bytes()])
            .arg(&memory.as_bytes()[start.len()..])
            .arg(millis(REMEMBER))
            .arg(REFERENCE)
            .arg(DATA)
            .arg(encode(payload)?);
        let [id, fresh]: [redis::Value; 2] = entry::exactly(self.client().run(&call).await?)?;
        let id = entry::id(id)?;
        let fresh: u64 = redis::from_redis_value(fresh)?;
        Ok(if fresh == 1 { Appended::Now(id) } else { Appended::Before(id) })
    }

    fn addition(&self, payload: &T) -> Result<Cmd> {
        let mut add = cmd("XADD");
        add.arg(&self.core.key).arg("*").arg(DATA).arg(encode(payload)?);
        Ok(add)
    }
}

fn encode(payload: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = serde_json::to_vec(payload)
        .map_err(|error| Error::Invalid(format!("the payload cannot be written: {error}")))?;
    if bytes.len() > MAX_PAYLOAD_BYTES {
        return Err(Error::Invalid(format!(
            "a payload of {} bytes is longer than the {MAX_PAYLOAD_BYTES} that are allowed; keep it \
             elsewhere and append its address",
            bytes.len()
        )));
    }
    Ok(bytes)
}

impl<T> Clone for Stream<T> {
    fn clone(&self) -> Self {
        Stream { handle: self.handle.clone(), core: Arc::clone(&self.core) }
    }
}

impl<T> fmt::Debug for Stream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("name", &self.core.name).finish_non_exhaustive()
    }
}
