//! State shared by the proxy's handle, its door and its links: the rules, and a condition variable
//! that is notified when anything changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::link::Link;
use super::rules::{Flow, RuleId, Rules};
use crate::client::Address;

/// Only a bound: anything that ends a wait notifies the condition variable.
const ROUND: Duration = Duration::from_secs(60);

/// Direction of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What happens to new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// They are accepted.
    Open,
    /// No socket listens.
    Closed,
    /// The proxy ends.
    Gone,
}

pub(super) struct Shared {
    pub(super) upstream: Address,
    rules: Mutex<Rules>,
    links: Mutex<HashMap<u64, Arc<Link>>>,
    /// The wanted state of the door, and its present state.
    door: Mutex<(Door, Door)>,
    bell: Condvar,
    bell_lock: Mutex<u64>,
    pub(super) accepted: AtomicU64,
    pub(super) held: AtomicUsize,
}

impl Shared {
    pub(super) fn new(upstream: Address, seed: u64) -> Self {
        Self {
            upstream,
            rules: Mutex::new(Rules::new(seed)),
            links: Mutex::default(),
            door: Mutex::new((Door::Open, Door::Open)),
            bell: Condvar::new(),
            bell_lock: Mutex::new(0),
            accepted: AtomicU64::new(0),
            held: AtomicUsize::new(0),
        }
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn links(&self) -> MutexGuard<'_, HashMap<u64, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the wanted state of the door, and its present state.
    pub(super) fn door(&self) -> MutexGuard<'_, (Door, Door)> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies all waiting threads.
    pub(super) fn changed(&self) {
        *self.bell_lock.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.bell.notify_all();
    }

    /// Waits until `ready`, checking after each notification. Returns `false` if `limit` came
    /// first.
    pub(super) fn wait_until(&self, limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + limit;
        let mut rung = self.bell_lock.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if ready() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let woken = self.bell.wait_timeout(rung, left);
            rung = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until this rule is removed, or the connection is gone.
    pub(super) fn hold(&self, rule: RuleId, dead: &AtomicBool) {
        self.held.fetch_add(1, Ordering::SeqCst);
        while !self.wait_until(ROUND, || dead.load(Ordering::SeqCst) || !self.rules().has(rule)) {}
        self.held.fetch_sub(1, Ordering::SeqCst);
    }

    /// Holds back bytes that arrived at `arrived` for as long as the rules say, which may change
    /// meanwhile. Returns what happens to them, or `None` if their connection is gone.
    pub(super) fn wait(
        &self,
        direction: Direction,
        arrived: Instant,
        dead: &AtomicBool,
    ) -> Option<Flow> {
        loop {
            if dead.load(Ordering::SeqCst) {
                return None;
            }
            let (flow, delay) = {
                let rules = self.rules();
                (rules.flow[direction as usize], rules.delay[direction as usize])
            };
            let left = (arrived + delay).saturating_duration_since(Instant::now());
            if flow == Flow::Swallowed || (flow == Flow::Open && left.is_zero()) {
                return Some(flow);
            }
            let round = if flow == Flow::Stalled { ROUND } else { left };
            self.wait_until(round, || {
                let rules = self.rules();
                dead.load(Ordering::SeqCst)
                    || rules.flow[direction as usize] != flow
                    || rules.delay[direction as usize] != delay
            });
        }
    }
}
