//! One pub/sub connection for all subscriptions of a handle.
//!
//! Channels are reference-counted: the first subscriber sends SUBSCRIBE; after the last one leaves,
//! UNSUBSCRIBE is delayed, because a task that waits for a lock often returns. Publishing is fire
//! and forget, so everything built on the pub/sub connection must be correct even if no message
//! arrives: messages only reduce latency. [`Event::Resumed`] means that messages may have been
//! missed and the subscriber must check the state itself. It follows every reconnect, and is sent
//! to a subscriber whose buffer overflowed.
//!
//! On a Cluster any node can be used: the nodes forward messages to each other.
//!
//! Each subscriber has its own [`Mailbox`]: a slow subscriber delays no other, and a channel
//! without messages costs less than a kilobyte.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use redis::aio::{PubSubSink, PubSubStream};
use seawall_resilience::{
    Backoff,
    clock::{Clock, Moment},
};
use tokio::sync::{mpsc, watch};

use super::{Route, mailbox::Mailbox};
use crate::error::{Error, Result};

/// How long a channel without subscribers is kept.
const LINGER: Duration = Duration::from_secs(5);
/// Interval of the pings that check the connection.
const PING: Duration = Duration::from_secs(1);
/// Maximum number of channels per SUBSCRIBE command. Bounded so that each command is answered
/// within the time limit, however many channels there are and however slow the machine is.
const AT_ONCE: usize = 256;
/// Messages delivered in a row before requests get a turn. Below the number of operations
/// after which tokio makes a task yield, so that the turn is a real one.
const BURST: u32 = 64;
/// Pauses before a lost connection is opened again.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(20), Duration::from_millis(500));

/// Event for a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A message.
    Message(Arc<[u8]>),
    /// The connection was lost; no message arrives until [`Event::Resumed`].
    Interrupted,
    /// The server confirmed the subscription, for the first time or after a loss, or the buffer
    /// overflowed: messages may have been missed.
    Resumed,
}

/// Subscriptions of one handle.
#[derive(Clone)]
pub struct PubSub {
    shared: Arc<Shared>,
    clock: Clock,
}

struct Shared {
    channels: Mutex<HashMap<Arc<[u8]>, Channel>>,
    requests: mpsc::UnboundedSender<Request>,
    connected: watch::Sender<bool>,
}

struct Channel {
    subscribers: BTreeMap<u64, Arc<Mailbox>>,
    /// Number of the next subscriber.
    next: u64,
    /// `true` if the server confirmed the channel on the current connection.
    confirmed: watch::Sender<bool>,
}

impl Channel {
    fn tell(&self, event: &Event) {
        self.subscribers.values().for_each(|mailbox| mailbox.put(event.clone()));
    }
}

enum Request {
    Subscribe(Arc<[u8]>),
    /// The last subscriber left; the channel is dropped if no subscriber returns within the linger.
    Left(Arc<[u8]>),
}

impl Shared {
    fn channels(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Channel>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells subscribers that the connection was lost.
    fn interrupt(&self) {
        for channel in in_order(self.channels().iter()) {
            if channel.confirmed.send_replace(false) {
                channel.tell(&Event::Interrupted);
            }
        }
    }
}

impl PubSub {
    /// Creates the pub/sub connection and the task that runs it. The task ends when `stop` becomes
    /// `true`.
    pub(super) fn new(
        route: Route,
        first_server: usize,
        stop: watch::Receiver<bool>,
    ) -> (Self, impl Future<Output = ()>) {
        let (requests, inbox) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            channels: Mutex::default(),
            requests,
            connected: watch::Sender::new(false),
        });
        let clock = route.dialer().clock.clone();
        let task = run(Arc::clone(&shared), (route, first_server), clock.clone(), inbox, stop);
        (PubSub { shared, clock }, task)
    }

    /// Subscribes and waits until the server confirms, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the server does not confirm within `limit`, [`Error::Closed`]
    /// after a shutdown.
    ///
    /// # Cancel safety
    /// Dropping the future leaves no subscription behind.
    pub async fn subscribe(&self, channel: &[u8], limit: Duration) -> Result<Subscription> {
        if self.shared.requests.is_closed() {
            return Err(Error::Closed);
        }
        let subscription = self.join(channel);
        let mut confirmed = subscription.confirmed.clone();
        match self.clock.timeout(limit, confirmed.wait_for(|confirmed| *confirmed)).await {
            Some(Ok(_)) => Ok(subscription),
            Some(Err(_)) => Err(Error::Closed),
            None => {
                Err(Error::Unavailable("the server did not confirm a subscription in time".into()))
            }
        }
    }

    /// Subscribes without waiting.
    ///
    /// If the channel is already confirmed, the subscription is live at once
    /// ([`Subscription::is_live`]); otherwise its first event is [`Event::Resumed`], when the
    /// server confirms.
    #[must_use]
    pub fn join(&self, channel: &[u8]) -> Subscription {
        let mut channels = self.shared.channels();
        let (name, entry) = match channels.get_key_value(channel) {
            Some((name, _)) => {
                let name = Arc::clone(name);
                let entry = channels.get_mut(channel).expect("it was found a line ago");
                (name, entry)
            }
            None => {
                let name: Arc<[u8]> = channel.into();
                let fresh = Channel {
                    subscribers: BTreeMap::new(),
                    next: 0,
                    confirmed: watch::Sender::new(false),
                };
                // The task lives as long as the handle; if it has ended, nothing is ever confirmed.
                let _ = self.shared.requests.send(Request::Subscribe(Arc::clone(&name)));
                (Arc::clone(&name), channels.entry(name).or_insert(fresh))
            }
        };
        let number = entry.next;
        entry.next += 1;
        let mailbox = Arc::new(Mailbox::default());
        entry.subscribers.insert(number, Arc::clone(&mailbox));
        let confirmed = entry.confirmed.subscribe();
        let joined_live = *confirmed.borrow();
        drop(channels);
        // The task closes its inbox before it clears the list of channels. A subscriber that was
        // not on that list is closed here.
        if self.shared.requests.is_closed() {
            mailbox.close();
        }
        let shared = Arc::clone(&self.shared);
        Subscription { name, number, mailbox, confirmed, joined_live, shared }
    }

    /// Returns `true` if the pub/sub connection is currently open.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.shared.connected.borrow()
    }

    /// Returns the number of subscribed channels, including those that linger.
    #[must_use]
    pub fn channels(&self) -> usize {
        self.shared.channels().len()
    }
}

