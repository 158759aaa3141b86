//! Follows redirections (`MOVED`, `ASK`) to the node that owns a command's slot.
//!
//! A pipeline that hits a moving slot returns with many redirections at once. They are followed
//! together, in one pipeline per target node. Commands that are redirected again are followed one
//! by one, by code that handles waiting and giving up.
//!
//! A target node that is not in the map, because it has no slot yet, keeps its connection: moving a
//! slot takes time, and each of its commands is sent there.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::join_all;
use redis::{Cmd, Pipeline, Value, cmd};

use super::Cluster;
use crate::{
    client::{
        dial::{Address, Dialer},
        node::Node,
        url::Host,
    },
    error::{Error, Result},
};

/// Maximum number of remembered nodes without slots. When it is exceeded, all are forgotten.
const MAX_REDIRECTED: usize = 64;

/// Redirection targets that are not in the map.
#[derive(Default)]
pub(super) struct RedirectedNodes {
    nodes: Mutex<BTreeMap<Address, Arc<Node>>>,
}

impl RedirectedNodes {
    /// Returns the node at this address, with its existing connection if there is one.
    fn get_or_insert(&self, dialer: &Arc<Dialer>, address: &Address) -> Arc<Node> {
        let mut nodes = self.lock();
        if nodes.len() >= MAX_REDIRECTED && !nodes.contains_key(address) {
            nodes.clear();
        }
        let fresh = || Arc::new(Node::new(Arc::clone(dialer), address.clone(), None));
        Arc::clone(nodes.entry(address.clone()).or_insert_with(fresh))
    }

    /// Removes and returns the node at this address, which now has slots and belongs to the map, or
    /// creates it.
    pub(super) fn admit(&self, dialer: &Arc<Dialer>, address: &Address) -> Arc<Node> {
        let known = self.lock().remove(address);
        known.unwrap_or_else(|| Arc::new(Node::new(Arc::clone(dialer), address.clone(), None)))
    }

