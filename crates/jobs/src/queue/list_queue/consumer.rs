//! A consumer of a simple queue, and the elements that it has taken.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Value, cmd};
use seawall_client::{
    Script,
    client::DedicatedConnection,
    error::{Error, Result},
};
use serde::de::DeserializeOwned;

use super::{Keys, MARK};
use crate::queue::decode::decode;

/// Longest block on the bell before [`ListConsumer::take`] looks again and reports that it is
/// alive.
const BEAT: Duration = Duration::from_secs(1);

static TAKE: Script = Script::with_time(include_str!("../script/take.lua"));
static BEATS: Script = Script::with_time(include_str!("../script/beat.lua"));

/// Outcome of [`ListConsumer::finish`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Finished {
    /// The element is removed.
    Done,
    /// The element was no longer in this consumer's list.
    ///
    /// Either [`ListQueue::recover`](super::ListQueue::recover) put it back because this consumer was silent for too long, and
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

/// One consumer of a [`ListQueue`](super::ListQueue).
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
    /// As [`Client::send`](seawall_client::Client::send). If a reply was lost, the next call returns the element that was taken.
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
    pub(super) fn new(keys: Arc<Keys>, name: String) -> Result<Self> {
        Ok(ListConsumer {
            in_hand: keys.in_hand(&name)?,
            keys,
            name,
            connection: None,
            held: Arc::default(),
            found: VecDeque::new(),
            unsure: true,
            payload: PhantomData,
        })
    }

    /// Finishes an element and removes it.
    ///
    /// # Errors
    /// As [`Client::send`](seawall_client::Client::send): the element may be finished or not. Call it again, or drop `taken`: an
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
    /// As [`Client::send`](seawall_client::Client::send).
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

impl<T> fmt::Debug for ListConsumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListConsumer")
            .field("name", &self.name)
            .field("in_hand", &self.held.table().elements.len())
            .finish_non_exhaustive()
    }
}
