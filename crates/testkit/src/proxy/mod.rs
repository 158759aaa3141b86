//! A TCP proxy in front of one server that injects faults and understands RESP.
//!
//! It finds the end of each request and reply and matches them, so it can drop exactly one of them:
//! "the third DEL arrives, its reply does not". Rules can be changed while it runs, and commands
//! that reached the server are counted. Pipelining, blocking commands and subscriptions in both
//! protocols keep working through it.
//!
//! ```no_run
//! use seawall_testkit::ServerProcess;
//! use seawall_testkit::proxy::{FaultProxy, On};
//!
//! let server = ServerProcess::redis()?;
//! let proxy = FaultProxy::start(server.port())?;
//! proxy.drop_reply(On::command("DEL").key_prefix("cache:").nth(3));
//! // … a client on proxy.url() …
//! assert_eq!(proxy.count("GET"), 1);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A replica may replicate its primary through it: rules do not see that stream, cuts and delays
//! do.
//!
//! Deliberately absent: TLS, and damaged bytes, which the differential tests have.

mod door;
mod frame;
mod link;
mod pending;
mod rules;
mod shared;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use link::Link;
pub use rules::{Command, On, RuleId, Watch};
use rules::{Fate, Flow, PushLoss};
pub use shared::Direction;
use shared::{Door, Shared};

use crate::client::{Address, Client};

/// Repeats the random choices of an earlier run.
const SEED_VARIABLE: &str = "SEAWALL_PROXY_SEED";
/// Maximum time until cut connections are gone.
const CUT_LIMIT: Duration = Duration::from_secs(5);

/// A proxy. Dropping it ends it and all its connections.
pub struct FaultProxy {
    port: u16,
    seed: u64,
    shared: Arc<Shared>,
    door: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Starts a proxy to the server at `upstream_port` on 127.0.0.1, without any rule yet.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub fn start(upstream_port: u16) -> io::Result<Self> {
        Self::in_front_of(Address::Tcp(upstream_port))
    }

