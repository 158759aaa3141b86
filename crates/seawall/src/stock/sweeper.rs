//! Sweeps an inventory in the background: often while units are held, next to never while none are.
//!
//! Holds are what there is to sweep. While any is known of, or one began here, all shards are swept at
//! the setting's pace. An inventory without any is idle: only one of its shards is looked at now and
//! then, for holds of processes that are gone, and the idle shards of a handle take turns: one look a
//! second for all of them together, however many inventories there are.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::inventory::Inner;

/// How far looks at idle shards of one handle lie apart.
const IDLE_TURN: Duration = Duration::from_secs(1);

/// Counts an inventory's shards among the idle ones, as long as it lives.
struct Idle {
    count: Arc<AtomicUsize>,
    shards: usize,
    /// How many holds had begun here.
    holds: usize,
    next: usize,
    waited: Duration,
}

impl Idle {
    fn begin(count: &Arc<AtomicUsize>, inner: &Inner, holds: usize) -> Self {
        let shards = inner.shards.len();
        count.fetch_add(shards, Ordering::Relaxed);
        // Not all inventories, nor all processes, begin at the same time or shard.
        let next = usize::try_from(rand::random::<u32>()).unwrap_or(0) % shards;
        let waited = Duration::ZERO;
        let mut idle = Idle { count: Arc::clone(count), shards, holds, next, waited };
        idle.waited = idle.pause().mul_f64(rand::random::<f64>());
        idle
    }

    /// How long until it is this inventory's turn again.
    fn pause(&self) -> Duration {
        let all = u32::try_from(self.count.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        IDLE_TURN * all / u32::try_from(self.shards).unwrap_or(u32::MAX)
    }

    /// Whether it stays idle after this much more time.
    async fn stays(&mut self, inner: &Inner, passed: Duration) -> bool {
        if inner.turn.load(Ordering::Relaxed) != self.holds {
            return false;
        }
        self.waited += passed;
        if self.waited < self.pause() {
            return true;
        }
        self.waited = Duration::ZERO;
        self.next = (self.next + 1) % self.shards;
        // One that does not answer is looked at when it is its turn again.
        inner.look(self.next).await.map_or(true, |levels| levels.held == 0)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.count.fetch_sub(self.shards, Ordering::Relaxed);
    }
}

/// Sweeps until the inventory is gone.
pub(super) async fn keep_sweeping(
    inventory: Weak<Inner>,
    every: Duration,
    idle_shards: Arc<AtomicUsize>,
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
        let holds = inner.turn.load(Ordering::Relaxed);
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

/// Whether no unit is held anywhere.
async fn is_free(inner: &Inner) -> bool {
    for shard in 0..inner.shards.len() {
        if !inner.look(shard).await.is_ok_and(|levels| levels.held == 0) {
            return false;
        }
    }
    true
}
