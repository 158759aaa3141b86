//! The one seam to Redis: send a command, run a script, open a subscription.
//!
//! Everything typed in this crate stands on [`Client`], and [`Client`] alone knows which client library
//! is underneath and whether there is one server, a primary that sentinels watch over, or a Cluster.
//! Every command is sent with the key that decides where it goes; on a single server that key is
//! not looked at.

mod capabilities;
mod cluster;
mod dedicated;
pub(crate) mod dial;
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
pub(crate) mod url;

use std::{
    collections::HashSet,
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
use seawall_resilience::clock::{Clock, Moment};
pub(crate) use sentinel::Sentinels;
pub use slot::{SLOTS, slot};
use tokio::sync::{OnceCell, watch};

use self::dial::Dialer;
pub use self::{dial::Address, url::Host};
use crate::{
    error::{Error, Result},
    striped_counter::StripedCounter,
    testing::Faults,
};

/// How the servers are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Topology {
    /// One server, perhaps inside this process.
    Single,
    /// A primary that sentinels watch over.
    Sentinel,
    /// A Cluster: keys spread over slots, and only keys of one slot go together.
    Cluster,
}

/// A cheap handle on the connection to Redis.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    route: Route,
    topology: Topology,
    pubsub: PubSub,
    clock: Clock,
    capabilities: OnceCell<Capabilities>,
    /// Server's clock minus ours, in microseconds.
    offset_micros: AtomicI64,
    /// Whether that was ever measured.
    knows_clock: AtomicBool,
    faults: Faults,
    closed: AtomicBool,
    /// The runtime that the connections' tasks run on.
    home: Option<tokio::runtime::Id>,
    commands: StripedCounter,
    failures: Counter,
}

