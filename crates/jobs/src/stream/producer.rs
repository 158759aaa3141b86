//! A stream by its name: appending to it, and dropping what everybody has settled.
//!
//! The payload is JSON in one field, so that `redis-cli XRANGE` shows it. Entries that something else
//! appended (a script, another program) are read through [`Seawall::stream_with`].

use std::{fmt, sync::Arc, time::Duration};

use redis::{Cmd, cmd};
use seawall_client::{
    Handle, Script,
    client::Client,
    error::{Error, Result},
    key::{KeyPart, with_prefix},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    builder::{Retention, WorkerBuilder},
    delivery::REFERENCE,
    entry::{self, EntryId, Fields},
    status::{self, StreamStatus},
};

/// Longest payload that is accepted: what is bigger belongs elsewhere, with its address in the entry.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// For how long [`Stream::append_once`] knows a reference.
const REMEMBER: Duration = Duration::from_secs(24 * 3600);
/// The field that holds the payload.
const DATA: &str = "data";
/// Entries that one step of trimming drops at most, and that it looks at to count them.
const TRIM_STEP: usize = 10_000;
const TRIM_LOOK: usize = 500;
/// Steps of one call of [`Stream::trim`].
const TRIM_STEPS: usize = 64;

static APPEND_ONCE: Script = Script::new(include_str!("script/append_once.lua"));
static TRIM: Script = Script::new(include_str!("script/trim.lua"));

type Decode<T> = dyn Fn(&Fields) -> Result<T, String> + Send + Sync;

impl<T> Stream<T> {
    /// A stream of `T` by its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or huge name.
    pub fn new(handle: &Handle, name: impl AsRef<str>) -> Result<Self>
    where
        T: DeserializeOwned,
    {
        Stream::with_decoder(handle, name, |fields| {
            let data = fields.get(DATA).ok_or_else(|| format!("no field `{DATA}`"))?;
            serde_json::from_slice(data).map_err(|error| error.to_string())
        })
    }

    /// A stream whose entries are understood by `decode`: for what scripts or other programs append.
    /// An entry for which it returns an error is parked, with the error as the reason.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or huge name.
    pub fn with_decoder(
        handle: &Handle,
        name: impl AsRef<str>,
        decode: impl Fn(&Fields) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self> {
        let key = handle.key("stream", name.as_ref())?;
        Ok(Stream::on(handle, name.as_ref(), key, Arc::new(decode)))
    }

    /// As [`Stream::with_decoder`], on a key of one's own instead of one that is made of the name.
    /// The key needs a hash tag (`orders:{sale:3}`): parked entries lie in the same slot.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a key without a hash tag.
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

/// A stream of `T`; a cheap clone. See the [module](super) for an example.
pub struct Stream<T> {
    handle: Handle,
    pub(super) core: Arc<Core<T>>,
}

/// What a worker knows of a stream: everything but the handle, which its tasks must not keep alive.
pub(super) struct Core<T> {
    pub(super) client: Client,
    pub(super) name: Arc<str>,
    pub(super) key: Vec<u8>,
    pub(super) parked: Vec<u8>,
    decode: Arc<Decode<T>>,
}

/// What [`Stream::append_once`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Appended {
    /// It was appended under this id.
    Now(EntryId),
    /// It had been appended before, under this id.
    Before(EntryId),
}

impl Appended {
    /// The entry's id, whenever it was appended.
    #[must_use]
    pub fn id(self) -> EntryId {
        match self {
            Appended::Now(id) | Appended::Before(id) => id,
        }
    }
}

impl<T> Stream<T> {
    /// The stream's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The stream's key in Redis, for scripts that append to it.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.core.key
    }

    pub(super) fn client(&self) -> &Client {
        &self.core.client
    }

    /// Begins a worker of a group on this stream alone; see [`Seawall::stream_worker`] for several.
    #[must_use]
    pub fn worker(&self, group: impl Into<String>) -> WorkerBuilder<T> {
        WorkerBuilder::new(&self.handle, group, [self.clone()])
    }

    /// How many entries the stream has, settled ones included.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn len(&self) -> Result<u64> {
        self.client().query(&self.core.key, cmd("XLEN").arg(&self.core.key)).await
    }

    /// Whether the stream has no entries.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Where a group stands on this stream: for operators, and for alarms on lag.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn status(&self, group: &str) -> Result<StreamStatus> {
        status::ask(&self.core, group).await
    }

    /// Drops what every group has settled, except what is to be kept. An entry that some group has
    /// not been delivered, or has pending, is never dropped; while there is no group, nothing is.
    /// Returns how many were dropped.
    ///
    /// # Errors
    /// As [`Client::send`]; it can be repeated.
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
            Retention::For(time) => (
                "millis",
                u64::try_from(time.as_millis()).unwrap_or(u64::MAX).min(1 << 52),
                TRIM_STEP,
            ),
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
    /// [`Error::Invalid`] for a payload that cannot be written or is too long. After
    /// [`Error::Indeterminate`] it may have been appended: whoever repeats it should use
    /// [`Stream::append_once`].
    pub async fn append(&self, payload: &T) -> Result<EntryId> {
        let reply = self.client().send(&self.core.key, &self.addition(payload)?).await?;
        entry::id(reply)
    }

    /// Appends several entries in one round trip; an outcome for each, in order.
    ///
    /// # Errors
    /// [`Error::Invalid`] when one of them cannot be written: then none is sent.
    pub async fn append_all(&self, payloads: &[T]) -> Result<Vec<Result<EntryId>>> {
        let commands = payloads
            .iter()
            .map(|payload| Ok((self.core.key.to_vec(), self.addition(payload)?)))
            .collect::<Result<Vec<_>>>()?;
        let replies = self.client().send_all(commands).await;
        Ok(replies.into_iter().map(|reply| entry::id(reply?)).collect())
    }

    /// Appends an entry under a reference: repeated within a day, it has no further effect. Handlers
    /// see the reference as part of [`Delivery::reference`](super::Delivery::reference).
    ///
    /// # Errors
    /// As [`Stream::append`]; it can be repeated.
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
            .arg(REMEMBER.as_millis().to_string())
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