impl std::fmt::Debug for PubSub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PubSub").field("channels", &self.channels()).finish_non_exhaustive()
    }
}

/// A subscription to one channel. Dropping it unsubscribes.
pub struct Subscription {
    name: Arc<[u8]>,
    number: u64,
    mailbox: Arc<Mailbox>,
    confirmed: watch::Receiver<bool>,
    joined_live: bool,
    shared: Arc<Shared>,
}

impl Subscription {
    /// Returns `true` if the channel was already confirmed when this subscription joined it.
    ///
    /// Otherwise its first event is [`Event::Resumed`], which marks the start of delivery.
    pub fn joined_live(&self) -> bool {
        self.joined_live
    }

    /// Returns `true` if the server has confirmed the channel on the current connection.
    pub fn is_confirmed(&self) -> bool {
        *self.confirmed.borrow()
    }

    /// Returns the next event, or `None` after the handle is shut down.
    ///
    /// # Cancel safety
    /// No event is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Event> {
        self.mailbox.next().await
    }

    /// Returns `true` if the server currently delivers messages to this subscription.
    #[must_use]
    pub fn is_live(&self) -> bool {
        *self.confirmed.borrow()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut channels = self.shared.channels();
        if let Some(channel) = channels.get_mut(&self.name) {
            let was_there = channel.subscribers.remove(&self.number).is_some();
            if was_there && channel.subscribers.is_empty() {
                let _ = self.shared.requests.send(Request::Left(Arc::clone(&self.name)));
            }
        }
    }
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("channel", &String::from_utf8_lossy(&self.name))
            .finish_non_exhaustive()
    }
}

async fn run(
    shared: Arc<Shared>,
    (route, first_server): (Route, usize),
    clock: Clock,
    mut inbox: mpsc::UnboundedReceiver<Request>,
    mut stop: watch::Receiver<bool>,
) {
    let mut pauses = PAUSES;
    let mut turn = 0;
    loop {
        // The connection is opened on the first subscription.
        if shared.channels().is_empty() {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                _ = inbox.recv() => {}
            }
        }
        let session = async {
            let address = route.any_address(first_server, turn).await?;
            let (sink, stream) = route.dialer().messages(&address).await?.split();
            tokio::select! {
                biased;
                ended = serve(&shared, &clock, sink, stream, &mut inbox) => ended,
                () = route.left(&address) => Err(Error::Unavailable("the server was replaced".into())),
            }
        };
        let ended = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            ended = session => ended,
        };
        let was_connected = shared.connected.send_replace(false);
        shared.interrupt();
        tracing::debug!(reason = ?ended, "messages interrupted");
        metrics::counter!("seawall_hub_interruptions_total").increment(1);
        if was_connected {
            pauses.reset();
        }
        turn += 1;
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            () = clock.sleep(pauses.pause()) => {}
        }
    }
    // Existing subscribers see the end; later ones see that requests are no longer accepted.
    inbox.close();
    for channel in in_order(shared.channels().drain()) {
        channel.subscribers.values().for_each(|mailbox| mailbox.close());
    }
}

