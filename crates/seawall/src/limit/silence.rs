//! Detects that a server is silent, once for all checks that wait for its answers.
//!
//! A late answer does not prove an outage: a flood of checks, or a machine with too little CPU time
//! for this process, delays answers just as well. The difference is whether *anything* arrived from
//! the server while the process had the time to read it. So one task watches while checks wait. In
//! each slice of the patience it makes the connection read once more. A slice is silent if the
//! connection was read and had no data. A slice in which the connection was not read, because other
//! tasks ran first, says nothing about the server. A whole patience of silent slices, without a
//! byte in between, is silence.
//!
//! The task runs in the handle's own runtime, as the connections do: the runtime of one check may
//! stand still while checks of another runtime wait.
//!
//! The engine inside this process is never silent: if it is slow, so is the process.
//!
//! Invariant: while a check waits for another process, a watch task runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall_client::{Handle, client::Client};
use tokio::sync::Notify;

/// Most checks of one limiter that may wait for a server. Fewer than a connection takes, so that a
/// flood of checks is noticed here.
const MAX_ASKING: usize = 1 << 17;
/// Slices of the patience that are judged separately.
const SLICES: u32 = 5;
/// How often other tasks run at the end of a slice, so that the runtime reads what arrived from the
/// network meanwhile.
const TURNS: usize = 3;
/// Slices for which the watch goes on while no check waits.
const IDLE_SLICES: u32 = 20;
/// The resolution of timers.
const SHORTEST_SLICE: Duration = Duration::from_millis(1);

/// Checks that wait for one server.
#[derive(Debug, Default)]
pub(super) struct Silence {
    asking: AtomicUsize,
    /// Whether a watch task runs.
    watched: AtomicBool,
    noticed: Notify,
}

/// A check that waits for its answer.
#[derive(Debug)]
pub(super) struct Asking<'a>(&'a Silence);

impl Asking<'_> {
    /// Waits until the server is silent.
    pub(super) async fn silence(&self) {
        self.0.noticed.notified().await;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Silence {
    /// Registers a check that is about to ask the server of `key`. Returns `None` if too many wait
    /// already.
    pub(super) fn ask(
        self: &Arc<Self>,
        handle: &Handle,
        key: &[u8],
        patience: Duration,
    ) -> Option<Asking<'_>> {
        let asking = Asking(self);
        if self.asking.fetch_add(1, Ordering::SeqCst) >= MAX_ASKING {
            return None;
        }
        let watched = self.watched.load(Ordering::SeqCst) || handle.client().is_embedded();
        if !watched && !self.watched.swap(true, Ordering::SeqCst) {
            let (silence, client, key) = (Arc::clone(self), handle.client().clone(), key.to_vec());
            let watch = Watch { silence, client, key, left: false };
            let mut stop = handle.stopping();
            handle.spawn_at_home(async move {
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop) => {}
                    () = watch.run(patience) => {}
                }
            });
        }
        Some(asking)
    }
}

/// The watch task.
struct Watch {
    silence: Arc<Silence>,
    client: Client,
    key: Vec<u8>,
    /// Whether it has stopped watching, and another may have begun.
    left: bool,
}

impl Watch {
    async fn run(mut self, patience: Duration) {
        let slice = (patience / SLICES).max(SHORTEST_SLICE);
        let (mut before, mut silent, mut idle) = (self.client.pulse(&self.key, true), 0, 0);
        loop {
            self.client.network_clock().sleep(slice).await;
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let pulse = self.client.pulse(&self.key, true);
            let nobody_asks = self.silence.asking.load(Ordering::SeqCst) == 0;
            idle = if nobody_asks { idle + 1 } else { 0 };
            silent = match (before, pulse) {
                _ if nobody_asks => 0,
                (Some(before), Some(pulse)) if pulse.heard != before.heard => 0,
                // Not read in this slice.
                (Some(before), Some(pulse)) if pulse.looked == before.looked => silent,
                // Read without data, or no connection.
                _ => silent + 1,
            };
            before = pulse;
            // One more slice: the first check may have come at the end of a slice.
            if silent > SLICES {
                self.silence.noticed.notify_waiters();
            }
            if idle > IDLE_SLICES && self.leaves() {
                return;
            }
        }
    }

    /// Stops watching, unless a check has arrived that relies on it.
    fn leaves(&mut self) -> bool {
        self.silence.watched.store(false, Ordering::SeqCst);
        self.left = self.silence.asking.load(Ordering::SeqCst) == 0
            || self.silence.watched.swap(true, Ordering::SeqCst);
        self.left
    }
}

impl Drop for Watch {
    /// Also runs if its runtime ends: the next check starts another watch.
    fn drop(&mut self) {
        if !self.left {
            self.silence.watched.store(false, Ordering::SeqCst);
        }
    }
}
