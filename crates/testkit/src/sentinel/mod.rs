//! A primary with two replicas, monitored by three sentinels, for one test.
//!
//! The sentinels are always asked for the primary; it is never remembered. Their periods are
//! shortened (`SENTINEL DEBUG`), so that a fail-over takes two or three seconds and not ten;
//! otherwise they behave as in a real set.

mod form;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::node::{Node, order};
use crate::settle::{POLL_PAUSE, settle};

/// The name under which the sentinels know the primary.
const MASTER: &str = "seawall-primary";
/// Maximum time until the set agrees.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);
/// Interval at which a fail-over is ordered until another server is the primary.
const FAILOVER_PAUSE: Duration = Duration::from_millis(500);

/// Periods of a sentinel in milliseconds. Invariant: a busy machine must not look like a clock
/// jump, after which a sentinel does nothing for its tilt period.
const PERIODS: [(&str, &str); 7] = [
    ("info-period", "300"),
    ("ping-period", "300"),
    ("ask-period", "300"),
    ("publish-period", "300"),
    ("tilt-trigger", "20000"),
    ("tilt-period", "2000"),
    ("min-link-reconnect-period", "1000"),
];

/// A Sentinel set. Dropping it stops all its processes.
#[derive(Debug)]
pub struct SentinelSet {
    servers: Vec<Node>,
    sentinels: Vec<Node>,
    _folder: TempDir,
}

impl SentinelSet {
    /// Starts one primary, two replicas that follow it, and three sentinels that agree.
    ///
    /// # Errors
    ///
    /// If a process does not start or the set does not agree in time.
    pub fn start() -> io::Result<Self> {
        form::start(false)
    }

    /// Starts a set with a [`crate::FaultProxy`] in front of every data server, through which
    /// clients, replicas and sentinels connect; see [`Node::proxy`]. A black hole there is a
    /// partition: the sentinels replace a primary that is healthy and does not know it.
    ///
    /// # Errors
    ///
    /// As [`SentinelSet::start`].
    pub fn proxied() -> io::Result<Self> {
        form::start(true)
    }

    /// `redis-sentinel://127.0.0.1:s1,127.0.0.1:s2,127.0.0.1:s3/NAME/0`.
    #[must_use]
    pub fn url(&self) -> String {
        let seeds: Vec<String> =
            self.sentinels.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-sentinel://{}/{MASTER}/0", seeds.join(","))
    }

