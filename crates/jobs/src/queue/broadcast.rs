//! Messages to all current listeners, over the pub/sub connection of the handle.
//!
//! Publishing is fire and forget: a process that does not listen receives nothing, and a broken
//! connection loses the messages sent meanwhile. A listener always learns of a loss: messages are
//! numbered, and a gap, a reconnect or a full mailbox appears in the sequence as [`Heard::Missed`].
//! So it suits news that a listener can look up again, such as "the settings changed".

use std::{fmt, marker::PhantomData, sync::Arc};

use seawall_client::{
    Handle, Script,
    client::{Client, Event, Subscription},
    error::{Error, Result},
    sequence::{Arrival, Sequence, numbered},
};
use serde::{Serialize, de::DeserializeOwned};

use super::decode::decode;

/// Longest accepted message: every listener receives all of its bytes.
const MAX_PAYLOAD_BYTES: usize = 1 << 16;

static PUBLISH: Script = Script::with_time(include_str!("script/publish.lua"));

impl<T> Broadcast<T> {
    /// Creates a broadcast of `T` with this name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the name is empty or too long.
    pub fn new(handle: &Handle, name: impl AsRef<str>) -> Result<Broadcast<T>> {
        let key = handle.key("broadcast", name.as_ref())?;
        Ok(Broadcast { client: handle.client().clone(), key: key.into(), payload: PhantomData })
    }
}

/// Sends messages to all current listeners; cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, queue::Heard};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let settings = seawall.broadcast::<String>("settings")?;
/// let mut listener = settings.listen().await?;
/// settings.publish(&"changed".to_owned()).await?;
/// assert_eq!(listener.next().await, Some(Heard::Message("changed".to_owned())));
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub struct Broadcast<T> {
    client: Client,
    /// Key of the message counter, and name of the channel.
    key: Arc<[u8]>,
    payload: PhantomData<fn() -> T>,
}

/// What a listener receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard<T> {
    /// A message.
    Message(T),
    /// Messages may have been missed at this point. The number is given if it is known. The
    /// listener should reload the state it cares about.
    Missed(Option<u64>),
    /// A message that cannot be decoded, with the reason.
    Unreadable(String),
}

impl<T> Broadcast<T> {
    /// Subscribes. Every message published after this returns is received or reported as missed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server cannot be reached.
    pub async fn listen(&self) -> Result<Listener<T>> {
        let mut subscription = self.client.pubsub().join(&self.key);
        if !subscription.joined_live() {
            // The first event confirms the subscription: nothing was missed before it.
            let limit = self.client.response_timeout();
            match self.client.network_clock().timeout(limit, begun(&mut subscription)).await {
                Some(true) => {}
                Some(false) => return Err(Error::Closed),
                None => {
                    let text = "the server did not confirm a subscription in time";
                    return Err(Error::Unavailable(text.into()));
                }
            }
        }
        let sequence = Sequence::default();
        Ok(Listener { subscription, sequence, waiting: None, payload: PhantomData })
    }
}

impl<T: Serialize> Broadcast<T> {
    /// Publishes a message and returns the number of connections that received it.
    ///
    /// On a Cluster only the connections of one node are counted.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the message is too long. After [`Error::Indeterminate`] it may have
    /// been published.
    pub async fn publish(&self, message: &T) -> Result<u64> {
        let body = serde_json::to_vec(message)
            .map_err(|error| Error::Invalid(format!("the message cannot be written: {error}")))?;
        if body.len() > MAX_PAYLOAD_BYTES {
            return Err(Error::Invalid(format!(
                "a message of {} bytes is longer than the {MAX_PAYLOAD_BYTES} that are allowed",
                body.len()
            )));
        }
        self.client.eval(&PUBLISH.on(&[&self.key]).arg(&*self.key).arg(body)).await
    }
}

/// Receives the messages of a [`Broadcast`].
pub struct Listener<T> {
    subscription: Subscription,
    sequence: Sequence,
    /// A message that was received after a gap and is returned after the gap.
    waiting: Option<Heard<T>>,
    payload: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Listener<T> {
    /// Returns the next message or gap, or `None` after the handle was shut down.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Heard<T>> {
        if let Some(waiting) = self.waiting.take() {
            return Some(waiting);
        }
        // Every iteration but the last is an interruption, and its end is an event, too.
        loop {
            match self.subscription.next().await? {
                Event::Interrupted => {}
                Event::Resumed => return Some(Heard::Missed(None)),
                Event::Message(bytes) => return Some(self.read(&bytes)),
            }
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Heard<T> {
        let Some((number, body)) = numbered(bytes) else {
            return Heard::Unreadable("a message without a number".to_owned());
        };
        let heard = match decode(body) {
            Ok(message) => Heard::Message(message),
            Err(why) => Heard::Unreadable(why),
        };
        let missed = match self.sequence.receive(number) {
            Arrival::Next => return heard,
            // The first message since the subscription, which the server had confirmed before.
            Arrival::Unplaced => {
                self.sequence.place(number);
                return heard;
            }
            Arrival::Gap(missed) => Some(missed),
            Arrival::Restarted => None,
        };
        self.waiting = Some(heard);
        Heard::Missed(missed)
    }
}

/// Waits for the first confirmation. Returns `false` if the handle was shut down.
async fn begun(subscription: &mut Subscription) -> bool {
    // Every iteration but the last is an attempt that the server interrupted.
    loop {
        match subscription.next().await {
            Some(Event::Resumed) => return true,
            Some(Event::Interrupted | Event::Message(_)) => {}
            None => return false,
        }
    }
}

impl<T> Clone for Broadcast<T> {
    fn clone(&self) -> Self {
        Broadcast { client: self.client.clone(), key: Arc::clone(&self.key), payload: PhantomData }
    }
}

impl<T> fmt::Debug for Broadcast<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let channel = String::from_utf8_lossy(&self.key);
        f.debug_struct("Broadcast").field("channel", &channel).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Listener<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("last", &self.sequence.last()).finish_non_exhaustive()
    }
}
