//! Receives the messages between local tiers, and notices those it did not receive.
//!
//! A subscriber that sees a number missing, or was without a connection, drops its whole local tier: it
//! cannot know what it missed. Because the *last* message before a silence can be lost too, the
//! counter itself is read five times a second and compared with what was heard. So a local tier is
//! never more than about 300 ms behind as long as Redis answers at all, messages or not. It is read
//! together with those of other caches (`counters.rs`), and not at all while no reader uses what the cache
//! holds here (`attention.rs`).
//!
//! Messages are heard while the counter is being read: an answer that does not come delays nothing
//! but the look itself, and is soon asked for again.
//!
//! A counter that is not there is begun by the first one who looks. Otherwise the first message would
//! begin it, at a number that no subscriber could know to be the first.
//!
//! After a reconnect it is unknown which numbers were missed, so the first message says nothing about
//! those before it: only a look tells where we stand, and everything is dropped at that moment.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use seawall_client::{
    client::{Event, Subscription},
    sequence::{Arrival, Sequence},
};
use seawall_resilience::clock::{Clock, Moment};

use crate::{
    backplane::attention::Attention,
    backplane::counters::Counters,
    backplane::message::{Body, parse, tag_hash},
    filter::Filter,
    life::Life,
    metrics::Metrics,
    tier::local::LocalTier,
    tier::remote::RemoteTier,
};

/// For how long after its last use what is held is still compared.
const QUIET: Duration = Duration::from_secs(1);
/// How often the counter is compared with what was heard.
const LOOK: Duration = Duration::from_millis(200);
/// How long a message may be under way before it counts as lost.
const GRACE: Duration = Duration::from_millis(100);
/// How long the counter is waited for before it is asked for again; doubled each time in a row, up
/// to the time-out for replies.
const PATIENCE: Duration = Duration::from_millis(300);

/// Follows the messages of a namespace until the cache or the handle ends.
pub(crate) async fn listen<V: Send + Sync + 'static>(
    remote: Arc<RemoteTier>,
    holds: Holds<V>,
    counters: Arc<Counters>,
    metrics: Arc<Metrics>,
    clock: Clock,
    mut life: Life,
) {
    let subscription = remote.client.pubsub().join(remote.names.channel());
    let mut listener = Listener {
        remote,
        local: holds.local,
        filter: holds.filter,
        attention: holds.attention,
        counters,
        metrics,
        last_used: clock.now(),
        clock,
        heard: Sequence::default(),
        unplaced: 0,
        patience: PATIENCE,
    };
    tokio::select! {
        biased;
        () = life.over() => {}
        () = listener.run(subscription) => {}
    }
}

/// What a cache holds in this process, and whether it is used.
pub(crate) struct Holds<V> {
    pub(crate) local: Option<Arc<LocalTier<V>>>,
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) attention: Arc<Attention>,
}

struct Listener<V> {
    remote: Arc<RemoteTier>,
    local: Option<Arc<LocalTier<V>>>,
    filter: Option<Arc<Filter>>,
    attention: Arc<Attention>,
    counters: Arc<Counters>,
    metrics: Arc<Metrics>,
    clock: Clock,
    last_used: Moment,
    /// The last message before which none is missing; without a position until a look tells.
    heard: Sequence,
    /// The highest number that was heard before a look told where we stand.
    unplaced: u64,
    /// How long the next answer is waited for.
    patience: Duration,
}

impl<V> Drop for Listener<V> {
    fn drop(&mut self) {
        // Whatever ended it: invalidations of the copies are no longer received.
        self.attention.end();
    }
}

/// How far the comparison with the counter is.
enum Look {
    /// Nothing is compared until what is held is used.
    Resting,
    /// The next one begins then.
    Due(Moment),
    /// The counter is being read.
    Reading(Start, BoxFuture<'static, Option<Counter>>),
    /// Messages up to this number are under way, for no longer than until then.
    Awaiting(Start, u64, Moment),
}

/// The counter as it was read.
#[derive(Clone, Copy)]
struct Counter {
    /// The number of the last message; 0 when there is none.
    sent: u64,
    /// The number from which on messages are heard: the same, or where the counter was begun.
    from: u64,
}

/// How things stood when the counter was asked for.
#[derive(Clone, Copy)]
struct Start {
    at: Moment,
    heard: Option<u64>,
    confirmed: bool,
}

impl Look {
    /// Waits until there is something to do; the counter, where it was read.
    async fn ready(&mut self, clock: &Clock, attention: &Attention) -> Option<Counter> {
        match self {
            Look::Resting => {
                attention.woken().await;
                None
            }
            Look::Due(at) | Look::Awaiting(_, _, at) => {
                clock.sleep_until(*at).await;
                None
            }
            Look::Reading(_, counter) => counter.await,
        }
    }
}

impl<V> Listener<V> {
    async fn run(&mut self, mut subscription: Subscription) {
        let mut look = Look::Due(self.clock.now());
        loop {
            tokio::select! {
                biased;
                event = subscription.next() => match event {
                    Some(Event::Message(message)) => {
                        self.hear(&message);
                        if let Look::Awaiting(start, number, _) = look
                            && self.heard.last() >= Some(number)
                        {
                            look = self.complete(start);
                        }
                    }
                    Some(Event::Resumed) => {
                        self.lost_track("messages were interrupted");
                        self.heard.forget();
                        self.unplaced = 0;
                        look = Look::Due(self.clock.now());
                    }
                    Some(Event::Interrupted) => {}
                    None => return,
                },
                counter = look.ready(&self.clock, &self.attention) => {
                    look = match (look, counter) {
                        (Look::Due(_), _) if self.may_rest() => Look::Resting,
                        (Look::Due(_), _) => self.begin(subscription.is_confirmed()),
                        (Look::Resting, _) => {
                            self.last_used = self.clock.now();
                            self.begin(subscription.is_confirmed())
                        }
                        (Look::Reading(start, _), Some(counter)) => self.compare(start, counter),
                        (Look::Reading(..), None) => self.later(),
                        (Look::Awaiting(start, number, _), _) => {
                            self.gap("a message did not come");
                            self.heard.place(number);
                            self.complete(start)
                        }
                    };
                }
            }
        }
    }