    /// Returns the name under which the sentinels know the primary.
    #[must_use]
    pub fn master_name(&self) -> &'static str {
        MASTER
    }

    /// Returns the data servers; at first the primary, then its replicas.
    #[must_use]
    pub fn servers(&self) -> &[Node] {
        &self.servers
    }

    /// Returns the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Node] {
        &self.sentinels
    }

    /// Returns the server that a running sentinel names as the primary.
    ///
    /// # Errors
    ///
    /// If no sentinel answers.
    pub fn primary(&self) -> io::Result<&Node> {
        let mut last = io::Error::other("no sentinel runs");
        for sentinel in self.sentinels.iter().filter(|node| node.is_running()) {
            match self.primary_by(sentinel) {
                Ok(node) => return Ok(node),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Returns the servers that are not the primary, running or not.
    ///
    /// # Errors
    ///
    /// If no sentinel answers.
    pub fn replicas(&self) -> io::Result<Vec<&Node>> {
        let primary = self.primary()?.port();
        Ok(self.servers.iter().filter(|node| node.port() != primary).collect())
    }

    /// Kills the primary and returns it.
    ///
    /// # Errors
    ///
    /// If no sentinel knows it or its process is gone.
    pub fn kill_primary(&self) -> io::Result<&Node> {
        let primary = self.primary()?;
        primary.kill()?;
        Ok(primary)
    }

    /// Pauses the primary and returns it; [`Node::resume`] resumes it.
    ///
    /// # Errors
    ///
    /// If no sentinel knows it or its process is gone.
    pub fn pause_primary(&self) -> io::Result<&Node> {
        let primary = self.primary()?;
        primary.pause()?;
        Ok(primary)
    }

    /// Orders a fail-over, waits until the set has settled, and returns the new primary.
    ///
    /// # Errors
    ///
    /// If the sentinels refuse or it takes too long.
    pub fn failover(&self) -> io::Result<&Node> {
        let old = self.primary()?;
        let sentinel = self.sentinels.iter().find(|node| node.is_running());
        let sentinel = sentinel.ok_or_else(|| io::Error::other("no sentinel runs"))?;
        let deadline = Instant::now() + SETTLE_LIMIT;
        while Instant::now() < deadline && self.primary().is_ok_and(|now| now.port() == old.port())
        {
            // On a busy machine a fail-over may be abandoned half-way, or no replica has answered
            // lately: then it is ordered again. While one is running another is refused.
            let _ = order(&mut sentinel.connect()?, &["SENTINEL", "FAILOVER", MASTER]);
            thread::sleep(FAILOVER_PAUSE);
        }
        self.await_failover(old)
    }

    /// Waits until a server other than `lost` is the primary and the set has settled. Returns that
    /// server.
    ///
    /// # Errors
    ///
    /// `TimedOut` if no server took over.
    pub fn await_failover(&self, lost: &Node) -> io::Result<&Node> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        loop {
            match self.primary() {
                Ok(heir) if heir.port() != lost.port() => {
                    self.settle(SETTLE_LIMIT)?;
                    return self.primary();
                }
                _ if Instant::now() > deadline => {
                    let message = format!("nobody took over from {}", lost.port());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                _ => thread::sleep(POLL_PAUSE),
            }
        }
    }

    /// Waits until all running sentinels name the same running primary, know all replicas and each
    /// other, and every other running server follows that primary.
    ///
    /// # Errors
    ///
    /// `TimedOut` with the last doubt.
    pub fn settle(&self, limit: Duration) -> io::Result<()> {
        settle("the Sentinel set", limit, || self.doubt())
    }

    /// Returns what keeps the set from being settled.
    fn doubt(&self) -> io::Result<Option<String>> {
        let primary = self.primary()?;
        if !primary.is_running() {
            return Ok(Some(format!("the primary {} does not run", primary.port())));
        }
        for server in self.servers.iter().filter(|node| node.is_running()) {
            let whom = server.primary_port()?;
            let right = (server.port() != primary.port()).then(|| primary.announced_port());
            if whom != right || (right.is_some() && !server.follows()?) {
                return Ok(Some(format!("{} does not follow {}", server.port(), primary.port())));
            }
        }
        for sentinel in self.sentinels.iter().filter(|node| node.is_running()) {
            if self.primary_by(sentinel)?.port() != primary.port() {
                return Ok(Some(format!("{} names another primary", sentinel.port())));
            }
            if let Some(doubt) = self.doubt_of(sentinel)? {
                return Ok(Some(format!("{}: {doubt}", sentinel.port())));
            }
        }
        Ok(None)
    }

    /// Returns what `sentinel` does not know yet.
    fn doubt_of(&self, sentinel: &Node) -> io::Result<Option<String>> {
        let mut client = sentinel.connect()?;
        for (period, milliseconds) in PERIODS {
            order(&mut client, &["SENTINEL", "DEBUG", period, milliseconds])?;
        }
        let master = fields(&order(&mut client, &["SENTINEL", "MASTER", MASTER])?);
        let wanted = [
            ("flags", "master".to_owned()),
            ("num-slaves", (self.servers.len() - 1).to_string()),
            ("num-other-sentinels", (self.sentinels.len() - 1).to_string()),
        ];
        for (name, value) in wanted {
            let found = field(&master, name);
            if found != value {
                return Ok(Some(format!("{name} is {found}, not {value}")));
            }
        }
        let replicas = order(&mut client, &["SENTINEL", "REPLICAS", MASTER])?;
        for replica in replicas.items() {
            let replica = fields(replica);
            let port = field(&replica, "port");
            let runs =
                |node: &&Node| node.announced_port().to_string() == port && node.is_running();
            let healthy = field(&replica, "flags") == "slave"
                && field(&replica, "master-link-status") == "ok";
            if self.servers.iter().any(|node| runs(&node)) && !healthy {
                return Ok(Some(format!("replica {port} is not healthy")));
            }
        }
        if self.sentinels.iter().all(Node::is_running) {
            let others = order(&mut client, &["SENTINEL", "SENTINELS", MASTER])?;
            let up = |other: &crate::Reply| field(&fields(other), "flags") == "sentinel";
            if !others.items().iter().all(up) {
                return Ok(Some("another sentinel is not healthy".to_owned()));
            }
        }
        Ok(None)
    }

    fn primary_by(&self, sentinel: &Node) -> io::Result<&Node> {
        let command = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
        let reply = order(&mut sentinel.connect()?, &command)?;
        let port = reply.items().get(1).map(crate::Reply::text).unwrap_or_default();
        let found = self.servers.iter().find(|node| node.announced_port().to_string() == port);
        found.ok_or_else(|| io::Error::other(format!("{} names {reply}", sentinel.port())))
    }
}

/// Returns the pairs of a flat reply such as that of `SENTINEL MASTER`.
fn fields(reply: &crate::Reply) -> Vec<(String, String)> {
    reply.items().chunks_exact(2).map(|pair| (pair[0].text(), pair[1].text())).collect()
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}
