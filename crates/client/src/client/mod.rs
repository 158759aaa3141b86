//! The only access path to Redis: send a command, run a script, open a subscription.
//!
//! All typed operations are built on [`Client`]. Only [`Client`] knows which client library is used
//! and whether there is one server, a primary monitored by sentinels, or a Cluster. Every command
//! is sent with the key that determines its server; with a single server that key is ignored.

mod capabilities;
mod cluster;
mod dedicated;
pub(crate) mod dial;
mod latency;
mod mailbox;
mod monitored;
mod multiplexed;
mod node;
mod pubsub;
mod replies;
mod script;
mod sentinel;
mod servers;
mod slot;
pub(crate) mod tls;
pub(crate) mod transport;
pub(crate) mod url;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

pub use capabilities::{Capabilities, Flavour};
pub(crate) use cluster::Cluster;
pub use dedicated::DedicatedConnection;
use futures_util::future::join_all;
use metrics::Counter;
pub use monitored::Monitored;
pub use multiplexed::Pulse;
pub use node::Node;
pub use pubsub::{Event, PubSub, Subscription};
use redis::{Cmd, FromRedisValue, Pipeline, Value};
pub use replies::Reply;
pub use script::{Script, ScriptInvocation};
use seawall_resilience::{
    clock::{Clock, Moment},
    random::Randomness,
};
pub(crate) use sentinel::Sentinels;
pub use slot::{SLOTS, slot};
use tokio::sync::{OnceCell, watch};

pub use self::{dial::Address, transport::ByteStream, url::Host};
use self::{
    dial::Dialer,
    latency::{Latency, SAMPLE},
};
use crate::{
    error::{Error, Result},
    striped_counter::StripedCounter,
    testing::Faults,
};

/// Layout of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server, possibly inside this process.
    Single,
    /// A primary monitored by sentinels.
    Sentinel,
    /// A Cluster: keys are spread over slots, and one command or script can only use keys of one
    /// slot.
    Cluster,
}

/// Client of one Redis deployment. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    route: Route,
    topology: Topology,
    pubsub: PubSub,
    sources: Sources,
    capabilities: OnceCell<Capabilities>,
    /// Server's clock minus ours, in microseconds.
    offset_micros: AtomicI64,
    /// `true` once the offset has been measured.
    knows_clock: AtomicBool,
    faults: Faults,
    closed: AtomicBool,
    /// The runtime on which the connections' tasks run.
    home: Option<tokio::runtime::Id>,
    commands: StripedCounter,
    failures: Counter,
    latency: Latency,
}

/// Where a handle gets its time and its random numbers from.
pub(crate) struct Sources {
    pub(crate) clock: Clock,
    pub(crate) network_clock: Clock,
    pub(crate) randomness: Randomness,
}

/// Where commands are sent.
#[derive(Clone)]
pub(crate) enum Route {
    Single(Arc<Node>),
    Cluster(Arc<Cluster>),
}

impl Route {
    fn dialer(&self) -> Arc<Dialer> {
        match self {
            Route::Single(node) => Arc::clone(node.dialer()),
            Route::Cluster(cluster) => cluster.dialer(),
        }
    }

    /// Returns the address of any server. With several servers, `first` selects the first one, and
    /// each `turn` another one.
    async fn any_address(&self, first: usize, turn: usize) -> Result<Arc<Address>> {
        match self {
            Route::Single(node) => node.confirmed_address().await,
            Route::Cluster(cluster) => {
                if turn > 0 {
                    cluster.read_map().await?;
                }
                let nodes = cluster.nodes();
                let node = nodes.get((first + turn) % nodes.len().max(1));
                node.map(|node| node.address())
                    .ok_or_else(|| Error::Unavailable("the Cluster has no nodes".into()))
            }
        }
    }

