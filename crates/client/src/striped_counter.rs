//! Counting on a hot path: a counter that threads do not fight over.
//!
//! An atomic counter that every core increments costs each of them the time to fetch its cache line
//! from another: more than a whole hit in memory. A striped counter has a line for each of a few stripes,
//! threads spread over them, and the sum is handed to the metrics recorder every [`BATCH`] counts of
//! a stripe. What is left over shows up with the next batch, or with [`StripedCounter::flush`].

use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

use metrics::Counter;

const STRIPES: usize = 16;
/// Counts of one stripe that are handed over together.
const BATCH: u64 = 256;

/// A counter for hot paths.
pub struct StripedCounter {
    stripes: [Stripe; STRIPES],
    counter: Counter,
}

/// On a cache line of its own; two, because processors fetch them in pairs.
#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

impl StripedCounter {
    /// A striped counter that ends up in this counter.
    pub fn new(counter: Counter) -> Self {
        StripedCounter { stripes: Default::default(), counter }
    }

    /// Counts one.
    pub fn count(&self) {
        let stripe = &self.stripes[stripe()].0;
        if stripe.fetch_add(1, Ordering::Relaxed) + 1 >= BATCH {
            self.counter.increment(stripe.swap(0, Ordering::Relaxed));
        }
    }

    /// Hands over what is left.
    pub fn flush(&self) {
        for Stripe(stripe) in &self.stripes {
            if stripe.load(Ordering::Relaxed) > 0 {
                self.counter.increment(stripe.swap(0, Ordering::Relaxed));
            }
        }
    }
}

/// Which stripe this thread counts in.
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
