//! The simple queue: one list, plus one list per consumer for the elements it has taken.
//!
//! One script takes the oldest element, moves it into the consumer's own list, and records the
//! consumer's name. `LREM` finishes the element. So every taken element belongs to a recorded name,
//! and a name whose list is empty can be removed at any time. (`BLMOVE` alone cannot do that: if it
//! is sent before its consumer is removed and arrives after, it moves an element into a list that
//! no process reads.) A consumer that finds the queue empty blocks on the bell, a second list with
//! one entry per element. A lost bell entry delays the consumer by one second.
//!
//! A consumer that restarts under the same name gets back the elements it had taken.
//! [`ListQueue::recover`] puts back the elements of a consumer that does not return. There is no
//! count of attempts, no limit and no delay: use the [stream](crate::stream) or
//! [`Delayed`](super::Delayed) for these.

mod consumer;

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use redis::cmd;
use seawall_client::{
    Handle, Script,
    client::Client,
    error::{Error, Result},
    key::with_prefix,
};
use seawall_resilience::clock::millis;
use serde::Serialize;

pub use self::consumer::{Finished, ListConsumer, Taken};

/// Longest accepted payload.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Length of the mark that makes equal payloads distinct: its digits and the colon after it.
const MARK: usize = 17;
/// Most elements and consumers that one call of [`ListQueue::recover`] handles at a time.
const AT_ONCE: usize = 1_000;
/// Most entries in the bell; no queue is expected to have more blocked consumers than this.
const MAX_RINGS: usize = 1_000;

static PUSH: Script = Script::new(include_str!("script/push.lua"));
static SILENT: Script = Script::with_time(include_str!("script/silent.lua"));
static RECOVER: Script = Script::with_time(include_str!("script/recover.lua"));

impl<T> ListQueue<T> {
    /// Creates a simple queue of `T` with this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn new(handle: &Handle, name: impl AsRef<str>) -> Result<ListQueue<T>> {
        let key = handle.key("list", name.as_ref())?;
        handle.needs_every_key("queues");
        let consumers = [&key[..], b":consumers"].concat();
        let bell = [&key[..], b":bell"].concat();
        let keys = Keys { client: handle.client().clone(), list: key, consumers, bell };
        Ok(ListQueue { keys: Arc::new(keys), payload: PhantomData })
    }
}

/// A FIFO list with one list of taken elements per consumer; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::Seawall;
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let mails = seawall.list_queue::<String>("mails")?;
/// mails.push(&"hello".to_owned()).await?;
///
/// let mut consumer = mails.consumer("host-1")?;
/// let taken = consumer.take(Duration::from_secs(1)).await?.expect("there is one");
/// assert_eq!(taken.payload(), "hello");
/// let _ = consumer.finish(&taken).await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct ListQueue<T> {
    keys: Arc<Keys>,
    payload: PhantomData<fn() -> T>,
}

struct Keys {
    client: Client,
    list: Vec<u8>,
    consumers: Vec<u8>,
    bell: Vec<u8>,
}

impl Keys {
    fn in_hand(&self, consumer: &str) -> Result<Vec<u8>> {
        let start = [&self.list[..], b":taken:"].concat();
        Ok(with_prefix(&start, consumer)?.as_bytes().to_vec())
    }
}

impl<T> ListQueue<T> {
    /// Returns the number of waiting elements.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn len(&self) -> Result<u64> {
        self.keys.client.query(&self.keys.list, cmd("LLEN").arg(&self.keys.list)).await
    }

    /// Returns `true` if no elements are waiting.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// Creates a consumer. No other running consumer may have the same name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn consumer(&self, name: impl Into<String>) -> Result<ListConsumer<T>> {
        ListConsumer::new(Arc::clone(&self.keys), name.into())
    }

    /// Puts back the elements of consumers that have been silent for `silence`, and returns their
    /// number.
    ///
    /// A consumer is not silent while it calls `take` or [`beat`](ListConsumer::beat); a blocked
    /// `take` reports about every second. `silence` must be longer than a consumer works without
    /// either call, or the elements it has taken are handled twice.
    ///
    /// # Errors
    /// As [`Client::send`]. Safe to retry.
    pub async fn recover(&self, silence: Duration) -> Result<u64> {
        let keys = &self.keys;
        let millis = millis(silence);
        let call = SILENT.on(&[&keys.consumers]).arg(millis).arg(AT_ONCE);
        let silent: Vec<String> = keys.client.eval(&call).await?;
        let mut moved = 0;
        for consumer in silent {
            let lists = [&keys.list, &keys.in_hand(&consumer)?, &keys.consumers, &keys.bell];
            let call = RECOVER.on(&lists).arg(&consumer).arg(millis).arg(AT_ONCE).arg(MAX_RINGS);
            let mut step = AT_ONCE as u64;
            while step == AT_ONCE as u64 {
                step = keys.client.eval(&call).await?;
                moved += step;
            }
        }
        Ok(moved)
    }
}

impl<T: Serialize> ListQueue<T> {
    /// Appends an element at the end of the queue.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the payload cannot be encoded or is too long. After
    /// [`Error::Indeterminate`] the element may have been added.
    pub async fn push(&self, payload: &T) -> Result<()> {
        let mut element = format!("{:016x}:", self.keys.client.randomness().u64()).into_bytes();
        serde_json::to_writer(&mut element, payload)
            .map_err(|error| Error::Invalid(format!("the payload cannot be written: {error}")))?;
        if element.len() > MAX_PAYLOAD_BYTES {
            return Err(Error::Invalid(format!(
                "a payload of {} bytes is longer than the {MAX_PAYLOAD_BYTES} that are allowed",
                element.len()
            )));
        }
        let call = PUSH.on(&[&self.keys.list, &self.keys.bell]).arg(element).arg(MAX_RINGS);
        self.keys.client.run(&call).await?;
        Ok(())
    }
}

impl<T> Clone for ListQueue<T> {
    fn clone(&self) -> Self {
        ListQueue { keys: Arc::clone(&self.keys), payload: PhantomData }
    }
}

impl<T> fmt::Debug for ListQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = String::from_utf8_lossy(&self.keys.list);
        f.debug_struct("ListQueue").field("list", &list).finish_non_exhaustive()
    }
}
