use std::{sync::Arc, time::Duration};

use seawall_resilience::clock::{Clock, Moment};

use super::*;

fn entry(version: u64) -> Entry<u64> {
    Entry {
        value: Some(Arc::new(version)),
        version,
        fresh_until: Moment::default(),
        stale_until: Moment::default(),
        written: Moment::default(),
        cost: Duration::ZERO,
        bytes: 8,
        invalidated: false,
        tags: Some(Arc::new([version % 2])),
        clears: 0,
    }
}

fn level(budget: u64) -> Arc<LocalTier<u64>> {
    let budget = Arc::new(Budget::new(budget, Clock::system()));
    let memory = Memory { budget, weight: 1, most: u64::MAX };
    LocalTier::open(0, &memory, Arc::new(Attention::new()), &Randomness::system())
}

#[test]
fn what_was_read_before_an_invalidation_is_not_stored_after_it() {
    let level = level(1 << 20);
    let early = level.ticket(b"k");
    level.invalidate(b"k");
    assert!(!level.insert(b"k", entry(1), early));
    let late = level.ticket(b"k");
    assert!(level.insert(b"k", entry(2), late));
    assert!(!level.insert(b"k", entry(1), late), "a newer value stays");
    level.clear();
    assert!(level.get(b"k").is_none());
    assert!(!level.insert(b"k", entry(3), late));
}

#[test]
fn a_tag_takes_its_own_along() {
    let level = level(1 << 20);
    for version in 0..10_u64 {
        let key = version.to_be_bytes();
        assert!(level.insert(&key, entry(version), level.ticket(&key)));
    }
    level.clear_tag(1);
    let left: Vec<u64> =
        (0..10_u64).filter(|version| level.get(&version.to_be_bytes()).is_some()).collect();
    assert_eq!(left, [0, 2, 4, 6, 8]);
}