    /// Starts a proxy to the server at `upstream`, which may be a unix socket, such as that of an
    /// embedded engine.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub fn in_front_of(upstream: Address) -> io::Result<Self> {
        let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        let (listener, port) = door::listen()?;
        let seed = given.unwrap_or_else(|| RandomState::new().hash_one(port));
        let shared = Arc::new(Shared::new(upstream, seed));
        let door = Some(door::attend(listener, port, Arc::clone(&shared))?);
        Ok(Self { port, seed, shared, door })
    }

    /// Restarts the random choices from `seed`.
    #[must_use]
    pub fn seeded(mut self, seed: u64) -> Self {
        self.seed = seed;
        self.shared.rules().reseed(seed);
        self
    }

    /// Returns the seed of the random choices; a failed test prints it.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the port to connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL to connect to.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Opens a connection through the proxy.
    ///
    /// # Errors
    ///
    /// If the door is closed.
    pub fn connect(&self) -> io::Result<Client> {
        Client::connect(&Address::Tcp(self.port))
    }

    /// Executes the command, but drops its reply and resets the connection.
    pub fn drop_reply(&self, on: On) -> RuleId {
        self.shared.rules().add(on, Fate::LoseReply)
    }

    /// Drops the command before it reaches the server and resets the connection.
    pub fn drop_request(&self, on: On) -> RuleId {
        self.shared.rules().add(on, Fate::LoseRequest)
    }

    /// Drops the command before it reaches the server and answers with an error such as `-LOADING
    /// Redis is loading the dataset in memory`; the dash may be left out.
    pub fn fail_with(&self, on: On, error: &str) -> RuleId {
        let bytes = format!("-{}\r\n", error.trim_start_matches('-')).into_bytes();
        self.shared.rules().add(on, Fate::Answer(bytes))
    }

    /// Holds the command in the proxy, with everything that follows it on its connection, until the
    /// rule is removed; then it goes on to the server. Other connections are not held up.
    pub fn hold_request(&self, on: On) -> RuleId {
        self.shared.rules().add_named(on, Fate::HoldRequest)
    }

    /// Executes the command, but holds its reply in the proxy, with everything that follows it on
    /// its connection, until the rule is removed. Other connections are not held up.
    pub fn hold_reply(&self, on: On) -> RuleId {
        self.shared.rules().add_named(on, Fate::HoldReply)
    }

    /// Returns how many requests and replies such rules hold now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Drops messages of subscriptions and invalidations silently with this probability.
    pub fn drop_pushes(&self, probability: f64) {
        self.lose_pushes(PushLoss { prefix: Vec::new(), probability, times: u64::MAX });
    }

    /// Drops the next `times` messages on channels that start with `prefix` silently.
    pub fn drop_next_pushes(&self, prefix: impl AsRef<[u8]>, times: u64) {
        let prefix = prefix.as_ref().to_vec();
        self.lose_pushes(PushLoss { prefix, probability: 1.0, times });
    }

    fn lose_pushes(&self, loss: PushLoss) {
        self.shared.rules().push_loss = Some(loss);
    }

    /// Removes one rule.
    pub fn remove(&self, rule: RuleId) {
        self.shared.rules().remove(rule);
        self.shared.changed();
    }

    /// Delays everything in one direction by this much.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.shared.rules().delay[direction as usize] = delay;
        self.shared.changed();
    }

    /// Holds the bytes of one direction in the proxy until [`FaultProxy::heal`], as in a short
    /// network outage; then they arrive.
    pub fn stall(&self, direction: Direction) {
        self.set_flow(&[direction], Flow::Stalled);
    }

    /// Drops the bytes of one direction while the other one works: the connection is half open.
    /// [`FaultProxy::heal`] resets the connections that lost bytes.
    pub fn cut_one_way(&self, direction: Direction) {
        self.set_flow(&[direction], Flow::Swallowed);
    }

    /// Makes the server unreachable silently: connections and bytes are accepted, and nothing is
    /// answered. [`FaultProxy::heal`] resets the connections that lost bytes.
    pub fn black_hole(&self) {
        self.set_flow(&[Direction::Requests, Direction::Replies], Flow::Swallowed);
    }

    fn set_flow(&self, directions: &[Direction], flow: Flow) {
        let mut rules = self.shared.rules();
        for direction in directions {
            rules.flow[*direction as usize] = flow;
        }
        drop(rules);
        self.shared.changed();
    }

    /// Refuses new connections, as if the server were not running; existing ones stay.
    pub fn refuse(&self) {
        door::turn(&self.shared, self.port, Door::Closed);
    }

    /// Accepts new connections again.
    pub fn accept(&self) {
        door::turn(&self.shared, self.port, Door::Open);
    }

    /// Resets all connections now, and returns when they are gone.
    pub fn cut_all(&self) {
        let links: Vec<Arc<Link>> = self.shared.links().values().map(Arc::clone).collect();
        self.cut(links);
    }

    /// Makes the server appear to be down: resets connections and refuses new ones.
    pub fn down(&self) {
        self.refuse();
        self.cut_all();
    }

    /// Removes every fault: rules, delays, stalls, the closed door. Resets connections that lost
    /// bytes, because their streams cannot be parsed any more. Watches and counts stay.
    pub fn heal(&self) {
        self.shared.rules().heal();
        let links: Vec<Arc<Link>> = self.shared.links().values().map(Arc::clone).collect();
        self.cut(links.into_iter().filter(|link| link.broken.load(Ordering::SeqCst)).collect());
        self.shared.changed();
        self.accept();
    }

    fn cut(&self, links: Vec<Arc<Link>>) {
        let ids: Vec<u64> = links.iter().map(|link| link.id()).collect();
        for link in links {
            link.cut();
        }
        self.shared.wait_until(CUT_LIMIT, || {
            let links = self.shared.links();
            !ids.iter().any(|id| links.contains_key(id))
        });
    }

    /// Counts the matching commands that reach the server from now on.
    pub fn watch(&self, on: On) -> Watch {
        self.shared.rules().watch(on)
    }

    /// Returns how many commands of this name reached the server.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        self.shared.rules().passed.get(&name.to_ascii_uppercase()).copied().unwrap_or(0)
    }

    /// Returns how many commands reached the server, by name.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.shared.rules().passed.clone()
    }

    /// Resets the counts by name to zero.
    pub fn reset_counts(&self) {
        self.shared.rules().passed.clear();
    }

    /// Returns how many pushes were dropped.
    #[must_use]
    pub fn lost_pushes(&self) -> u64 {
        self.shared.rules().lost_pushes
    }

    /// Returns the number of current connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.links().len()
    }

    /// Returns the total number of connections so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for FaultProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, seed, .. } = self;
        f.debug_struct("FaultProxy").field("port", port).field("seed", seed).finish_non_exhaustive()
    }
}

impl Drop for FaultProxy {
    #[expect(clippy::print_stderr, reason = "a failed test must say how to repeat its chances")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{SEED_VARIABLE}={} repeats the chances of the fault proxy", self.seed);
        }
        door::turn(&self.shared, self.port, Door::Gone);
        if let Some(door) = self.door.take() {
            // The thread does nothing that could panic, and there is no caller to report it to.
            let _ = door.join();
        }
        self.cut_all();
    }
}