    /// Waits until commands no longer go to the server at this address.
    async fn left(&self, address: &Arc<Address>) {
        let node = match self {
            Route::Single(node) => node,
            Route::Cluster(cluster) => return cluster.left(address).await,
        };
        let (mut opened, mut aimed) = (node.opened(), node.aimed());
        while node.address() == *address {
            tokio::select! {
                biased;
                _ = opened.changed() => {}
                _ = aimed.changed() => {}
            }
        }
    }

    async fn node(&self, key: &[u8]) -> Result<Arc<Node>> {
        match self {
            Route::Single(node) => Ok(Arc::clone(node)),
            Route::Cluster(cluster) => cluster.owner(slot(key)).await,
        }
    }
}

impl Client {
    pub(crate) fn new(
        route: Route,
        topology: Topology,
        sources: Sources,
        faults: Faults,
        stop: watch::Receiver<bool>,
    ) -> (Self, impl Future<Output = ()>) {
        // Processes spread their subscriptions over the servers.
        let first_server = sources.randomness.index(usize::from(u16::MAX));
        let (pubsub, pubsub_task) = PubSub::new(route.clone(), first_server, stop);
        let inner = Inner {
            route,
            topology,
            pubsub,
            sources,
            capabilities: OnceCell::new(),
            offset_micros: AtomicI64::new(0),
            knows_clock: AtomicBool::new(false),
            faults,
            closed: AtomicBool::new(false),
            home: tokio::runtime::Handle::try_current().ok().map(|home| home.id()),
            commands: StripedCounter::new(metrics::counter!("seawall_commands_total")),
            failures: metrics::counter!("seawall_command_failures_total"),
            latency: Latency::new(),
        };
        (Client { inner: Arc::new(inner) }, pubsub_task)
    }

    /// Sends a command to the server that owns `key`. An error reply is returned as an [`Error`].
    ///
    /// # Errors
    /// See [`Error`]: not sent, unknown, or refused.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the command.
    pub async fn send(&self, key: &[u8], command: &Cmd) -> Result<Value> {
        self.fetch(key, command).await.map(Value::from)
    }

    /// Like [`send`](Self::send), but strings are views of the read buffer, for callers that decode
    /// them.
    pub async fn fetch(&self, key: &[u8], command: &Cmd) -> Result<Reply> {
        let is_sample = self.inner.commands.count().is_multiple_of(SAMPLE);
        self.admit()?;
        self.learn_clock().await?;
        // Redis does not answer an empty request: every later reply would go to the wrong caller.
        if command.args_iter().len() == 0 {
            return Err(Error::Invalid("a command without a name".into()));
        }
        let sent = is_sample.then(|| self.network_clock().now());
        // Boxed where it is rare: the future of a command is moved around with those of its callers.
        let reply = match self.is_at_home() {
            true => self.fetch_routed(key, command).await,
            false => self.in_time(Box::pin(self.fetch_routed(key, command))).await,
        };
        if let Some(sent) = sent {
            self.inner.latency.note(command, self.network_clock().now().since(sent));
        }
        let reply = self.inner.faults.after(reply);
        if let Err(error) = &reply
            && !is_known_failure(error)
        {
            self.inner.failures.increment(1);
            note_failure(command, error);
        }
        reply
    }

    async fn fetch_routed(&self, key: &[u8], command: &Cmd) -> Result<Reply> {
        match &self.inner.route {
            Route::Single(node) => node.fetch(command).await,
            Route::Cluster(cluster) => cluster.send(key, command).await.map(Reply::from),
        }
    }

    /// Sends a command and converts its reply to a `T`.
    ///
    /// # Errors
    /// As [`Client::send`], and [`Error::Unexpected`] if the reply has another shape.
    pub async fn query<T: FromRedisValue>(&self, key: &[u8], command: &Cmd) -> Result<T> {
        Ok(redis::from_redis_value(self.send(key, command).await?)?)
    }

