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

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Value, cmd};
use seawall_client::{
    Handle, Script,
    client::{Client, DedicatedConnection},
    error::{Error, Result},
    key::with_prefix,
};
use seawall_resilience::clock::millis;
use serde::{Serialize, de::DeserializeOwned};

use super::decode::decode;

/// Longest accepted payload.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Length of the mark that makes equal payloads distinct: its digits and the colon after it.
const MARK: usize = 17;
/// Most elements and consumers that one call of [`ListQueue::recover`] handles at a time.
const AT_ONCE: usize = 1_000;
/// Most entries in the bell; no queue is expected to have more blocked consumers than this.
const MAX_RINGS: usize = 1_000;
/// Longest block on the bell before [`ListConsumer::take`] looks again and reports that it is
/// alive.
const BEAT: Duration = Duration::from_secs(1);

static PUSH: Script = Script::new(include_str!("script/push.lua"));
static TAKE: Script = Script::with_time(include_str!("script/take.lua"));
static BEATS: Script = Script::with_time(include_str!("script/beat.lua"));
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

/// Outcome of [`ListConsumer::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// The element is removed.
    Done,
    /// The element was no longer in this consumer's list.
    ///
    /// Either [`ListQueue::recover`] put it back because this consumer was silent for too long, and
    /// another consumer will handle or has handled it; or an earlier `finish` that returned an
    /// error did remove it.
    PutBack,
}

/// An element that a consumer has taken.
///
/// If it is dropped before it is finished, a later [`ListConsumer::take`] of the same consumer
/// returns it again.
#[derive(Debug)]
pub struct Taken<T> {
    element: Vec<u8>,
    payload: T,
    held: Arc<Held>,
}

/// Elements that a consumer has handed out and not finished.
#[derive(Debug, Default)]
struct Held {
    table: Mutex<HeldTable>,
}

#[derive(Debug, Default)]
struct HeldTable {
    elements: HashSet<Vec<u8>>,
    /// Whether elements were dropped unfinished since the consumer's list was last read.
    dropped: bool,
}

impl Held {
    fn table(&self) -> MutexGuard<'_, HeldTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        let mut table = self.held.table();
        table.dropped |= table.elements.remove(&self.element);
    }
}

impl<T> Taken<T> {
    /// Returns the payload.
    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// Returns the element's reference, which stays the same through every delivery.
    #[must_use]
    pub fn reference(&self) -> &str {
        std::str::from_utf8(&self.element[..MARK - 1]).unwrap_or_default()
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
        let name = name.into();
        Ok(ListConsumer {
            in_hand: self.keys.in_hand(&name)?,
            keys: Arc::clone(&self.keys),
            name,
            connection: None,
            held: Arc::default(),
            found: VecDeque::new(),
            unsure: true,
            payload: PhantomData,
        })
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

/// One consumer of a [`ListQueue`].
pub struct ListConsumer<T> {
    keys: Arc<Keys>,
    name: String,
    in_hand: Vec<u8>,
    connection: Option<DedicatedConnection>,
    held: Arc<Held>,
    /// Elements of this consumer's list that were not returned to the caller yet.
    found: VecDeque<Vec<u8>>,
    /// Whether this consumer's list may have elements that were not returned to the caller: an
    /// earlier run took them, or a reply was lost.
    unsure: bool,
    payload: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ListConsumer<T> {
    /// Takes the oldest element, waiting up to `wait` for one.
    ///
    /// Elements that an earlier run under this name took and did not finish come first, and so do
    /// elements that the caller dropped unfinished.
    ///
    /// # Errors
    /// As [`Client::send`]. If a reply was lost, the next call returns the element that was taken.
    /// An element that cannot be decoded is reported once as [`Error::Unexpected`] and stays in the
    /// consumer's list.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the next call finds what was taken.
    pub async fn take(&mut self, wait: Duration) -> Result<Option<Taken<T>>> {
        let clock = self.keys.client.clock().clone();
        let until = clock.now() + wait;
        loop {
            self.unsure |= self.held.table().dropped;
            if self.unsure || !self.found.is_empty() {
                self.beat().await?;
            }
            if self.unsure {
                self.find().await?;
            }
            if let Some(element) = self.found.pop_front() {
                return self.hand_out(element).map(Some);
            }
            if let Some(element) = self.take_one().await? {
                return self.hand_out(element).map(Some);
            }
            let left = until.since(clock.now());
            if left.is_zero() {
                return Ok(None);
            }
            self.wait(left.min(BEAT)).await?;
        }
    }

    fn hand_out(&mut self, element: Vec<u8>) -> Result<Taken<T>> {
        self.held.table().elements.insert(element.clone());
        let json = element.get(MARK..).unwrap_or_default();
        match decode(json) {
            Ok(payload) => Ok(Taken { element, payload, held: Arc::clone(&self.held) }),
            Err(error) => Err(Error::unexpected(format!("an element is not understood: {error}"))),
        }
    }
}

impl<T> ListConsumer<T> {
    /// Finishes an element and removes it.
    ///
    /// # Errors
    /// As [`Client::send`]: the element may be finished or not. Call it again, or drop `taken`: an
    /// element that is not finished is then returned by a later [`take`](Self::take).
    pub async fn finish(&mut self, taken: &Taken<T>) -> Result<Finished> {
        let mut remove = cmd("LREM");
        remove.arg(&self.in_hand).arg(1).arg(&taken.element);
        let removed: u64 = self.keys.client.query(&self.in_hand, &remove).await?;
        self.held.table().elements.remove(&taken.element);
        Ok(if removed == 1 { Finished::Done } else { Finished::PutBack })
    }

    /// Reports that this consumer is alive; a consumer that works long on one element must call it.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn beat(&self) -> Result<()> {
        self.keys.client.run(&BEATS.on(&[&self.keys.consumers]).arg(&self.name)).await?;
        Ok(())
    }

    /// Finds elements of this consumer's list that were not returned to the caller, oldest first.
    async fn find(&mut self) -> Result<()> {
        self.unsure = true;
        // Reset before reading: an element dropped during the read is found by the next call.
        self.held.table().dropped = false;
        let range = cmd("LRANGE").arg(&self.in_hand).arg(0).arg(-1).to_owned();
        let all: Vec<Vec<u8>> = self.keys.client.query(&self.in_hand, &range).await?;
        let held = self.held.table();
        self.found = all.into_iter().rev().filter(|one| !held.elements.contains(one)).collect();
        drop(held);
        self.unsure = false;
        Ok(())
    }

    async fn take_one(&mut self) -> Result<Option<Vec<u8>>> {
        let keys = &self.keys;
        let lists = [&keys.list, &self.in_hand, &keys.consumers, &keys.bell];
        // Until the reply arrives, the list may have an element that this process does not know of.
        self.unsure = true;
        let element = keys.client.eval(&TAKE.on(&lists).arg(&self.name)).await?;
        self.unsure = false;
        Ok(element)
    }

    /// Waits on the bell, at most for `time`.
    async fn wait(&mut self, time: Duration) -> Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.keys.client.dedicated(&self.keys.list).await?,
        };
        let mut listen = cmd("BLPOP");
        // Redis: a timeout of 0 would block forever.
        listen.arg(&self.keys.bell).arg(time.as_secs_f64().max(0.001));
        let limit = time.saturating_add(self.keys.client.response_timeout());
        connection.send::<Value>(&listen, limit).await?;
        self.connection = Some(connection);
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

impl<T> fmt::Debug for ListConsumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListConsumer")
            .field("name", &self.name)
            .field("in_hand", &self.held.table().elements.len())
            .finish_non_exhaustive()
    }
}
