//! Starts a Cluster: each node starts with a `nodes.conf` that already names all the others, their
//! roles and their slots.
//!
//! Introducing the nodes to each other (`CLUSTER MEET`) would cost rounds of gossip; with the files
//! written beforehand there is nothing to agree on. What would remain is the two seconds that a
//! primary waits after its start before it accepts writes. A replica does not wait: so the nodes
//! start with their roles swapped, and as soon as the future primaries are in service they take
//! over (`CLUSTER FAILOVER TAKEOVER`). Without replicas there is no node to swap with, and the two
//! seconds are spent waiting.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::slot::SLOTS;
use super::{Cluster, SETTLE_LIMIT};
use crate::builder::ServerBuilder;
use crate::node::{Node, order};
use crate::port::free_ports;
use crate::proxy::FaultProxy;

/// Maximum starts with different ports.
const START_ATTEMPTS: usize = 5;
/// Pause between two checks of a node that is to take over.
const SWAP_PAUSE: Duration = Duration::from_millis(3);

/// Settings of a Cluster; [`Cluster::start`] uses the defaults.
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    primaries: usize,
    replicas_each: usize,
    node_timeout: Duration,
    proxied: bool,
    args: Vec<String>,
    /// A node whose clock is off, and by how many seconds.
    skewed: Option<(usize, i64)>,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        let node_timeout = Duration::from_millis(1500);
        Self {
            primaries: 3,
            replicas_each: 1,
            node_timeout,
            proxied: false,
            args: Vec::new(),
            skewed: None,
        }
    }
}

/// A node before it is started.
struct Plan {
    id: String,
    port: u16,
    bus: u16,
    proxy: Option<FaultProxy>,
    /// The part of the slots that it serves or replicates.
    share: usize,
    /// The node that it replicates at first; `None` for a primary.
    primary: Option<usize>,
}

impl Plan {
    /// Returns the port under which the other nodes know it.
    fn announced(&self) -> u16 {
        self.proxy.as_ref().map_or(self.port, FaultProxy::port)
    }
}

impl ClusterBuilder {
    /// Sets the number of nodes that serve slots: at least one, and three for automatic fail-over.
    #[must_use]
    pub fn primaries(mut self, count: usize) -> Self {
        self.primaries = count.max(1);
        self
    }

    /// Sets the number of replicas per primary.
    #[must_use]
    pub fn replicas_each(mut self, count: usize) -> Self {
        self.replicas_each = count;
        self
    }

    /// Sets the silence after which a node counts as down. Default: 1.5 seconds.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// Puts a [`FaultProxy`] in front of every node and announces it in the node's place, so that
    /// clients and replicas connect through it; see [`Node::proxy`]. The cluster bus does not go
    /// through it.
    #[must_use]
    pub fn proxied(mut self) -> Self {
        self.proxied = true;
        self
    }

    /// Adds options of redis-server to every node.
    #[must_use]
    pub fn args<A: Into<String>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the clock of one node, counted from 0, this many seconds ahead, or behind if negative.
    #[must_use]
    pub fn skewed(mut self, node: usize, seconds: i64) -> Self {
        self.skewed = Some((node, seconds));
        self
    }

