//! Changes that an operator makes to a Cluster: a planned fail-over, a slot move.
//!
//! A move can be stopped half-way: then the old owner answers `ASK` for keys that have moved, and
//! the new owner serves them only after `ASKING`, which is the state that clients get wrong.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::{Cluster, SETTLE_LIMIT, slot_of};
use crate::node::{Node, Role, order};
use crate::settle::POLL_PAUSE;

/// Keys per MIGRATE.
const MIGRATE_BATCH: &str = "100";
/// Maximum time of one MIGRATE.
const MIGRATE_LIMIT_MS: &str = "5000";

impl Cluster {
    /// Makes a replica of `primary` take over in an orderly way, without losing a write, waits
    /// until all nodes agree, and returns the new primary.
    ///
    /// # Errors
    ///
    /// If `primary` has no running replica, or it takes too long.
    pub fn failover(&self, primary: &Node) -> io::Result<&Node> {
        let replicas = self.replicas(primary)?;
        let heir = replicas.into_iter().find(|replica| replica.is_running());
        let heir = heir.ok_or_else(|| io::Error::other("no replica that could take over"))?;
        order(&mut heir.connect()?, &["CLUSTER", "FAILOVER"])?;
        self.await_primary(heir, SETTLE_LIMIT)?;
        self.settle(SETTLE_LIMIT)?;
        Ok(heir)
    }

    /// Waits until another running node serves the slots of `lost`, which was killed or paused, and
    /// the Cluster has settled. Returns the node that took over.
    ///
    /// # Errors
    ///
    /// `TimedOut` if no node took over.
    pub fn await_failover(&self, lost: &Node, slot: u16) -> io::Result<&Node> {
        let deadline = Instant::now() + SETTLE_LIMIT;
        loop {
            match self.primary_of_slot(slot) {
                Ok(heir) if heir.id() != lost.id() => {
                    self.settle(SETTLE_LIMIT)?;
                    return Ok(heir);
                }
                _ if Instant::now() > deadline => {
                    let message = format!("nobody took over from {}", lost.port());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, message));
                }
                _ => thread::sleep(POLL_PAUSE),
            }
        }
    }

    /// Moves `slot` with its keys to the primary `to` and waits until all agree.
    ///
    /// # Errors
    ///
    /// If a step is refused.
    pub fn move_slot(&self, slot: u16, to: &Node) -> io::Result<()> {
        if self.primary_of_slot(slot)?.id() == to.id() {
            return Ok(());
        }
        let moving = self.begin_move(slot, to)?;
        moving.move_keys()?;
        moving.finish()
    }

    /// Begins to move `slot` to `to` without moving a key: the old owner now answers `ASK` for keys
    /// that it does not have.
    ///
    /// # Errors
    ///
    /// If a step is refused.
    pub fn begin_move<'a>(&'a self, slot: u16, to: &'a Node) -> io::Result<MovingSlot<'a>> {
        let from = self.primary_of_slot(slot)?;
        let number = slot.to_string();
        order(&mut to.connect()?, &["CLUSTER", "SETSLOT", &number, "IMPORTING", from.id()])?;
        order(&mut from.connect()?, &["CLUSTER", "SETSLOT", &number, "MIGRATING", to.id()])?;
        Ok(MovingSlot { cluster: self, slot, from, to })
    }

    fn await_primary(&self, heir: &Node, limit: Duration) -> io::Result<()> {
        let deadline = Instant::now() + limit;
        while heir.role()? != Role::Primary {
            if Instant::now() > deadline {
                let message = format!("{} did not take over in {limit:?}", heir.port());
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(POLL_PAUSE);
        }
        Ok(())
    }
}

/// A slot between two owners. Dropping it leaves the slot as it is.
#[derive(Debug, Clone, Copy)]
pub struct MovingSlot<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Node,
    to: &'a Node,
}

impl<'a> MovingSlot<'a> {
    /// Returns the slot.
    #[must_use]
    pub fn slot(&self) -> u16 {
        self.slot
    }

    /// Returns the owner until the move is finished.
    #[must_use]
    pub fn from(&self) -> &'a Node {
        self.from
    }

    /// Returns the owner after the move.
    #[must_use]
    pub fn to(&self) -> &'a Node {
        self.to
    }

    /// Moves one key, so that the old owner answers `ASK` for it.
    ///
    /// # Errors
    ///
    /// If the key belongs to another slot or the move is refused.
    pub fn move_key(&self, key: &[u8]) -> io::Result<()> {
        if slot_of(key) != self.slot {
            return Err(io::Error::other("the key belongs to another slot"));
        }
        self.migrate(&[key.to_vec()])
    }

    /// Moves every key that the old owner still has.
    ///
    /// # Errors
    ///
    /// If the move is refused.
    pub fn move_keys(&self) -> io::Result<()> {
        let number = self.slot.to_string();
        let mut client = self.from.connect()?;
        // Each round removes keys, so there are no more rounds than keys.
        loop {
            let command = ["CLUSTER", "GETKEYSINSLOT", &number, MIGRATE_BATCH];
            let reply = order(&mut client, &command)?;
            let keys: Vec<Vec<u8>> =
                reply.items().iter().filter_map(|key| key.as_bytes()).map(<[u8]>::to_vec).collect();
            if keys.is_empty() {
                return Ok(());
            }
            self.migrate(&keys)?;
        }
    }

    /// Makes the new owner official and waits until all agree.
    ///
    /// # Errors
    ///
    /// If the old owner still has keys of the slot.
    pub fn finish(self) -> io::Result<()> {
        self.assign(self.to)
    }

    /// Abandons the move; keys that were moved stay with the new owner, out of reach.
    ///
    /// # Errors
    ///
    /// If a step is refused.
    pub fn abandon(self) -> io::Result<()> {
        let number = self.slot.to_string();
        for node in [self.from, self.to] {
            order(&mut node.connect()?, &["CLUSTER", "SETSLOT", &number, "STABLE"])?;
        }
        Ok(())
    }

    fn assign(&self, owner: &Node) -> io::Result<()> {
        let number = self.slot.to_string();
        // Redis: the new owner must know first, else the slot has no owner for a moment.
        let others = self.cluster.primaries()?;
        let others = others.into_iter().filter(|node| node.id() != owner.id() && node.is_running());
        for node in std::iter::once(owner).chain(others) {
            order(&mut node.connect()?, &["CLUSTER", "SETSLOT", &number, "NODE", owner.id()])?;
        }
        self.cluster.settle(SETTLE_LIMIT)
    }

    fn migrate(&self, keys: &[Vec<u8>]) -> io::Result<()> {
        let port = self.to.port().to_string();
        let head = ["MIGRATE", "127.0.0.1", &port, "", "0", MIGRATE_LIMIT_MS, "REPLACE", "KEYS"];
        let mut args: Vec<Vec<u8>> = head.iter().map(|word| word.as_bytes().to_vec()).collect();
        args.extend_from_slice(keys);
        order(&mut self.from.connect()?, &args).map(drop)
    }
}
