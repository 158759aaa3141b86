//! Routing for a Redis Cluster: finds the node that owns a slot and follows slots that move.
//!
//! Routing is implemented here, on the same [`Node`]s that single servers use, because the
//! toolkit's guarantees require three things: one pipeline per node whatever the slots, no command
//! sent twice without the caller's knowledge, and a failed node that affects only its own slots.
//!
//! `MOVED` is followed and the map is read again; `ASK` is followed for this one command; after
//! `TRYAGAIN`, `CLUSTERDOWN`, `READONLY` and `MASTERDOWN` the command is sent again after a short
//! wait. A command refused with one of these replies was not executed, so sending it again is safe.
//! A lost reply is reported to the caller, which decides what to do. A pipeline that is redirected
//! is sent on as one pipeline per target node.

mod redirect;

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use redis::{Cmd, Pipeline, Value, cmd};
use seawall_resilience::{Backoff, clock::Moment};
use tokio::sync::watch;

use self::redirect::{RedirectedNodes, ask};
use super::{
    dial::{Address, Dialer},
    multiplexed::Pulse,
    node::Node,
    slot::{SLOTS, slot},
    url::Host,
};
use crate::error::{Error, Result};

/// Attempts for one command before it fails with [`Error::Unavailable`].
const MAX_HOPS: u32 = 8;
/// Pauses between them while the server asks to try again.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(5), Duration::from_millis(640));
/// Minimum interval between reads of the map, however many commands are redirected at once.
const MAP_AGE: Duration = Duration::from_millis(50);
/// If a node does not return the slot map within this time, the next node is asked as well.
const HEDGE: Duration = Duration::from_millis(50);
/// Interval between periodic reads of the map.
const MAP_REFRESH: Duration = Duration::from_secs(5);
const NOBODY: u16 = u16::MAX;

/// A Cluster.
pub(crate) struct Cluster {
    dialer: Arc<Dialer>,
    seeds: Vec<Host>,
    map: ArcSwap<Map>,
    /// Time and outcome of the last read of the map.
    reading: tokio::sync::Mutex<Option<(Moment, Result<()>)>>,
    /// Notified when the map may be outdated and no caller waits for a new one.
    doubt: tokio::sync::Notify,
    /// Changes whenever the map has been read.
    seen: watch::Sender<u64>,
    redirected: RedirectedNodes,
}

/// The owner of each slot.
struct Map {
    owners: Box<[u16; SLOTS]>,
    nodes: Vec<Arc<Node>>,
}

impl Map {
    fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(self.owners[usize::from(slot)]))
    }
}

impl Cluster {
    /// Creates a Cluster whose map is read on first use, from the first of these hosts that
    /// answers.
    pub(crate) fn new(dialer: Arc<Dialer>, seeds: Vec<Host>) -> Self {
        let empty = Map { owners: Box::new([NOBODY; SLOTS]), nodes: Vec::new() };
        Cluster {
            dialer,
            seeds,
            map: ArcSwap::from_pointee(empty),
            reading: tokio::sync::Mutex::default(),
            doubt: tokio::sync::Notify::new(),
            seen: watch::Sender::new(0),
            redirected: RedirectedNodes::default(),
        }
    }

    /// Sends one command to the node that owns the key.
    pub(crate) async fn send(&self, key: &[u8], command: &Cmd) -> Result<Value> {
        let slot = slot(key);
        let mut pauses = PAUSES;
        let mut next: Option<(Arc<Node>, bool)> = None;
        for _ in 0..MAX_HOPS {
            let (node, asking) = match next.take() {
                Some(redirected) => redirected,
                None => (self.owner(slot).await?, false),
            };
            let reply = if asking { ask(&node, command).await } else { node.send(command).await };
            match reply {
                Err(Error::Refused { code, message }) if &*code == "MOVED" => {
                    self.read_map().await.ok();
                    next = self.redirected(&message).map(|node| (node, false));
                }
                Err(Error::Refused { code, message }) if &*code == "ASK" => {
                    next = self.redirected(&message).map(|node| (node, true));
                }
                Err(Error::Refused { code, .. })
                    if matches!(&*code, "TRYAGAIN" | "CLUSTERDOWN" | "READONLY" | "MASTERDOWN") =>
                {
                    self.dialer.clock.sleep(pauses.pause()).await;
                    self.read_map().await.ok();
                }
                // Nothing was sent, so check whether another node owns the slot now.
                Err(Error::Unavailable(cause)) => {
                    self.read_map().await.ok();
                    match self.map.load().owner(slot) {
                        Some(owner) if !Arc::ptr_eq(owner, &node) => {
                            next = Some((Arc::clone(owner), false));
                        }
                        _ => return Err(Error::Unavailable(cause)),
                    }
                }
                Err(error) => {
                    if error.is_indeterminate() {
                        self.doubt.notify_one();
                    }
                    return Err(error);
                }
                done => return done,
            }
        }
        Err(Error::Unavailable(
            format!("slot {slot} found no home after {MAX_HOPS} attempts").into(),
        ))
    }