    /// Starts the nodes and waits until the Cluster accepts writes and every replica follows.
    ///
    /// # Errors
    ///
    /// If a node does not start or the nodes do not agree in time.
    pub fn start(&self) -> io::Result<Cluster> {
        let mut last = io::Error::other("not tried");
        for _ in 0..START_ATTEMPTS {
            match self.attempt() {
                Ok(cluster) => return Ok(cluster),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    fn attempt(&self) -> io::Result<Cluster> {
        let mut plans = self.plans()?;
        let folder = tempfile::Builder::new().prefix("seawall-cluster-").tempdir()?;
        let mut nodes = Vec::with_capacity(plans.len());
        let configs: Vec<String> = (0..plans.len()).map(|own| self.config(&plans, own)).collect();
        for (at, (plan, config)) in plans.iter_mut().zip(configs).enumerate() {
            let dir = folder.path().join(plan.port.to_string());
            fs::create_dir(&dir)?;
            fs::write(dir.join("nodes.conf"), config)?;
            let skew = self.skewed.filter(|(node, _)| *node == at);
            let builder = ServerBuilder::redis();
            let builder = match skew {
                Some((_, seconds)) => builder.skew_seconds(seconds),
                None => builder,
            };
            let server = builder
                .port(plan.port)
                .dir(dir)
                .args(self.options(plan))
                .args(&self.args)
                .launch()?;
            nodes.push(Node::new(plan.id.clone(), server, plan.proxy.take()));
        }
        for node in &nodes {
            node.wait_until_ready()?;
        }
        let cluster = Cluster { nodes, _folder: folder };
        if self.replicas_each > 0 {
            self.swap_roles(&cluster)?;
        }
        cluster.settle(SETTLE_LIMIT)?;
        Ok(cluster)
    }

    /// Makes the first nodes the primaries, as intended.
    fn swap_roles(&self, cluster: &Cluster) -> io::Result<()> {
        let mut last_epoch = 0;
        for node in &cluster.nodes[..self.primaries] {
            let mut client = node.connect()?;
            let deadline = Instant::now() + SETTLE_LIMIT;
            loop {
                let info = order(&mut client, &["CLUSTER", "INFO"])?.text();
                // Redis: a takeover does not ask other nodes. If this node did not know the
                // previous takeover, it would get the same epoch, and a primary that sleeps through
                // the repair of that could win its slots back from its successor.
                let knows = epoch(&info, "cluster_current_epoch") >= last_epoch;
                if knows && info.contains("cluster_state:ok") {
                    break;
                }
                if Instant::now() > deadline {
                    let message = format!("{} is not in service: {}", node.port(), node.log());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                thread::sleep(SWAP_PAUSE);
            }
            order(&mut client, &["CLUSTER", "FAILOVER", "TAKEOVER"])?;
            last_epoch =
                epoch(&order(&mut client, &["CLUSTER", "INFO"])?.text(), "cluster_my_epoch");
        }
        Ok(())
    }

    fn plans(&self) -> io::Result<Vec<Plan>> {
        let count = self.primaries * (1 + self.replicas_each);
        let ports = free_ports(count * 2)?;
        // The first `primaries` nodes will become primaries; the second ones start as such.
        let first_primary = if self.replicas_each > 0 { self.primaries } else { 0 };
        let plan = |at: usize| -> io::Result<Plan> {
            let share = at % self.primaries;
            let begins_as_primary = at == first_primary + share;
            let port = ports[at * 2];
            let proxy = self.proxied.then(|| FaultProxy::start(port)).transpose()?;
            Ok(Plan {
                // The id shows at a glance which node a log line is about.
                id: format!("{:02x}{port:038x}", at + 1),
                port,
                bus: ports[at * 2 + 1],
                proxy,
                share,
                primary: (!begins_as_primary).then_some(first_primary + share),
            })
        };
        (0..count).map(plan).collect()
    }

    /// Returns the `nodes.conf` of the node `own`.
    fn config(&self, plans: &[Plan], own: usize) -> String {
        let mut text = String::new();
        for (at, plan) in plans.iter().enumerate() {
            let Plan { id, bus, share, primary, .. } = plan;
            let port = plan.announced();
            let myself = if at == own { "myself," } else { "" };
            let (role, copies) = match primary {
                Some(primary) => ("slave", plans[*primary].id.as_str()),
                None => ("master", "-"),
            };
            let epoch = share + 1;
            text.push_str(&format!(
                "{id} 127.0.0.1:{port}@{bus} {myself}{role} {copies} 0 0 {epoch} connected"
            ));
            if primary.is_none() {
                let first = first_slot(*share, self.primaries);
                let end = first_slot(share + 1, self.primaries);
                text.push_str(&format!(" {first}-{}", end - 1));
            }
            text.push('\n');
        }
        text.push_str(&format!("vars currentEpoch {} lastVoteEpoch 0\n", self.primaries));
        text
    }

    fn options(&self, plan: &Plan) -> Vec<String> {
        let timeout = self.node_timeout.as_millis().to_string();
        let bus = plan.bus.to_string();
        let announced = plan.announced().to_string();
        let options = [
            ("--cluster-enabled", "yes"),
            ("--cluster-port", &bus),
            ("--cluster-announce-ip", "127.0.0.1"),
            ("--cluster-announce-port", &announced),
            ("--cluster-node-timeout", &timeout),
            // A replica may take over however old its data is: the tests want a fail-over.
            ("--cluster-replica-validity-factor", "0"),
            // If one primary is down, the others continue to serve their slots.
            ("--cluster-require-full-coverage", "no"),
            // Redis: 7.0 waits five seconds for more replicas before it sends them the data.
            ("--repl-diskless-sync-delay", "0"),
        ];
        options.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect()
    }
}

/// Returns an epoch from the answer to `CLUSTER INFO`.
fn epoch(info: &str, name: &str) -> u64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

/// Returns the first slot of share `at` of `count`.
fn first_slot(at: usize, count: usize) -> usize {
    usize::from(SLOTS) * at / count
}