    /// Sends several commands, in one pipeline per server, and returns one reply for each, in
    /// order.
    ///
    /// A command that fails does not prevent the execution of the others.
    pub async fn send_all(&self, commands: Vec<(Vec<u8>, Cmd)>) -> Vec<Result<Value>> {
        let count = commands.len();
        // The client library treats an empty pipeline as a broken connection.
        if count == 0 {
            return Vec::new();
        }
        let samples = (0..count).filter(|_| self.inner.commands.count().is_multiple_of(SAMPLE));
        let is_sample = samples.count() > 0;
        let admitted = match self.admit() {
            Ok(()) => self.learn_clock().await,
            refused => refused,
        };
        if let Err(error) = admitted {
            return vec![Err(error); count];
        }
        if commands.iter().any(|(_, command)| command.args_iter().len() == 0) {
            return vec![Err(Error::Invalid("a command without a name".into())); count];
        }
        let sent = is_sample.then(|| self.network_clock().now());
        let replies = match self.is_at_home() {
            true => self.send_all_routed(commands).await,
            false => self.in_time(Box::pin(self.send_all_routed(commands))).await,
        };
        let replies = replies.unwrap_or_else(|error| vec![Err(error); count]);
        if let Some(sent) = sent {
            self.inner.latency.note_pipeline(self.network_clock().now().since(sent));
        }
        let failed =
            |reply: &&Result<Value>| reply.as_ref().is_err_and(|error| !is_known_failure(error));
        self.inner.failures.increment(replies.iter().filter(failed).count() as u64);
        replies.into_iter().map(|reply| self.inner.faults.after(reply)).collect()
    }

    async fn send_all_routed(&self, commands: Vec<(Vec<u8>, Cmd)>) -> Result<Vec<Result<Value>>> {
        match &self.inner.route {
            Route::Cluster(cluster) => Ok(cluster.send_all(commands).await),
            Route::Single(node) => {
                let mut pipeline = Pipeline::with_capacity(commands.len());
                for (_, command) in commands {
                    pipeline.add_command(command);
                }
                node.send_all(&pipeline).await
            }
        }
    }