/// Returns channels in the order of their names, so that subscribers are told in the same order in
/// every run.
fn in_order<N: Ord, C>(channels: impl Iterator<Item = (N, C)>) -> impl Iterator<Item = C> {
    let mut channels: Vec<_> = channels.collect();
    channels.sort_by(|(one, _), (other, _)| one.cmp(other));
    channels.into_iter().map(|(_, channel)| channel)
}

/// Serves one connection until it fails.
async fn serve(
    shared: &Arc<Shared>,
    clock: &Clock,
    mut sink: PubSubSink,
    mut stream: PubSubStream,
    inbox: &mut mpsc::UnboundedReceiver<Request>,
) -> Result<()> {
    let names: Vec<Arc<[u8]>> = {
        let mut channels = shared.channels();
        channels.retain(|_, channel| !channel.subscribers.is_empty());
        let mut names: Vec<_> = channels.keys().cloned().collect();
        names.sort_unstable();
        names
    };
    subscribe(shared, clock, &mut sink, &names).await?;
    shared.connected.send_replace(true);
    let mut leaving = VecDeque::new();
    let heartbeat = clock.sleep(Duration::ZERO);
    tokio::pin!(heartbeat);
    // Messages delivered since requests got their last turn.
    let mut burst = 0;
    loop {
        tokio::select! {
            biased;
            // First, because messages and requests may never cease.
            () = &mut heartbeat => {
                heartbeat.set(clock.sleep(PING));
                unsubscribe(shared, clock, &mut sink, &mut leaving).await?;
                clock
                    .timeout(PING * 2, sink.ping::<redis::Value>())
                    .await
                    .ok_or_else(|| Error::Unavailable("the connection for messages is silent".into()))?
                    .map_err(failed)?;
            }
            message = stream.next(), if burst < BURST => {
                burst += 1;
                let Some(message) = message else {
                    return Err(Error::Unavailable("the connection for messages ended".into()));
                };
                let name: Vec<u8> = message.get_channel().map_err(failed)?;
                if let Some(channel) = shared.channels().get(name.as_slice()) {
                    channel.tell(&Event::Message(message.get_payload_bytes().into()));
                }
            }
            request = inbox.recv() => {
                burst = 0;
                let mut fresh = Vec::new();
                // All requests that arrived in the meantime share one command.
                let mut next = request;
                while let Some(request) = next {
                    match request {
                        Request::Subscribe(name) => fresh.push(name),
                        Request::Left(name) => leaving.push_back((clock.now() + LINGER, name)),
                    }
                    next = inbox.recv().now_or_never().flatten();
                }
                subscribe(shared, clock, &mut sink, &fresh).await?;
            }
            () = std::future::ready(()), if burst == BURST => burst = 0,
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "its only use is in map_err")]
fn failed(error: redis::RedisError) -> Error {
    Error::from_client(&error, PING)
}

/// Unsubscribes channels whose linger has passed and that have no subscriber.
async fn unsubscribe(
    shared: &Shared,
    clock: &Clock,
    sink: &mut PubSubSink,
    leaving: &mut VecDeque<(Moment, Arc<[u8]>)>,
) -> Result<()> {
    let mut gone = Vec::new();
    while leaving.front().is_some_and(|(due, _)| *due <= clock.now()) {
        let Some((_, name)) = leaving.pop_front() else { break };
        let mut channels = shared.channels();
        if channels.get(&name).is_some_and(|channel| channel.subscribers.is_empty()) {
            channels.remove(&name);
            gone.push(name);
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    let list: Vec<&[u8]> = gone.iter().map(|name| &**name).collect();
    clock
        .timeout(PING * 2, sink.unsubscribe(list))
        .await
        .ok_or_else(|| Error::Unavailable("the connection for messages is silent".into()))?
        .map_err(failed)
}

/// Subscribes to those of these channels that are still wanted and not yet confirmed.
async fn subscribe(
    shared: &Shared,
    clock: &Clock,
    sink: &mut PubSubSink,
    names: &[Arc<[u8]>],
) -> Result<()> {
    let open = |name: &&Arc<[u8]>| {
        shared.channels().get(*name).is_some_and(|channel| !*channel.confirmed.borrow())
    };
    let names: Vec<&Arc<[u8]>> = names.iter().filter(open).collect();
    for some in names.chunks(AT_ONCE) {
        let list: Vec<&[u8]> = some.iter().map(|name| &***name).collect();
        clock
            .timeout(PING * 2, sink.subscribe(list))
            .await
            .ok_or_else(|| Error::Unavailable("the server did not confirm subscriptions".into()))?
            .map_err(failed)?;
        // Set before subscribers are notified: a confirmed subscription implies `is_connected`.
        shared.connected.send_replace(true);
        let channels = shared.channels();
        for channel in some.iter().filter_map(|name| channels.get(*name)) {
            channel.confirmed.send_replace(true);
            channel.tell(&Event::Resumed);
        }
    }
    Ok(())
}
