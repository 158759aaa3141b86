//! The ids in this process: the segment in use, the one fetched ahead, and how much to fetch next.
//!
//! Plain state without I/O. Invariants: segments are used in the order in which they were fetched,
//! and each begins at or after `floor`, the end of the one before, so ids rise strictly. While a
//! caller waits, there is no usable id and a fetch is in progress. The fetched ids go to the
//! waiting callers in the order in which they arrived, so that no later caller overtakes them.

use std::{collections::VecDeque, time::Duration};

use seawall_client::error::{Error, Result};
use seawall_resilience::clock::Moment;
use tokio::sync::oneshot;

use super::{ident::Id, segment::Segment};

/// Time that a segment should last.
const LASTING: Duration = Duration::from_secs(1);
/// Delay after a failed fetch before the next one ahead of need.
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
    /// Waiting callers, in order of arrival; callers that were dropped are skipped.
    line: VecDeque<oneshot::Sender<Result<Id>>>,
    retry_at: Moment,
}

/// An id, or a place in the line of waiting callers.
#[derive(Debug)]
pub(super) enum Taken {
    Now(Id),
    Later(oneshot::Receiver<Result<Id>>),
}

/// The request of a fetch.
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
            line: VecDeque::new(),
            retry_at: Moment::default(),
        }
    }

    /// Returns an id or a place in line, and the fetch that the caller must run, if one is needed.
    pub(super) fn next(&mut self, now: Moment) -> (Taken, Option<Order>) {
        match self.take(now) {
            Some(id) => (Taken::Now(id), self.order_ahead(now)),
            None => {
                let (sender, place) = oneshot::channel();
                self.line.push_back(sender);
                (Taken::Later(place), self.order())
            }
        }
    }

    /// Returns the next id, unless there is none or all are too old.
    fn take(&mut self, now: Moment) -> Option<Id> {
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

    /// Returns the next id, however old.
    fn take_any(&mut self) -> Option<Id> {
        if self.current.as_ref().is_none_or(Segment::is_spent) {
            self.current = self.spare.take();
        }
        self.current.as_mut()?.take()
    }

    /// Starts a fetch if the segment in use runs low; the caller must run it.
    fn order_ahead(&mut self, now: Moment) -> Option<Order> {
        let low = self.current.as_ref().is_none_or(Segment::is_low);
        (low && self.spare.is_none() && now >= self.retry_at).then(|| self.order()).flatten()
    }

    /// Starts a fetch because a caller waits; returns `None` while one is in progress.
    fn order(&mut self) -> Option<Order> {
        if self.fetching {
            return None;
        }
        self.fetching = true;
        let count = self.size.max((self.line.len() as u64).saturating_mul(2)).min(self.largest);
        Some(Order { count, floor: self.floor })
    }

    /// Ends a fetch and serves waiting callers; returns another fetch if it was not enough for
    /// them.
    pub(super) fn fetched(&mut self, segment: Segment, now: Moment) -> Option<Order> {
        self.fetching = false;
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
        while let Some(place) = self.line.pop_front() {
            if place.is_closed() {
                continue;
            }
            // Nothing is newer than what was just fetched, however long the fetch took.
            match self.take(now).or_else(|| self.take_any()) {
                // The id is lost if its caller was dropped at this very moment.
                Some(id) => drop(place.send(Ok(id))),
                None => {
                    self.line.push_front(place);
                    return self.order();
                }
            }
        }
        None
    }

    /// Ends a fetch that failed, and answers the waiting callers.
    ///
    /// Old ids are better than none, and still unique.
    pub(super) fn failed(&mut self, error: &Error, now: Moment) {
        self.fetching = false;
        self.retry_at = now + RETRY_PAUSE;
        for place in std::mem::take(&mut self.line) {
            if !place.is_closed() {
                let answer = self.take_any().ok_or_else(|| error.clone());
                drop(place.send(answer));
            }
        }
    }

    /// Doubles the size if a segment is used up too quickly, halves it if one lasts too long.
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
                let more = supply.fetched(Segment::new(first, order.count, at(millis)), at(millis));
                assert!(more.is_none(), "nobody waits");
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
        // After an idle hour: all ids are too old, and only an outage makes them usable.
        assert_eq!(supply.take(at(3_600_000)), None);
        assert!(supply.take_any() > last);
    }

    #[test]
    fn one_fetch_at_a_time_and_a_pause_after_failure() {
        let mut supply = Supply::new(16, 64, Duration::from_secs(10));
        assert!(supply.order_ahead(at(0)).is_some());
        assert!(supply.order_ahead(at(0)).is_none());
        supply.failed(&Error::Closed, at(0));
        assert!(supply.order_ahead(at(50)).is_none());
        assert!(supply.order().is_some(), "who waits does not wait longer");
        supply.failed(&Error::Closed, at(50));
        assert!(supply.order_ahead(at(150)).is_some());
    }

    fn waits(supply: &mut Supply) -> (oneshot::Receiver<Result<Id>>, Option<Order>) {
        match supply.next(at(0)) {
            (Taken::Later(place), order) => (place, order),
            (Taken::Now(id), _) => panic!("{id} is in hand"),
        }
    }

    #[test]
    fn those_who_wait_make_the_segment_larger() {
        let mut supply = Supply::new(16, 64, Duration::from_secs(10));
        let mut places: Vec<_> = (0..20).map(|_| waits(&mut supply).0).collect();
        supply.failed(&Error::Closed, at(0));
        assert!(places.iter_mut().all(|place| matches!(place.try_recv(), Ok(Err(Error::Closed)))));
        let _places: Vec<_> = (0..20).map(|_| waits(&mut supply).0).collect();
        supply.fetching = false;
        assert_eq!(supply.order().expect("nothing under way").count, 40);
    }

    #[test]
    fn the_line_is_served_in_order_and_nobody_comes_between() {
        let mut supply = Supply::new(1, 2, Duration::from_secs(10));
        let mut places: Vec<_> = (0..5).map(|_| waits(&mut supply).0).collect();
        places.remove(1);
        let mut got = Vec::new();
        for first in [100, 102] {
            let more = supply.fetched(Segment::new(first, 2, at(0)), at(0));
            assert_eq!(more.map(|order| order.count), Some(2), "somebody waits still");
            if first == 100 {
                // A caller that arrives now does not get the ids that are fetched for the earlier
                // ones.
                places.push(waits(&mut supply).0);
            }
            got.extend(places.iter_mut().filter_map(|place| place.try_recv().ok()));
        }
        let got: Vec<u64> = got.into_iter().map(|id| id.expect("an id").as_u64()).collect();
        assert_eq!(got, [100, 101, 102, 103], "one went away; the last one waits");
        let more = supply.fetched(Segment::new(104, 2, at(0)), at(0));
        assert!(more.is_none());
        assert!(places.last_mut().is_some_and(|place| place.try_recv().is_ok()));
    }
}