    /// Runs a script on the server that owns its first key.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn run(&self, call: &ScriptInvocation) -> Result<Value> {
        match self.send(call.key(), call.by_digest()).await {
            Err(error) if error.is_code("NOSCRIPT") => self.send(call.key(), &call.in_full()).await,
            reply => reply,
        }
    }

    /// Runs a script and converts its reply to a `T`.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn eval<T: FromRedisValue>(&self, call: &ScriptInvocation) -> Result<T> {
        Ok(redis::from_redis_value(self.run(call).await?)?)
    }

    /// Runs several scripts, in one pipeline per server, and returns one reply for each, in order.
    pub async fn run_all(&self, calls: &[ScriptInvocation]) -> Vec<Result<Value>> {
        let commands =
            calls.iter().map(|call| (call.key().to_vec(), call.by_digest().clone())).collect();
        let mut replies = self.send_all(commands).await;
        let unknown =
            |reply: &Result<Value>| reply.as_ref().is_err_and(|error| error.is_code("NOSCRIPT"));
        let again: Vec<usize> = (0..calls.len()).filter(|&at| unknown(&replies[at])).collect();
        // Send the text once per script and server; the other calls then find the script there.
        let mut told = BTreeSet::new();
        let commands = again.iter().map(|&at| {
            let call = &calls[at];
            let first = told.insert((call.digest(), self.node_number(call.key())));
            (call.key().to_vec(), if first { call.in_full() } else { call.by_digest().clone() })
        });
        for (&at, reply) in again.iter().zip(self.send_all(commands.collect()).await) {
            // Another client has just flushed the scripts, or a slot has moved.
            replies[at] = if unknown(&reply) { self.run(&calls[at]).await } else { reply };
        }
        replies
    }

    /// Opens a dedicated connection to the server that owns `key`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if that server cannot be reached.
    pub async fn dedicated(&self, key: &[u8]) -> Result<DedicatedConnection> {
        self.admit()?;
        DedicatedConnection::open(self.inner.route.node(key).await?).await
    }

    /// Returns the pub/sub connection.
    #[must_use]
    pub fn pubsub(&self) -> &PubSub {
        &self.inner.pubsub
    }

    /// Returns the layout of the servers.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.inner.topology
    }

    /// Returns the number of the database that commands use. On a Cluster it is always 0.
    pub fn database(&self) -> u32 {
        u32::try_from(self.inner.route.dialer().database).expect("a URL has no other numbers")
    }

    /// Returns a receiver that changes whenever a new command connection is opened, to any server.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.inner.route.dialer().connections.subscribe()
    }

    /// Returns all servers that own keys.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.inner.route {
            Route::Single(node) => vec![Arc::clone(node)],
            Route::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Returns the clock of this handle.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.sources.clock
    }

    /// Returns the clock of network time-outs and of pauses that wait for a server.
    ///
    /// It is real time also in a test whose [`clock`](Self::clock) is manual: replies take the time
    /// that they take.
    #[must_use]
    pub fn network_clock(&self) -> &Clock {
        &self.inner.sources.network_clock
    }

    /// Returns the source of this handle's random numbers.
    #[must_use]
    pub fn randomness(&self) -> &Randomness {
        &self.inner.sources.randomness
    }

    /// Returns what the server is and which features it has. The server is queried once.
    ///
    /// # Errors
    /// As [`Client::send`], if the server has not been queried yet.
    pub async fn capabilities(&self) -> Result<&Capabilities> {
        self.inner.capabilities.get_or_try_init(|| Capabilities::ask(self)).await
    }

    /// Returns a number that identifies the server that owns `key`; 0 if there is only one server.
    ///
    /// Callers use it to track outages per server.
    pub fn node_number(&self, key: &[u8]) -> u64 {
        match &self.inner.route {
            Route::Single(_) => 0,
            Route::Cluster(cluster) => cluster.node_number(slot(key)),
        }
    }

    /// Returns `true` if the server runs inside this process.
    pub fn is_embedded(&self) -> bool {
        matches!(&self.inner.route, Route::Single(node) if *node.address() == Address::Embedded)
    }

    /// Returns the activity counters of the current connection to the server that owns `key`, or
    /// `None` if there is no connection.
    ///
    /// If `look` is set, the connection is also read once more.
    pub fn pulse(&self, key: &[u8], look: bool) -> Option<Pulse> {
        match &self.inner.route {
            Route::Single(node) => node.pulse(look),
            Route::Cluster(cluster) => cluster.pulse(slot(key), look),
        }
    }

    /// Returns the numbers of all primaries; empty if there is only one server.
    pub fn primary_numbers(&self) -> Vec<u64> {
        match &self.inner.route {
            Route::Single(_) => Vec::new(),
            Route::Cluster(cluster) => cluster.nodes().iter().map(|node| node.number()).collect(),
        }
    }

    /// Returns the server's clock in milliseconds since the Unix epoch, estimated from the local
    /// monotonic clock and the last measured offset.
    ///
    /// Precise enough for freshness; never used to decide which client holds a lock or lease.
    #[must_use]
    pub fn server_millis(&self) -> i64 {
        self.server_millis_at(self.inner.sources.clock.now())
    }

    fn server_millis_at(&self, moment: Moment) -> i64 {
        let micros = i64::try_from(moment.as_nanos() / 1000).unwrap_or(i64::MAX);
        micros.saturating_add(self.inner.offset_micros.load(Ordering::Relaxed)) / 1000
    }

    /// Flushes the counters to the metrics recorder.
    pub fn flush_counts(&self) {
        self.inner.commands.flush();
    }

    /// Returns the clock of the server that owns `key` at a given moment of the local clock.
    ///
    /// On a Cluster each server has its own clock.
    pub fn server_millis_of(&self, key: &[u8], moment: Moment) -> i64 {
        let Route::Cluster(cluster) = &self.inner.route else {
            return self.server_millis_at(moment);
        };
        let Some(offset) = cluster.offset_micros(slot(key)) else {
            return self.server_millis_at(moment);
        };
        let micros = i64::try_from(moment.as_nanos() / 1000).unwrap_or(i64::MAX);
        micros.saturating_add(offset) / 1000
    }

    /// Measures the offset between each server's clock and the local clock.
    ///
    /// Fails only if the owner of slot 0 does not answer.
    pub async fn measure_offset(&self) -> Result<()> {
        self.admit()?;
        let first = self.inner.route.node(b"").await?;
        let offset = first.measure_offset(&self.inner.sources.clock).await?;
        self.inner.offset_micros.store(offset, Ordering::Relaxed);
        self.inner.knows_clock.store(true, Ordering::Relaxed);
        if let Route::Cluster(cluster) = &self.inner.route {
            let nodes = cluster.nodes();
            let others = nodes.iter().filter(|node| node.number() != first.number());
            let measured = others.map(|node| node.measure_offset(&self.inner.sources.clock));
            for error in join_all(measured).await.into_iter().filter_map(Result::err) {
                tracing::debug!(%error, "the clock of a server cannot be read");
            }
        }
        Ok(())
    }

    /// Measures the servers' clocks before the first command of a handle that was opened lazily.
    /// Without the measurement, replies would be judged by a clock that may be far off.
    async fn learn_clock(&self) -> Result<()> {
        if self.inner.knows_clock.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.in_time(Box::pin(self.measure_offset())).await.map_err(|error| match error {
            // The command that may have been executed is not the caller's.
            Error::Indeterminate { cause, .. } => Error::Unavailable(cause),
            error => error,
        })
    }

    /// Returns the time-out for replies.
    #[must_use]
    pub fn response_timeout(&self) -> Duration {
        self.inner.route.dialer().response_timeout
    }

    /// Returns `true` unless the caller is on a runtime other than the connections' own.
    fn is_at_home(&self) -> bool {
        let here = tokio::runtime::Handle::try_current();
        here.map_or(true, |here| Some(here.id()) == self.inner.home)
    }

    /// Applies a time-out to calls from a runtime other than the connections' own. The connections'
    /// time-outs run on their own runtime, which may be stalled.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T>> + Unpin) -> Result<T> {
        if self.is_at_home() {
            return work.await;
        }
        let dialer = self.inner.route.dialer();
        let waited = dialer.connect_timeout + dialer.response_timeout * 2;
        let done = self.network_clock().timeout(waited, work).await;
        done.unwrap_or_else(|| {
            let cause = "nothing came from the handle's runtime, where its connections are".into();
            Err(Error::Indeterminate { waited, cause })
        })
    }

    fn admit(&self) -> Result<()> {
        if self.inner.closed.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        self.inner.faults.before()
    }

    pub(crate) fn close(&self) {
        self.inner.closed.store(true, Ordering::Relaxed);
        self.flush_counts();
        match &self.inner.route {
            Route::Single(node) => node.close(),
            Route::Cluster(cluster) => cluster.close(),
        }
    }
}

/// Returns `true` for NOSCRIPT, which is not a failure: the script is then sent in full.
fn is_known_failure(error: &Error) -> bool {
    error.is_code("NOSCRIPT")
}

/// Logs which command failed and how, without its arguments. Servers repeat arguments in their
/// messages, so only the code of a refusal is logged.
fn note_failure(command: &Cmd, error: &Error) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let name = match command.args_iter().next() {
        Some(redis::Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    };
    match error {
        Error::Refused { code, .. } => tracing::debug!(command = name, %code, "refused"),
        Error::Unexpected(_) | Error::Invalid(_) => {
            tracing::debug!(command = name, "not understood");
        }
        error => tracing::debug!(command = name, %error, "failed"),
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("topology", &self.inner.topology).finish_non_exhaustive()
    }
}
