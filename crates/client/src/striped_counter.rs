//! A counter for hot paths that does not make threads contend for one cache line.
//!
//! With a single atomic counter, every increment has to fetch the cache line from another core,
//! which costs more than a whole hit in the in-process cache. A striped counter has a few stripes,
//! each on its own cache line, and threads are spread over them. A stripe adds its counts to the
//! metrics recorder in batches of [`BATCH`]. The remainder is added with the next batch or by
//! [`StripedCounter::flush`].

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use metrics::Counter;

const STRIPES: usize = 16;
/// Number of counts that a stripe hands over at once.
const BATCH: u64 = 256;

/// A counter for hot paths; see the module documentation.
pub struct StripedCounter {
    stripes: [Stripe; STRIPES],
    counter: Counter,
}

/// Occupies 128 bytes, which is two cache lines, because processors fetch lines in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl StripedCounter {
    /// Creates a striped counter that adds its counts to `counter`.
    pub fn new(counter: Counter) -> Self {
        StripedCounter { stripes: Default::default(), counter }
    }

    /// Increments the counter by one. Returns how many counts the thread's stripe held before, for
    /// callers that look at a sample.
    pub fn count(&self) -> u64 {
        let stripe = &self.stripes[stripe()].0;
        let before = stripe.fetch_add(1, Ordering::Relaxed);
        if before + 1 >= BATCH {
            self.counter.increment(stripe.swap(0, Ordering::Relaxed));
        }
        before
    }

    /// Hands over the counts that the stripes still hold.
    pub fn flush(&self) {
        for Stripe(stripe) in &self.stripes {
            if stripe.load(Ordering::Relaxed) > 0 {
                self.counter.increment(stripe.swap(0, Ordering::Relaxed));
            }
        }
    }
}

/// Returns the stripe of the current thread.
pub fn stripe() -> usize {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    STRIPE.with(|stripe| {
        if stripe.get() == usize::MAX {
            stripe.set((NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES as u64) as usize);
        }
        stripe.get()
    })
}
