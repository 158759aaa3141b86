//! One budget of memory for the local tiers of all caches of a handle.
//!
//! Caches share it by their weights: each is granted a part, and the parts never sum up to more than
//! the budget. Who does not use its part leaves it to those who could use more; when it wants it back
//! it gets it, up to what its weight is worth. The parts are settled anew when a local tier is about to
//! be full, at most every [`SETTLE_EVERY`].

use std::{
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use seawall_client::Handle;
use seawall_resilience::clock::{Clock, Moment};

const SETTLE_EVERY: Duration = Duration::from_millis(50);
/// Which part of its fair share a local tier is granted before it uses any.
const FOOTHOLD: u64 = 4;

/// A local tier, as its budget knows it.
pub(crate) trait Holder: Send + Sync {
    /// Returns how many bytes it holds.
    fn used(&self) -> u64;

    /// Returns whether it had to turn something away, or is about to, since this was last asked.
    fn is_pressed(&self) -> bool;

    /// How many bytes it may hold from now on.
    fn grant(&self, bytes: u64);
}

/// What all local tiers of a handle may hold together.
pub(crate) struct Budget {
    total: u64,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    shares: Vec<Share>,
    settled: Option<Moment>,
}

struct Share {
    holder: Weak<dyn Holder>,
    weight: u32,
    most: u64,
    granted: u64,
}

impl Budget {
    /// Returns what the local tiers of all caches of a handle may hold together.
    pub(crate) fn of(handle: &Handle) -> Arc<Self> {
        let clock = handle.client().network_clock();
        handle.slot(|| Arc::new(Budget::new(handle.local_max_bytes(), clock.clone())))
    }

    pub(crate) fn new(total: u64, clock: Clock) -> Self {
        Budget { total, clock, state: Mutex::default() }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns what a local tier with this weight could count on if it joined now and all were full.
    pub(crate) fn fair_for(&self, weight: u32, most: u64) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let living = state.shares.iter().filter(|share| share.holder.strong_count() > 0);
        let weights: u64 = living.map(|share| u64::from(share.weight)).sum();
        part(self.total, weight, weights + u64::from(weight)).min(most)
    }

    /// Takes a local tier in.
    pub(crate) fn join(&self, holder: Weak<dyn Holder>, weight: u32, most: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.shares.push(Share { holder, weight, most, granted: 0 });
        self.settle(&mut state);
    }

    /// Settles the parts anew, unless that was done just now or is being done.
    pub(crate) fn press(&self) {
        let Ok(mut state) = self.state.try_lock() else { return };
        if state.settled.is_none_or(|at| self.clock.now().since(at) >= SETTLE_EVERY) {
            self.settle(&mut state);
        }
    }

    fn settle(&self, state: &mut State) {
        state.settled = Some(self.clock.now());
        state.shares.retain(|share| share.holder.strong_count() > 0);
        let weights: u64 = state.shares.iter().map(|share| u64::from(share.weight)).sum();
        let holders: Vec<_> = state.shares.iter().map(|share| share.holder.upgrade()).collect();
        let wishes: Vec<Wish> = state
            .shares
            .iter()
            .zip(&holders)
            .map(|(share, holder)| {
                let foothold = part(self.total, share.weight, weights) / FOOTHOLD;
                let bytes = match holder {
                    None => 0,
                    Some(holder) if holder.is_pressed() => share.most,
                    Some(holder) => foothold.max(holder.used() / 4 * 5).min(share.most),
                };
                Wish { bytes, weight: share.weight }
            })
            .collect();
        let grants = divide(self.total, &wishes);
        // Who gets less gives it back before others get more.
        for shrinks in [true, false] {
            for ((share, holder), grant) in state.shares.iter_mut().zip(&holders).zip(&grants) {
                if *grant != share.granted && (*grant < share.granted) == shrinks {
                    share.granted = *grant;
                    holder.iter().for_each(|holder| holder.grant(*grant));
                }
            }
        }
    }
}

/// What one of those who share would like to have.
#[derive(Debug, Clone, Copy)]
struct Wish {
    bytes: u64,
    weight: u32,
}

/// This weight's part of a total.
fn part(total: u64, weight: u32, weights: u64) -> u64 {
    let part = u128::from(total) * u128::from(weight) / u128::from(weights.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// Divides by weight: none gets more than it wants, and what one does not want goes to the others.
fn divide(total: u64, wishes: &[Wish]) -> Vec<u64> {
    let mut grants = vec![0; wishes.len()];
    let mut open: Vec<usize> = (0..wishes.len()).collect();
    let mut left = total;
    // Each turn settles at least one.
    while !open.is_empty() {
        let weights: u64 = open.iter().map(|&at| u64::from(wishes[at].weight)).sum();
        let fair = |at: usize| part(left, wishes[at].weight, weights);
        let (modest, greedy): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&at| wishes[at].bytes <= fair(at));
        if modest.is_empty() {
            let parts: Vec<u64> = greedy.iter().map(|&at| fair(at)).collect();
            greedy.iter().zip(parts).for_each(|(&at, part)| grants[at] = part);
            break;
        }
        for at in modest {
            grants[at] = wishes[at].bytes;
            left -= grants[at];
        }
        open = greedy;
    }
    grants
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    };

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn never_more_than_there_is(
            total in 0_u64..1 << 40,
            wishes in prop::collection::vec((0_u64..1 << 40, 1_u32..100), 0..20),
        ) {
            let wishes: Vec<Wish> =
                wishes.into_iter().map(|(bytes, weight)| Wish { bytes, weight }).collect();
            let grants = divide(total, &wishes);
            let wished: u64 = wishes.iter().map(|wish| wish.bytes).sum();
            let granted: u64 = grants.iter().sum();
            prop_assert!(granted <= total.min(wished));
            // What is not granted is less than a byte for each.
            prop_assert!(granted + 20 >= total.min(wished));
            prop_assert!(grants.iter().zip(&wishes).all(|(grant, wish)| *grant <= wish.bytes));
        }
    }

    #[test]
    fn weights_decide_among_those_who_want_more() {
        let wish = |bytes, weight| Wish { bytes, weight };
        assert_eq!(divide(100, &[wish(1000, 1), wish(1000, 3)]), [25, 75]);
        assert_eq!(divide(100, &[wish(10, 3), wish(1000, 1), wish(1000, 1)]), [10, 45, 45]);
    }

    #[derive(Default)]
    struct Bag {
        used: AtomicU64,
        granted: AtomicU64,
        pressed: AtomicBool,
    }

    impl Holder for Bag {
        fn used(&self) -> u64 {
            self.used.load(Ordering::SeqCst)
        }

        fn is_pressed(&self) -> bool {
            self.pressed.swap(false, Ordering::SeqCst)
        }

        fn grant(&self, bytes: u64) {
            self.granted.store(bytes, Ordering::SeqCst);
            self.used.fetch_min(bytes, Ordering::SeqCst);
        }
    }

    fn settle_now(budget: &Budget) {
        budget.settle(&mut budget.state.lock().expect("no panic"));
    }

    #[test]
    fn who_does_not_use_its_part_leaves_it_to_others_until_it_wants_it() {
        let budget = Budget::new(1000, Clock::system());
        let bags: Vec<Arc<Bag>> = (0..4).map(|_| Arc::default()).collect();
        for bag in &bags {
            let holder: Weak<dyn Holder> = Arc::<Bag>::downgrade(bag);
            budget.join(holder, 1, u64::MAX);
        }
        bags[0].pressed.store(true, Ordering::SeqCst);
        settle_now(&budget);
        let granted = |at: usize| bags[at].granted.load(Ordering::SeqCst);
        assert!(granted(0) > 750, "{}", granted(0));
        bags[0].used.store(granted(0), Ordering::SeqCst);
        for bag in &bags {
            bag.pressed.store(true, Ordering::SeqCst);
        }
        settle_now(&budget);
        assert_eq!([granted(0), granted(1), granted(2), granted(3)], [250; 4]);
        drop(bags);
        settle_now(&budget);
        assert_eq!(budget.fair_for(1, u64::MAX), 1000, "who is gone counts no more");
    }
}
