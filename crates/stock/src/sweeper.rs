//! Sweeps an inventory in the background: often while units are held, rarely while none are.
//!
//! Only holds need sweeping. While a hold is known, or one was requested through this handle, all
//! shards are swept at the configured interval. An inventory without holds is idle: one of its
//! shards is checked occasionally, for holds of processes that are gone. The idle shards of a
//! handle take turns: one check a second for all of them together, however many inventories there
//! are.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall_client::Handle;

use super::inventory::Inner;

/// Interval between checks of idle shards of one handle.
const IDLE_TURN: Duration = Duration::from_secs(1);

/// Number of idle shards in a handle's inventories: their sweepers take turns.
#[derive(Debug, Default)]
pub(super) struct IdleShards(AtomicUsize);

impl IdleShards {
    pub(super) fn of(handle: &Handle) -> Arc<Self> {
        handle.slot(Arc::default)
    }
}

/// Counts an inventory's shards as idle while this value lives.
struct Idle {
    count: Arc<IdleShards>,
    shards: usize,
    /// Number of holds requested when it became idle.
    holds: usize,
    next: usize,
    waited: Duration,
}

impl Idle {
    fn begin(count: &Arc<IdleShards>, inner: &Inner, holds: usize) -> Self {
        let shards = inner.shards.len();
        count.0.fetch_add(shards, Ordering::Relaxed);
        // Inventories and processes start at different times and shards.
        let next = inner.client.randomness().index(shards);
        let waited = Duration::ZERO;
        let mut idle = Idle { count: Arc::clone(count), shards, holds, next, waited };
        idle.waited = idle.pause().mul_f64(inner.client.randomness().unit());
        idle
    }

    /// Returns the time between two turns of this inventory.
    fn pause(&self) -> Duration {
        let all = u32::try_from(self.count.0.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        IDLE_TURN * all / u32::try_from(self.shards).unwrap_or(u32::MAX)
    }

    /// Returns `true` if the inventory stays idle after `passed` more time.
    async fn stays(&mut self, inner: &Inner, passed: Duration) -> bool {
        if inner.holds.load(Ordering::SeqCst) != self.holds {
            return false;
        }
        self.waited += passed;
        if self.waited < self.pause() {
            return true;
        }
        self.waited = Duration::ZERO;
        self.next = (self.next + 1) % self.shards;
        // A shard that does not answer is checked again on its next turn.
        inner.look(self.next).await.map_or(true, |levels| levels.held == 0)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.count.0.fetch_sub(self.shards, Ordering::Relaxed);
    }
}

/// Counts a requested hold when the call ends, even if its future is dropped. By then its units are
/// held, so a sweep that ran earlier without finding them is followed by another one.
pub(super) struct Asked<'a>(pub(super) &'a Inner);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.holds.fetch_add(1, Ordering::SeqCst);
    }
}

/// Sweeps until the inventory is dropped.
pub(super) async fn keep_sweeping(
    inventory: Weak<Inner>,
    every: Duration,
    idle_shards: Arc<IdleShards>,
) {
    let mut idle: Option<Idle> = None;
    loop {
        let Some(clock) = inventory.upgrade().map(|inner| inner.clock().clone()) else { return };
        clock.sleep(every).await;
        let Some(inner) = inventory.upgrade() else { return };
        if let Some(idle) = &mut idle
            && idle.stays(&inner, every).await
        {
            continue;
        }
        idle = None;
        let holds = inner.holds.load(Ordering::SeqCst);
        match inner.sweep().await {
            Ok(true) if is_free(&inner).await => {
                idle = Some(Idle::begin(&idle_shards, &inner, holds));
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(sku = %inner.name, %error, "not everything was swept");
            }
        }
    }
}

/// Returns `true` if no unit is held at any shard.
async fn is_free(inner: &Inner) -> bool {
    for shard in 0..inner.shards.len() {
        if !inner.look(shard).await.is_ok_and(|levels| levels.held == 0) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use seawall_client::testing::TestServer;

    use super::*;
    use crate::Inventory;

    const EVERY: Duration = Duration::from_millis(100);
    /// Large enough that the idle check does not soon reach the shard that matters.
    const SHARDS: usize = 200;

    /// Advances time until `shards` shards are idle.
    async fn until_idle(test_server: &TestServer, shards: usize) {
        for _ in 0..1_000 {
            if IdleShards::of(test_server.handle()).0.load(Ordering::Relaxed) == shards {
                return;
            }
            test_server.advance(EVERY / 10).await;
            // Real time, so that other tasks can run.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("it is not so that {shards} shards are idle");
    }

    #[tokio::test]
    async fn a_hold_with_a_reference_that_was_kept_wakes_it() {
        let test_server = TestServer::start().await.expect("it starts");
        let builder =
            Inventory::builder(test_server.handle(), "sku").shards(SHARDS).sweep_interval(EVERY);
        let stock = builder.open().await.expect("answered");
        let _ = stock.receive("first", 10 * SHARDS as u64).await.expect("received");
        let reference = stock.reference("order").expect("a name");
        until_idle(&test_server, SHARDS).await;
        let held = stock.hold(&reference, 1, Duration::from_secs(3_600)).await.expect("answered");
        assert!(held.is_yours(), "{held:?}");
        until_idle(&test_server, 0).await;
        // Woken for nothing: it goes back to sleep.
        let _ = stock.release(&reference).await.expect("answered");
        until_idle(&test_server, SHARDS).await;
        test_server.shutdown().await;
    }
}