    /// Returns `true` if the next comparison is not needed.
    fn may_rest(&mut self) -> bool {
        let now = self.clock.now();
        if self.attention.was_used() {
            self.last_used = now;
        }
        // Where we stand is to be known first, and a filter to be built.
        if self.heard.last().is_none()
            || self.filter.as_ref().is_some_and(|filter| !filter.is_built())
        {
            return false;
        }
        let is_vacant =
            || self.filter.is_none() && self.local.as_ref().is_none_or(|local| local.is_empty());
        self.attention.leave(is_vacant)
            || now.since(self.last_used) >= QUIET && self.attention.sleep()
    }

    /// Asks for the counter.
    fn begin(&mut self, confirmed: bool) -> Look {
        let start = Start { at: self.clock.now(), heard: self.heard.last(), confirmed };
        let (counters, patience) = (Arc::clone(&self.counters), self.patience);
        let key = self.remote.names.counter().to_vec();
        // Told by the answer when there is one.
        self.patience = (patience * 2).min(self.remote.client.response_timeout()).max(PATIENCE);
        let (remote, clock) =
            (Arc::clone(&self.remote), self.remote.client.network_clock().clone());
        let counter = async move {
            let sent = counters.read(&key).await?;
            let from = match sent {
                // Who may not write here sees a gap at the first message.
                0 => remote.begin(&key).await.unwrap_or(0),
                sent => sent,
            };
            Some(Counter { sent, from })
        };
        Look::Reading(start, Box::pin(async move { clock.timeout(patience, counter).await? }))
    }

    /// Returns the next moment at which all caches look.
    fn later(&self) -> Look {
        let look = u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX);
        let gone = self.clock.now().as_nanos() % look;
        Look::Due(self.clock.now() + Duration::from_nanos(look - gone))
    }

    /// Everything that was announced before this look began was heard, or given up.
    fn complete(&self, start: Start) -> Look {
        if let Some(filter) = &self.filter
            && start.confirmed
        {
            filter.complete_at(start.at);
        }
        self.attention.compared();
        self.later()
    }

    /// Compares the counter, read at some moment since `start`, with what was heard.
    fn compare(&mut self, start: Start, counter: Counter) -> Look {
        self.patience = PATIENCE;
        match self.heard.last() {
            None => {
                // Whatever was invalidated before this moment, no copy of it is older than this
                // look; and whatever was heard was sent before it.
                self.lost_track("the first look");
                self.heard.place(counter.from.max(self.unplaced));
            }
            Some(_) if Some(counter.sent) < start.heard => {
                // Redis came back with an older state, or with none.
                self.gap("the counter went back");
                self.heard.place(counter.from);
            }
            Some(heard) if heard < counter.sent => {
                return Look::Awaiting(start, counter.sent, self.clock.now() + GRACE);
            }
            Some(_) => {}
        }
        self.complete(start)
    }

    fn hear(&mut self, message: &[u8]) {
        let Some((number, body)) = parse(message) else {
            tracing::warn!("a message that nobody of ours sent");
            return;
        };
        match self.heard.receive(number) {
            Arrival::Next => {}
            // Missing, or an old one: the counter began anew.
            Arrival::Gap(_) | Arrival::Restarted => self.gap("a number is missing"),
            // The one before it may have been lost: only a look can tell where we stand.
            Arrival::Unplaced => self.unplaced = self.unplaced.max(number),
        }
        match body {
            Body::Keys(keys) => {
                for key in keys {
                    if let Some(filter) = &self.filter {
                        filter.insert(key);
                    }
                    if let Some(local) = &self.local {
                        local.invalidate(key);
                    }
                }
            }
            Body::Tag(tag) => {
                if let Some(local) = &self.local {
                    local.clear_tag(tag_hash(tag));
                }
            }
            Body::All => self.forget(),
        }
    }

    fn gap(&mut self, reason: &'static str) {
        self.metrics.gaps.increment(1);
        self.lost_track(reason);
    }

    fn lost_track(&mut self, reason: &'static str) {
        tracing::debug!(cache = self.remote.names.name(), reason, "local tier dropped");
        self.forget();
    }

    fn forget(&self) {
        if let Some(local) = &self.local {
            local.clear();
        }
        if let Some(filter) = &self.filter {
            filter.lost_track();
        }
    }
}