    /// Sends several commands, in one pipeline per node, concurrently, and returns one reply for
    /// each.
    pub(crate) async fn send_all(&self, commands: Vec<(Vec<u8>, Cmd)>) -> Vec<Result<Value>> {
        let map = self.map.load_full();
        let mut groups: BTreeMap<u16, Vec<usize>> = BTreeMap::new();
        for (index, (key, _)) in commands.iter().enumerate() {
            groups.entry(map.owners[usize::from(slot(key))]).or_default().push(index);
        }
        let sent = groups.into_iter().map(async |(owner, indexes)| {
            let replies =
                self.send_group(map.nodes.get(usize::from(owner)), &indexes, &commands).await;
            indexes.into_iter().zip(replies).collect::<Vec<_>>()
        });
        let mut replies: Vec<_> = join_all(sent).await.into_iter().flatten().collect();
        replies.sort_unstable_by_key(|(index, _)| *index);
        replies.into_iter().map(|(_, reply)| reply).collect()
    }

    async fn send_group(
        &self,
        node: Option<&Arc<Node>>,
        indexes: &[usize],
        commands: &[(Vec<u8>, Cmd)],
    ) -> Vec<Result<Value>> {
        let one_by_one = async |indexes: &[usize]| {
            let each =
                indexes.iter().map(|&index| self.send(&commands[index].0, &commands[index].1));
            join_all(each).await
        };
        let Some(node) = node else { return one_by_one(indexes).await };
        let mut pipeline = Pipeline::with_capacity(indexes.len());
        for &index in indexes {
            pipeline.add_command(commands[index].1.clone());
        }
        match node.send_all(&pipeline).await {
            // The node is gone or has moved: nothing was sent.
            Err(Error::Unavailable(_)) => one_by_one(indexes).await,
            Err(error) => indexes.iter().map(|_| Err(error.clone())).collect(),
            Ok(replies) => self.follow_all(replies, indexes, commands).await,
        }
    }

    /// Returns the node that owns this slot.
    pub(crate) async fn owner(&self, slot: u16) -> Result<Arc<Node>> {
        if let Some(node) = self.map.load().owner(slot) {
            return Ok(Arc::clone(node));
        }
        self.read_map().await?;
        let owner = self.map.load().owner(slot).cloned();
        owner.ok_or_else(|| Error::Unavailable(format!("no node has slot {slot}").into()))
    }

    pub(crate) fn dialer(&self) -> Arc<Dialer> {
        Arc::clone(&self.dialer)
    }

    /// Returns the number of the node that currently owns this slot, or 0 if no node does.
    pub(crate) fn node_number(&self, slot: u16) -> u64 {
        self.map.load().owner(slot).map_or(0, |node| node.number())
    }

    /// Returns the clock offset of the server that owns this slot, if it has been measured.
    pub(crate) fn offset_micros(&self, slot: u16) -> Option<i64> {
        self.map.load().owner(slot)?.offset_micros()
    }

    /// Returns the activity counters of the node that owns this slot, or `None` without a
    /// connection.
    pub(crate) fn pulse(&self, slot: u16, look: bool) -> Option<Pulse> {
        self.map.load().owner(slot).and_then(|node| node.pulse(look))
    }

