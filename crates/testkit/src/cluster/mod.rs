//! A real Redis Cluster of private `redis-server` processes for one test.
//!
//! All operations take a shared reference, so that one task can break what others use. Roles are
//! never remembered here: the nodes are asked each time, because fail-overs change them at any
//! moment. [`Cluster::settle`] waits until the running nodes agree again.

mod form;
mod reshape;
mod slot;
mod view;

use std::io;
use std::time::Duration;

use tempfile::TempDir;

use crate::node::{Node, order};
use crate::settle::settle;
pub use form::ClusterBuilder;

pub use reshape::MovingSlot;
pub use slot::{SLOTS, slot_of};
use view::Seen;

/// Maximum time until the nodes agree.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// A Cluster. Dropping it stops all its processes.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    _folder: TempDir,
}

impl Cluster {
    /// Starts three primaries with a replica each, ready to accept writes.
    ///
    /// # Errors
    ///
    /// As [`ClusterBuilder::start`].
    pub fn start() -> io::Result<Self> {
        Self::builder().start()
    }

    /// Starts `primaries` nodes that serve slots, and `replicas_each` replicas of each.
    ///
    /// # Errors
    ///
    /// As [`ClusterBuilder::start`].
    pub fn with(primaries: usize, replicas_each: usize) -> io::Result<Self> {
        Self::builder().primaries(primaries).replicas_each(replicas_each).start()
    }

    /// Returns a builder of a Cluster.
    #[must_use]
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// `redis-cluster://127.0.0.1:p1,127.0.0.1:p2,…` with every node.
    #[must_use]
    pub fn url(&self) -> String {
        let seeds: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.announced_port())).collect();
        format!("redis-cluster://{}", seeds.join(","))
    }

    /// Returns all nodes, running or not; at first the primaries, then the replicas.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the nodes that serve slots now.
    ///
    /// # Errors
    ///
    /// If no node answers.
    pub fn primaries(&self) -> io::Result<Vec<&Node>> {
        let view = self.view()?;
        Ok(self.pick(&view, |seen| !seen.slots.is_empty()))
    }

    /// Returns the node that serves `key` now.
    ///
    /// # Errors
    ///
    /// If no node answers or none serves it.
    pub fn primary_of(&self, key: &[u8]) -> io::Result<&Node> {
        self.primary_of_slot(slot_of(key))
    }

    /// Returns the node that serves `slot` now.
    ///
    /// # Errors
    ///
    /// If no node answers or none serves it.
    pub fn primary_of_slot(&self, slot: u16) -> io::Result<&Node> {
        let view = self.view()?;
        let found = self.pick(&view, |seen| seen.serves(slot)).first().copied();
        found.ok_or_else(|| io::Error::other(format!("nobody serves slot {slot}")))
    }

    /// Returns the replicas of the node that serves `key`.
    ///
    /// # Errors
    ///
    /// As [`Cluster::primary_of`].
    pub fn replicas_of(&self, key: &[u8]) -> io::Result<Vec<&Node>> {
        self.replicas(self.primary_of(key)?)
    }

    /// Returns the replicas of `primary`.
    ///
    /// # Errors
    ///
    /// If no node answers.
    pub fn replicas(&self, primary: &Node) -> io::Result<Vec<&Node>> {
        let view = self.view()?;
        Ok(self.pick(&view, |seen| seen.primary.as_deref() == Some(primary.id())))
    }

    /// Waits until every running node serves, all agree on the slots and roles of all nodes, none
    /// doubts another running node, every slot has a running owner, and every running replica
    /// follows its primary.
    ///
    /// # Errors
    ///
    /// `TimedOut` with the last doubt.
    pub fn settle(&self, limit: Duration) -> io::Result<()> {
        settle("the Cluster", limit, || self.doubt())
    }

    /// Returns what keeps the Cluster from being settled.
    fn doubt(&self) -> io::Result<Option<String>> {
        let mut agreed: Option<Vec<Seen>> = None;
        for node in self.running() {
            let mut client = node.connect()?;
            let info = order(&mut client, &["CLUSTER", "INFO"])?.text();
            if !info.contains("cluster_state:ok") {
                return Ok(Some(format!("{} is not ok", node.port())));
            }
            let seen = view::read(&order(&mut client, &["CLUSTER", "NODES"])?.text());
            if let Some(doubt) = self.doubt_of(node, &seen) {
                return Ok(Some(doubt));
            }
            let roles = self.roles(seen);
            match &agreed {
                None => agreed = Some(roles),
                Some(agreed) if *agreed == roles => {}
                Some(_) => return Ok(Some(format!("{} disagrees about the roles", node.port()))),
            }
        }
        Ok(None)
    }

    /// Returns the running nodes with what they serve or replicate, in one order, without the
    /// details that each node sees differently.
    fn roles(&self, seen: Vec<Seen>) -> Vec<Seen> {
        let runs = |seen: &Seen| self.running().any(|node| node.id() == seen.id);
        let mut roles: Vec<Seen> = seen
            .into_iter()
            .filter(runs)
            // A replica's epoch is its primary's, and may be outdated until it sends the next
            // message.
            .map(|seen| Seen {
                epoch: if seen.primary.is_none() { seen.epoch } else { String::new() },
                flags: Vec::new(),
                ..seen
            })
            .collect();
        roles.sort_by(|a, b| a.id.cmp(&b.id));
        roles
    }

    /// Returns what `node`, which sees the others as `seen`, is still missing.
    fn doubt_of(&self, node: &Node, seen: &[Seen]) -> Option<String> {
        let port = node.port();
        let mut served = 0;
        for other in &self.nodes {
            let Some(seen) = seen.iter().find(|seen| seen.id == other.id()) else {
                return Some(format!("{port} does not know {}", other.port()));
            };
            if other.is_running() && seen.is_doubtful() {
                return Some(format!("{port} doubts {}", other.port()));
            }
            if other.is_running() {
                served += seen.slots.iter().map(ExactSizeIterator::len).sum::<usize>();
            }
        }
        if served != usize::from(SLOTS) {
            return Some(format!("{port} sees only {served} slots with a running owner"));
        }
        let mut epochs: Vec<&str> = seen
            .iter()
            .filter(|seen| !seen.slots.is_empty())
            .map(|seen| seen.epoch.as_str())
            .collect();
        let owners = epochs.len();
        epochs.sort_unstable();
        epochs.dedup();
        if epochs.len() < owners {
            return Some(format!("{port} sees two primaries with one epoch"));
        }
        let own = seen.iter().find(|seen| seen.is("myself"))?;
        let primary = own.primary.as_ref()?;
        let primary_runs = self.running().any(|other| other.id() == primary);
        match node.follows() {
            Ok(false) if primary_runs => Some(format!("{port} does not follow its primary yet")),
            Err(error) => Some(error.to_string()),
            _ => None,
        }
    }

    fn running(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    /// Returns the view of the first running node that answers; preferably a primary, which never
    /// lags.
    fn view(&self) -> io::Result<Vec<Seen>> {
        let mut last = io::Error::other("no node runs");
        for node in self.running() {
            let answer = node.connect().and_then(|mut c| order(&mut c, &["CLUSTER", "NODES"]));
            match answer {
                Ok(reply) => return Ok(view::read(&reply.text())),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn pick(&self, view: &[Seen], wanted: impl Fn(&Seen) -> bool) -> Vec<&Node> {
        let ids: Vec<&str> =
            view.iter().filter(|seen| wanted(seen)).map(|seen| seen.id.as_str()).collect();
        self.nodes.iter().filter(|node| ids.contains(&node.id())).collect()
    }
}