/// Where commands go.
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

    /// The address of any server; another one with each turn where there are several.
    async fn any_address(&self, turn: usize) -> Result<Arc<Address>> {
        match self {
            Route::Single(node) => node.confirmed_address().await,
            Route::Cluster(cluster) => {
                if turn > 0 {
                    cluster.read_map().await?;
                }
                let nodes = cluster.nodes();
                let first = std::process::id() as usize;
                let node = nodes.get((first + turn) % nodes.len().max(1));
                node.map(|node| node.address())
                    .ok_or_else(|| Error::Unavailable("the Cluster has no nodes".into()))
            }
        }
    }

    /// Waits until commands go to another server than this one.
    async fn left(&self, address: &Arc<Address>) {
        let node = match self {
            Route::Single(node) => node,
            Route::Cluster(cluster) => return cluster.left(address).await,
        };
        let (mut opened, mut aimed) = (node.opened(), node.aimed());
        while node.address() == *address {
            tokio::select! {
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
        clock: Clock,
        faults: Faults,
        stop: watch::Receiver<bool>,
    ) -> (Self, impl Future<Output = ()>) {
        let (pubsub, pubsub_task) = PubSub::new(route.clone(), stop);
        let inner = Inner {
            route,
            topology,
            pubsub,
            clock,
            capabilities: OnceCell::new(),
            offset_micros: AtomicI64::new(0),
            knows_clock: AtomicBool::new(false),
            faults,
            closed: AtomicBool::new(false),
            home: tokio::runtime::Handle::try_current().ok().map(|home| home.id()),
            commands: StripedCounter::new(metrics::counter!("seawall_commands_total")),
            failures: metrics::counter!("seawall_command_failures_total"),
        };
        (Client { inner: Arc::new(inner) }, pubsub_task)
    }

    /// Sends a command to the server that has `key`; a reply that is an error is an [`Error`].
    ///
    /// # Errors
    /// See [`Error`]: nothing sent, unknown, or refused.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the command back.
    pub async fn send(&self, key: &[u8], command: &Cmd) -> Result<Value> {
        self.fetch(key, command).await.map(Value::from)
    }

    /// The same, with strings as they were read, for those who decode them anyway.
    pub async fn fetch(&self, key: &[u8], command: &Cmd) -> Result<Reply> {
        self.inner.commands.count();
        self.admit()?;
        self.learn_clock().await?;
        // Redis does not answer an empty request: every later reply would go to the wrong caller.
        if command.args_iter().len() == 0 {
            return Err(Error::Invalid("a command without a name".into()));
        }
        let reply = self.in_time(async {
            match &self.inner.route {
                Route::Single(node) => node.fetch(command).await,
                Route::Cluster(cluster) => cluster.send(key, command).await.map(Reply::from),
            }
        });
        let reply = reply.await;
        let reply = self.inner.faults.after(reply);
        if let Err(error) = &reply
            && !is_known_failure(error)
        {
            self.inner.failures.increment(1);
            note_failure(command, error);
        }
        reply
    }

    /// Sends a command and reads its reply as a `T`.
    ///
    /// # Errors
    /// As [`Client::send`], and [`Error::Unexpected`] when the reply is of another shape.
    pub async fn query<T: FromRedisValue>(&self, key: &[u8], command: &Cmd) -> Result<T> {
        Ok(redis::from_redis_value(self.send(key, command).await?)?)
    }

    /// Sends several commands, one pipeline for each server; a reply for each command, in order.
    /// A command that fails does not keep the others from being carried out.
    pub async fn send_all(&self, commands: Vec<(Vec<u8>, Cmd)>) -> Vec<Result<Value>> {
        let count = commands.len();
        // The client takes an empty pipeline for a broken connection.
        if count == 0 {
            return Vec::new();
        }
        (0..count).for_each(|_| self.inner.commands.count());
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
        let replies = self.in_time(async {
            match &self.inner.route {
                Route::Cluster(cluster) => Ok(cluster.send_all(commands).await),
                Route::Single(node) => {
                    let mut pipeline = Pipeline::with_capacity(count);
                    for (_, command) in commands {
                        pipeline.add_command(command);
                    }
                    node.send_all(&pipeline).await
                }
            }
        });
        let replies = replies.await.unwrap_or_else(|error| vec![Err(error); count]);
        let failed =
            |reply: &&Result<Value>| reply.as_ref().is_err_and(|error| !is_known_failure(error));
        self.inner.failures.increment(replies.iter().filter(failed).count() as u64);
        replies.into_iter().map(|reply| self.inner.faults.after(reply)).collect()
    }

    /// Runs a script where its first key lies.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn run(&self, call: &ScriptInvocation) -> Result<Value> {
        match self.send(call.key(), call.by_digest()).await {
            Err(error) if error.is_code("NOSCRIPT") => self.send(call.key(), &call.in_full()).await,
            reply => reply,
        }
    }

    /// Runs a script and reads its reply as a `T`.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub async fn eval<T: FromRedisValue>(&self, call: &ScriptInvocation) -> Result<T> {
        Ok(redis::from_redis_value(self.run(call).await?)?)
    }

    /// Runs several scripts, one pipeline for each server; a reply for each, in order.
    pub async fn run_all(&self, calls: &[ScriptInvocation]) -> Vec<Result<Value>> {
        let commands =
            calls.iter().map(|call| (call.key().to_vec(), call.by_digest().clone())).collect();
        let mut replies = self.send_all(commands).await;
        let unknown =
            |reply: &Result<Value>| reply.as_ref().is_err_and(|error| error.is_code("NOSCRIPT"));
        let again: Vec<usize> = (0..calls.len()).filter(|&at| unknown(&replies[at])).collect();
        // In full once for each script and server, which the others then find there.
        let mut told = HashSet::new();
        let commands = again.iter().map(|&at| {
            let call = &calls[at];
            let first = told.insert((call.digest(), self.node_number(call.key())));
            (call.key().to_vec(), if first { call.in_full() } else { call.by_digest().clone() })
        });
        for (&at, reply) in again.iter().zip(self.send_all(commands.collect()).await) {
            // Somebody flushes scripts at this very moment, or a slot has moved.
            replies[at] = if unknown(&reply) { self.run(&calls[at]).await } else { reply };
        }
        replies
    }

    /// Opens a connection of one's own to the server that has `key`.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when that server cannot be reached.
    pub async fn dedicated(&self, key: &[u8]) -> Result<DedicatedConnection> {
        self.admit()?;
        DedicatedConnection::open(self.inner.route.node(key).await?).await
    }

    /// Subscriptions.
    #[must_use]
    pub fn pubsub(&self) -> &PubSub {
        &self.inner.pubsub
    }

    /// How the servers are laid out.
    #[must_use]
    pub fn topology(&self) -> Topology {
        self.inner.topology
    }

    /// The number of the database that commands go to; 0 on a Cluster, which has no other.
    pub fn database(&self) -> u32 {
        u32::try_from(self.inner.route.dialer().database).expect("a URL has no other numbers")
    }

    /// Changes whenever a connection for commands was opened anew, to whatever server.
    pub fn connections(&self) -> watch::Receiver<u64> {
        self.inner.route.dialer().connections.subscribe()
    }

    /// All servers that have keys of their own.
    pub fn nodes(&self) -> Vec<Arc<Node>> {
        match &self.inner.route {
            Route::Single(node) => vec![Arc::clone(node)],
            Route::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// The clock of this handle.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.clock
    }

    /// What the server is and can do; asked once.
    ///
    /// # Errors
    /// As [`Client::send`], when it was not known yet.
    pub async fn capabilities(&self) -> Result<&Capabilities> {
        self.inner.capabilities.get_or_try_init(|| Capabilities::ask(self)).await
    }

    /// A number for the server that has `key`, 0 where there is only one: what is away there need not
    /// be away elsewhere.
    pub fn node_number(&self, key: &[u8]) -> u64 {
        match &self.inner.route {
            Route::Single(_) => 0,
            Route::Cluster(cluster) => cluster.node_number(slot(key)),
        }
    }

    /// Whether the server is inside this process.
    pub fn is_embedded(&self) -> bool {
        matches!(&self.inner.route, Route::Single(node) if *node.address() == Address::Embedded)
    }

    /// What came from the server that has `key`, on its present connection; `None` without one. With
    /// `look`, that connection is read once more.
    pub fn pulse(&self, key: &[u8], look: bool) -> Option<Pulse> {
        match &self.inner.route {
            Route::Single(node) => node.pulse(look),
            Route::Cluster(cluster) => cluster.pulse(slot(key), look),
        }
    }

    /// The numbers of all primaries; none where there is only one server.
    pub fn primary_numbers(&self) -> Vec<u64> {
        match &self.inner.route {
            Route::Single(_) => Vec::new(),
            Route::Cluster(cluster) => cluster.nodes().iter().map(|node| node.number()).collect(),
        }
    }

    /// The server's clock in milliseconds since the Unix epoch, as well as it is known here: the
    /// local monotonic clock and the offset that was last measured. Good enough for freshness, never
    /// used to decide who holds what.
    #[must_use]
    pub fn server_millis(&self) -> i64 {
        self.server_millis_at(self.inner.clock.now())
    }

    fn server_millis_at(&self, moment: Moment) -> i64 {
        let micros = i64::try_from(moment.as_nanos() / 1000).unwrap_or(i64::MAX);
        micros.saturating_add(self.inner.offset_micros.load(Ordering::Relaxed)) / 1000
    }

    /// Hands what was counted to the metrics' recorder.
    pub fn flush_counts(&self) {
        self.inner.commands.flush();
    }

    /// Returns the clock of the server that has this key, at a moment of our clock. On a Cluster each
    /// server has a clock of its own.
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

    /// Measures the offsets between the servers' clocks and ours. Fails only if the server of slot 0
    /// does not answer.
    pub async fn measure_offset(&self) -> Result<()> {
        self.admit()?;
        let first = self.inner.route.node(b"").await?;
        let offset = first.measure_offset(&self.inner.clock).await?;
        self.inner.offset_micros.store(offset, Ordering::Relaxed);
        self.inner.knows_clock.store(true, Ordering::Relaxed);
        if let Route::Cluster(cluster) = &self.inner.route {
            let nodes = cluster.nodes();
            let others = nodes.iter().filter(|node| node.number() != first.number());
            let measured = others.map(|node| node.measure_offset(&self.inner.clock));
            for error in join_all(measured).await.into_iter().filter_map(Result::err) {
                tracing::debug!(%error, "the clock of a server cannot be read");
            }
        }
        Ok(())
    }

    /// Measures the servers' clocks before the first command of a handle that was made without waiting:
    /// what is read before would be judged by a clock that may be far off.
    async fn learn_clock(&self) -> Result<()> {
        if self.inner.knows_clock.load(Ordering::Relaxed) {
            return Ok(());
        }
        Box::pin(self.in_time(self.measure_offset())).await.map_err(|error| match error {
            // It was not the caller's command that may have been carried out.
            Error::Indeterminate { cause, .. } => Error::Unavailable(cause),
            error => error,
        })
    }

    /// The time-out for replies.
    #[must_use]
    pub fn response_timeout(&self) -> Duration {
        self.inner.route.dialer().response_timeout
    }

    /// Bounds what is asked from another runtime than the connections' own: that one keeps the time for
    /// its connections, and may stand still.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match tokio::runtime::Handle::try_current() {
            Ok(here) if Some(here.id()) != self.inner.home => {}
            _ => return work.await,
        }
        let dialer = self.inner.route.dialer();
        let waited = dialer.connect_timeout + dialer.response_timeout * 2;
        tokio::time::timeout(waited, work).await.unwrap_or_else(|_| {
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

/// A script that the server does not know yet is sent in full then: that is no failure.
fn is_known_failure(error: &Error) -> bool {
    error.is_code("NOSCRIPT")
}

/// Says which command failed and how, and nothing of its arguments: servers repeat those in their
/// messages, so only the code of a refusal is shown.
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
