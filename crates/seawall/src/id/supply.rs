//! What is in hand: the segment in use, the one fetched ahead, and how much to fetch next.
//!
//! Plain state without I/O. Invariant: segments are used in the order in which they were fetched,
//! and each begins at or after `floor`, the end of the one before: ids rise strictly.

use std::time::Duration;

use super::{ident::Id, segment::Segment};
use crate::{clock::Moment, error::Error};

/// What a segment should last for.
const LASTING: Duration = Duration::from_secs(1);
/// After a fetch that failed, the next one ahead of need waits this long.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Supply {
    current: Option<Segment>,
    spare: Option<Segment>,
    floor: u64,
    size: u64,
    smallest: u64,
    largest: u64,
    freshness: Duration,
    fetching: bool,
    waiting: u64,
    retry_at: Moment,
    /// Counts fetches that ended; how the last one did.
    pub(super) round: u64,
    pub(super) failure: Option<Error>,
}

/// What a fetch has to ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) count: u64,
    pub(super) floor: u64,
}

impl Supply {
    pub(super) fn new(smallest: u64, largest: u64, freshness: Duration) -> Self {
        Supply {
            current: None,
            spare: None,
            floor: 0,
            size: smallest,
            smallest,
            largest,
            freshness,
            fetching: false,
            waiting: 0,
            retry_at: Moment::default(),
            round: 0,
            failure: None,
        }
    }

    /// The next id, unless there is none or all in hand are too old.
    pub(super) fn take(&mut self, now: Moment) -> Option<Id> {
        let fresh = |segment: &Segment| now.since(segment.asked) < self.freshness;
        match &self.current {
            Some(current) if !current.is_spent() && fresh(current) => {}
            _ => {
                let spare = self.spare.take_if(|spare| fresh(spare))?;
                if let Some(used) = self.current.replace(spare) {
                    self.adapt(now.since(used.asked));
                }
            }
        }
        self.current.as_mut()?.take()
    }

    /// The next id, however old.
    pub(super) fn take_any(&mut self) -> Option<Id> {
        if self.current.as_ref().is_none_or(Segment::is_spent) {
            self.current = self.spare.take();
        }
        self.current.as_mut()?.take()
    }

    /// Begins a fetch when the segment in use runs low; the caller carries it out.
    pub(super) fn order_ahead(&mut self, now: Moment) -> Option<Order> {
        let low = self.current.as_ref().is_none_or(Segment::is_low);
        (low && self.spare.is_none() && now >= self.retry_at).then(|| self.order()).flatten()
    }

    /// Begins a fetch because somebody waits; none while one is under way.
    pub(super) fn order(&mut self) -> Option<Order> {
        if self.fetching {
            return None;
        }
        self.fetching = true;
        let count = self.size.max(self.waiting.saturating_mul(2)).min(self.largest);
        Some(Order { count, floor: self.floor })
    }

    /// Ends a fetch.
    pub(super) fn fetched(&mut self, segment: Segment) {
        self.fetching = false;
        self.round += 1;
        self.failure = None;
        self.floor = segment.end();
        if self.spare.is_some() || self.current.as_ref().is_none_or(Segment::is_spent) {
            // A spare that is still here was too old to be used.
            let used = self.spare.take().or(self.current.take());
            if let Some(used) = used {
                self.adapt(segment.asked.since(used.asked));
            }
            self.current = Some(segment);
        } else {
            self.spare = Some(segment);
        }
    }

    /// Ends a fetch that brought nothing.
    pub(super) fn failed(&mut self, error: Error, now: Moment) {
        self.fetching = false;
        self.round += 1;
        self.failure = Some(error);
        self.retry_at = now + RETRY_PAUSE;
    }

    pub(super) fn begin_wait(&mut self) {
        self.waiting += 1;
    }

    pub(super) fn end_wait(&mut self) {
        self.waiting -= 1;
    }

    /// Doubles what is used up too quickly, halves what lasts too long.
    fn adapt(&mut self, lasted: Duration) {
        if lasted < LASTING / 2 {
            self.size = (self.size * 2).min(self.largest);
        } else if lasted > LASTING * 2 {
            self.size = (self.size / 2).max(self.smallest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_segment_follows_demand() {
        let mut supply = Supply::new(16, 64, Duration::from_secs(10));
        let (mut first, mut fetches, mut last) = (1u64 << 32, 0, None);
        let mut counts = Vec::new();
        for millis in 0..2_000u64 {
            // One id each millisecond: 64 last for 64 ms.
            if let Some(order) = supply.order_ahead(at(millis)) {
                assert!(order.floor <= first);
                supply.fetched(Segment::new(first, order.count, at(millis)));
                first += order.count;
                fetches += 1;
                counts.push(order.count);
            }
            let id = supply.take(at(millis));
            assert!(id.is_some() && id > last, "{millis}");
            last = id;
        }
        assert_eq!(counts.last(), Some(&64), "{counts:?}");
        assert!(fetches < 60, "{fetches}");
        // An hour of silence: what is in hand is too old, and only an outage brings it out.
        assert_eq!(supply.take(at(3_600_000)), None);
        assert!(supply.take_any() > last);
    }

    #[test]
    fn one_fetch_at_a_time_and_a_pause_after_failure() {
        let mut supply = Supply::new(16, 64, Duration::from_secs(10));
        assert!(supply.order_ahead(at(0)).is_some());
        assert!(supply.order_ahead(at(0)).is_none());
        supply.failed(Error::Closed, at(0));
        assert!(supply.order_ahead(at(50)).is_none());
        assert!(supply.order().is_some(), "who waits does not wait longer");
        supply.failed(Error::Closed, at(50));
        assert!(supply.order_ahead(at(150)).is_some());
    }

    #[test]
    fn those_who_wait_make_the_segment_larger() {
        let mut supply = Supply::new(16, 64, Duration::from_secs(10));
        (0..20).for_each(|_| supply.begin_wait());
        assert_eq!(supply.order().expect("nothing under way").count, 40);
    }
}