    /// Removes and returns all nodes.
    pub(super) fn take(&self) -> Vec<Arc<Node>> {
        std::mem::take(&mut *self.lock()).into_values().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Address, Arc<Node>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Target of a redirected command.
enum Next {
    /// This node, permanently, or for this command only (`Asking::Yes`).
    Node(Arc<Node>, Asking),
    /// Not known yet.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Asking {
    Yes,
    No,
}

impl Cluster {
    /// Returns the target node of a redirection such as `MOVED 3999 127.0.0.1:6381`.
    pub(super) fn redirected(&self, message: &str) -> Option<Arc<Node>> {
        let (_, address) = message.trim().rsplit_once(' ').unwrap_or(("", message.trim()));
        let (name, port) = address.rsplit_once(':')?;
        let host = Host { name: name.to_owned(), port: port.parse().ok()? };
        // An empty name means the host that replied. The map that was just read knows it.
        let known = self
            .map
            .load()
            .nodes
            .iter()
            .find(|node| match &*node.address() {
                Address::Tcp(known) => {
                    known.port == host.port && (host.name.is_empty() || known.name == host.name)
                }
                _ => false,
            })
            .cloned();
        known.or_else(|| {
            let named = !host.name.is_empty();
            named.then(|| self.redirected.get_or_insert(&self.dialer, &Address::Tcp(host)))
        })
    }

    /// Sends on all redirected commands of a pipeline; `replies` belong to `indexes`.
    pub(super) async fn follow_all(
        &self,
        mut replies: Vec<Result<Value>>,
        indexes: &[usize],
        commands: &[(Vec<u8>, Cmd)],
    ) -> Vec<Result<Value>> {
        if replies.iter().any(|reply| reply.as_ref().is_err_and(|error| error.is_code("MOVED"))) {
            self.read_map().await.ok();
        }
        let mut groups: BTreeMap<(u64, Asking), (Arc<Node>, Vec<usize>)> = BTreeMap::new();
        let mut single = Vec::new();
        for (at, reply) in replies.iter().enumerate() {
            match reply.as_ref().err().and_then(|error| self.next(error)) {
                None => {}
                Some(Next::Node(node, asking)) => {
                    let group = groups.entry((node.number(), asking));
                    group.or_insert_with(|| (node, Vec::new())).1.push(at);
                }
                Some(Next::Unknown) => single.push(at),
            }
        }
        let command = |at: usize| &commands[indexes[at]];
        let sent = groups.into_iter().map(async |((_, asking), (node, places))| {
            let group: Vec<&Cmd> = places.iter().map(|&at| &command(at).1).collect();
            (places, send_on(&node, asking, &group).await)
        });
        for (places, answers) in join_all(sent).await {
            for (at, answer) in places.into_iter().zip(answers) {
                match answer {
                    // The command was not executed.
                    Err(error) if self.next(&error).is_some() => single.push(at),
                    Err(Error::Unavailable(_)) => single.push(at),
                    answer => replies[at] = answer,
                }
            }
        }
        let each = single.iter().map(|&at| self.send(&command(at).0, &command(at).1));
        for (at, answer) in single.iter().zip(join_all(each).await) {
            replies[*at] = answer;
        }
        replies
    }

    /// Returns where a refused command belongs, or `None` if the error is its final reply.
    fn next(&self, error: &Error) -> Option<Next> {
        let Error::Refused { code, message } = error else { return None };
        let asking = match &**code {
            "MOVED" => Asking::No,
            "ASK" => Asking::Yes,
            "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "MASTERDOWN" => return Some(Next::Unknown),
            _ => return None,
        };
        Some(self.redirected(message).map_or(Next::Unknown, |node| Next::Node(node, asking)))
    }
}

/// Sends commands to a redirection target and returns a reply for each.
async fn send_on(node: &Arc<Node>, asking: Asking, commands: &[&Cmd]) -> Vec<Result<Value>> {
    let mut pipeline = Pipeline::with_capacity(commands.len() * 2);
    for command in commands {
        if asking == Asking::Yes {
            pipeline.add_command(cmd("ASKING"));
        }
        pipeline.add_command((*command).clone());
    }
    match node.send_all(&pipeline).await {
        Err(error) => vec![Err(error); commands.len()],
        Ok(replies) if asking == Asking::Yes => replies.into_iter().skip(1).step_by(2).collect(),
        Ok(replies) => replies,
    }
}

/// Sends one command, after `ASKING`, to a node that is importing its slot.
pub(super) async fn ask(node: &Arc<Node>, command: &Cmd) -> Result<Value> {
    let swallowed = || Err(Error::unexpected("ASKING swallowed a reply"));
    send_on(node, Asking::Yes, &[command]).await.into_iter().next().unwrap_or_else(swallowed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use seawall_resilience::clock::Clock;
    use tokio::sync::watch;

    use super::*;
    use crate::client::transport::Transport;

    #[tokio::test]
    async fn a_node_without_slots_keeps_its_connection_until_there_are_too_many() {
        let dialer = Arc::new(Dialer {
            username: None,
            password: None,
            database: 0,
            transport: Transport::default(),
            tls: None,
            connect_timeout: Duration::from_secs(1),
            response_timeout: Duration::from_secs(1),
            clock: Clock::system(),
            connections: watch::Sender::new(0),
            home: tokio::runtime::Handle::current(),
            #[cfg(feature = "embedded")]
            engine: None,
        });
        let address = |port| Address::Tcp(Host { name: "10.0.0.1".to_owned(), port });
        let redirected = RedirectedNodes::default();
        let first = redirected.get_or_insert(&dialer, &address(1));
        assert!(Arc::ptr_eq(&first, &redirected.get_or_insert(&dialer, &address(1))));
        assert!(Arc::ptr_eq(&first, &redirected.admit(&dialer, &address(1))), "it got a slot");
        assert!(!Arc::ptr_eq(&first, &redirected.get_or_insert(&dialer, &address(1))));
        for port in 0..1000 {
            redirected.get_or_insert(&dialer, &address(port));
            assert!(redirected.lock().len() <= MAX_REDIRECTED);
        }
        assert!(!redirected.take().is_empty());
    }
}