    /// Returns all known primaries.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.map.load().nodes.clone()
    }

    /// Waits until no node with slots has this address.
    pub(crate) async fn left(&self, address: &Address) {
        let mut seen = self.seen.subscribe();
        while self.nodes().iter().any(|node| *node.address() == *address) {
            if seen.changed().await.is_err() {
                return;
            }
        }
    }

    /// Closes all connections permanently.
    pub(crate) fn close(&self) {
        let redirected = self.redirected.take();
        self.nodes().iter().chain(&redirected).for_each(|node| node.close());
    }

    /// Keeps the map up to date and its nodes connected until the Cluster is dropped.
    pub(crate) async fn keep(cluster: Weak<Self>) {
        loop {
            let Some(strong) = cluster.upgrade() else { return };
            join_all(strong.nodes().iter().map(Node::warm_up)).await;
            strong.dialer.clock.timeout(MAP_REFRESH, strong.doubt.notified()).await;
            if let Err(error) = strong.read_map().await {
                tracing::debug!(%error, "the Cluster's map cannot be read");
            }
        }
    }

    /// Reads the slot map, unless another task has just read it or did so while this caller waited.
    pub(crate) async fn read_map(&self) -> Result<()> {
        let (clock, asked) = (&self.dialer.clock, self.dialer.clock.now());
        let mut last = self.reading.lock().await;
        if let Some((at, outcome)) = &*last
            && (asked <= *at || clock.now().since(*at) < MAP_AGE)
        {
            return outcome.clone();
        }
        let outcome = self.ask_around().await.map(|fresh| {
            self.map.store(Arc::new(fresh));
            self.seen.send_modify(|count| *count += 1);
        });
        *last = Some((clock.now(), outcome.clone()));
        outcome
    }

    /// Asks one node after another with a short wait in between; the first answer is used.
    async fn ask_around(&self) -> Result<Map> {
        let map = self.map.load_full();
        let seeds = self.seeds.iter().map(|seed| {
            Arc::new(Node::new(Arc::clone(&self.dialer), Address::Tcp(seed.clone()), None))
        });
        let (connected, others): (Vec<_>, Vec<_>) =
            map.nodes.iter().cloned().partition(|node| node.is_connected());
        let mut waiting = connected.into_iter().chain(others).chain(seeds);
        let mut asked = FuturesUnordered::new();
        let mut last = Error::Unavailable("no node to ask for the Cluster's slots".into());
        loop {
            let next = waiting.next();
            let alone = next.is_none();
            if let Some(node) = next {
                let map = &map;
                asked.push(async move {
                    let reply = node.send(cmd("CLUSTER").arg("SLOTS")).await?;
                    self.parse(reply, &node, map)
                });
            }
            let limit = if alone { self.dialer.connect_timeout * 2 } else { HEDGE };
            match self.dialer.clock.timeout(limit, asked.next()).await {
                Some(Some(Ok(fresh))) => return Ok(fresh),
                Some(Some(Err(error))) => last = error,
                Some(None) | None if alone => return Err(last),
                Some(None) | None => {}
            }
        }
    }

    /// Parses the map and keeps the connections to nodes that are still part of it.
    fn parse(&self, reply: Value, asked: &Node, old: &Map) -> Result<Map> {
        let ranges: Vec<Vec<Value>> = redis::from_redis_value(reply)?;
        let mut map = Map { owners: Box::new([NOBODY; SLOTS]), nodes: Vec::new() };
        for range in ranges {
            let [first, last, primary, ..] = range.as_slice() else {
                return Err(Error::unexpected("CLUSTER SLOTS has ranges without a primary"));
            };
            let (first, last): (u16, u16) =
                (redis::from_redis_value_ref(first)?, redis::from_redis_value_ref(last)?);
            let Value::Array(primary) = primary else {
                return Err(Error::unexpected("CLUSTER SLOTS names nodes in another form"));
            };
            let [name, port, ..] = primary.as_slice() else {
                return Err(Error::unexpected("CLUSTER SLOTS names a node without a port"));
            };
            let name: Option<String> = redis::from_redis_value_ref(name)?;
            let name = match (name, &*asked.address()) {
                (Some(name), _) if !name.is_empty() && name != "?" => name,
                (_, Address::Tcp(host)) => host.name.clone(),
                _ => return Err(Error::unexpected("CLUSTER SLOTS names a node without a host")),
            };
            let address = Address::Tcp(Host { name, port: redis::from_redis_value_ref(port)? });
            let index = match map.nodes.iter().position(|node| *node.address() == address) {
                Some(index) => index,
                None => {
                    let kept = old.nodes.iter().find(|node| *node.address() == address).cloned();
                    map.nodes.push(
                        kept.unwrap_or_else(|| self.redirected.admit(&self.dialer, &address)),
                    );
                    map.nodes.len() - 1
                }
            };
            let range = map.owners.get_mut(usize::from(first)..=usize::from(last));
            range
                .ok_or_else(|| Error::unexpected("CLUSTER SLOTS names slots that do not exist"))?
                .fill(index as u16);
        }
        if map.nodes.is_empty() {
            return Err(Error::Unavailable("the Cluster has no slots assigned".into()));
        }
        Ok(map)
    }
}
