//! The simple queue: a list, and for each consumer a list of what it has in hand.
//!
//! One script takes the oldest element, puts it into the consumer's own list and notes the consumer's
//! name; `LREM` ends it. So nothing is ever in hand under a name that is not noted, and a name whose list
//! is empty can be forgotten at any moment. (`BLMOVE` alone cannot do that: one that was sent before its
//! consumer was forgotten, and arrives after it, moves an element where nobody looks.) Whoever finds the
//! queue empty waits at a bell, a second list with one entry for each element; a lost entry costs a
//! second.
//!
//! A consumer that comes back under its name finds what it had; what one that stays away had is put back
//! by [`ListQueue::recover`]. There is no count of attempts, no limit and no delay: whoever needs
//! these has the [stream](crate::stream) or [`Delayed`](super::Delayed).

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
use serde::{Serialize, de::DeserializeOwned};

use super::decode::decode;

/// Longest payload that is accepted.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;
/// Digits of the mark that tells equal payloads apart, and the colon after it.
const MARK: usize = 17;
/// Elements and consumers that one call of [`ListQueue::recover`] handles at a time.
const AT_ONCE: usize = 1_000;
/// Entries of the bell at most: more consumers than this do not wait at one list.
const MAX_RINGS: usize = 1_000;
/// Longest wait at the bell before [`ListConsumer::take`] looks again, and says that it is alive.
const BEAT: Duration = Duration::from_secs(1);

static PUSH: Script = Script::new(include_str!("script/push.lua"));
static TAKE: Script = Script::new(include_str!("script/take.lua"));
static BEATS: Script = Script::new(include_str!("script/beat.lua"));
static SILENT: Script = Script::new(include_str!("script/silent.lua"));
static RECOVER: Script = Script::new(include_str!("script/recover.lua"));

impl<T> ListQueue<T> {
    /// A simple queue of `T` by its name.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or huge name.
    pub fn new(handle: &Handle, name: impl AsRef<str>) -> Result<ListQueue<T>> {
        let key = handle.key("list", name.as_ref())?;
        handle.needs_every_key("queues");
        let consumers = [&key[..], b":consumers"].concat();
        let bell = [&key[..], b":bell"].concat();
        let keys = Keys { client: handle.client().clone(), list: key, consumers, bell };
        Ok(ListQueue { keys: Arc::new(keys), payload: PhantomData })
    }
}

/// A list with a list in hand for each consumer; a cheap clone.
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

/// What became of an element that was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// It is gone.
    Done,
    /// It was not in hand any more. It was put back meanwhile, because nothing was heard of this
    /// consumer, and another will do it, or has; or an earlier call that failed had finished it.
    PutBack,
}

/// An element in a consumer's hands. One that is dropped before it is finished is returned by a later
/// [`ListConsumer::take`] of the same consumer.
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
    /// Whether some were dropped unfinished since the consumer's list was last read.
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
    /// What was pushed.
    #[must_use]
    pub fn payload(&self) -> &T {
        &self.payload
    }

    /// What names this element through every delivery.
    #[must_use]
    pub fn reference(&self) -> &str {
        std::str::from_utf8(&self.element[..MARK - 1]).unwrap_or_default()
    }
}

impl<T> ListQueue<T> {
    /// How many elements wait.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn len(&self) -> Result<u64> {
        self.keys.client.query(&self.keys.list, cmd("LLEN").arg(&self.keys.list)).await
    }

    /// Whether no elements wait.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.len().await? == 0)
    }

    /// A consumer under a name that no other running one has.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty or huge name.
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

    /// Puts back what consumers had in hand that have not been heard of for this long; returns how
    /// many elements that were. A consumer is heard of when it takes or [beats](ListConsumer::beat),
    /// and about every second while it waits; `silence` must be longer than it is at work without either,
    /// or what it has in hand is done twice.
    ///
    /// # Errors
    /// As [`Client::send`]; it can be repeated.
    pub async fn recover(&self, silence: Duration) -> Result<u64> {
        let keys = &self.keys;
        let millis = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX).min(1 << 50);
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
    /// Adds an element behind all others.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a payload that cannot be written or is too long. After
    /// [`Error::Indeterminate`] it may have been added.
    pub async fn push(&self, payload: &T) -> Result<()> {
        let mut element = format!("{:016x}:", rand::random::<u64>()).into_bytes();
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
    /// Elements of our list that nobody was told of yet.
    found: VecDeque<Vec<u8>>,
    /// Whether our list may have elements that nobody was told of: an earlier run took them, or a
    /// reply was lost.
    unsure: bool,
    payload: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ListConsumer<T> {
    /// Takes the oldest element; waits this long for one. What an earlier run under this name had in
    /// hand comes first, and so does what this one dropped unfinished.
    ///
    /// # Errors
    /// As [`Client::send`]; what was taken when a reply was lost is returned by the next call. An
    /// element that cannot be understood is [`Error::Unexpected`] once and stays in hand.
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
    /// Ends an element.
    ///
    /// # Errors
    /// As [`Client::send`]: the element may be finished or not. Call it again, or drop `taken` to have an
    /// element that is not finished returned by a later [`take`](Self::take).
    pub async fn finish(&mut self, taken: &Taken<T>) -> Result<Finished> {
        let mut remove = cmd("LREM");
        remove.arg(&self.in_hand).arg(1).arg(&taken.element);
        let removed: u64 = self.keys.client.query(&self.in_hand, &remove).await?;
        self.held.table().elements.remove(&taken.element);
        Ok(if removed == 1 { Finished::Done } else { Finished::PutBack })
    }

    /// Says that this consumer is alive, as whoever is long at one element must.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn beat(&self) -> Result<()> {
        self.keys.client.run(&BEATS.on(&[&self.keys.consumers]).arg(&self.name)).await?;
        Ok(())
    }

    /// Looks for elements in our list that nobody was told of, the oldest first.
    async fn find(&mut self) -> Result<()> {
        self.unsure = true;
        // From here on: what is dropped while the list is read is looked for by the next call.
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
        // Until the reply is here, something may be in our list that nobody knows of.
        self.unsure = true;
        let element = keys.client.eval(&TAKE.on(&lists).arg(&self.name)).await?;
        self.unsure = false;
        Ok(element)
    }

    /// Waits until the bell rings, no longer than this.
    async fn wait(&mut self, time: Duration) -> Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.keys.client.dedicated(&self.keys.list).await?,
        };
        let mut listen = cmd("BLPOP");
        // Zero would be for ever.
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
