//! Reports big values: a count, a line in the log now and then, and the biggest of late.
//!
//! A log line for each would be a flood of its own, so there is at most one in a while, which says
//! how many it stands for. The list is short and forgets, so it costs next to nothing and shows what
//! is true now.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use metrics::Counter;
use seawall_resilience::clock::{Moment, millis};
use serde::Serialize;

/// At most one line in the log in this time.
const QUIET: Duration = Duration::from_secs(10);
/// How many keys the list has.
const LISTED: usize = 16;
/// For how long a key stays in the list after it was last stored.
const RECENT: Duration = Duration::from_secs(600);

/// A big value that was stored not long ago.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BigValue {
    /// The entry's key in Redis; bytes that are no text are replaced.
    pub entry: String,
    /// Its size there, after compression.
    pub size_bytes: usize,
    /// In how many parts it lies; 0 when it is in one piece.
    pub parts: u32,
    /// How long ago it was stored.
    pub age_millis: u64,
}

/// What one cache noticed.
pub(crate) struct Report {
    cache: String,
    above_bytes: usize,
    count: Counter,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    said: Option<Moment>,
    unsaid: u64,
    /// The biggest first.
    biggest: Vec<(Vec<u8>, usize, u32, Moment)>,
}

impl Report {
    pub(crate) fn new(cache: &str, above_bytes: usize) -> Self {
        Report {
            cache: cache.to_owned(),
            above_bytes,
            count: metrics::counter!("seawall_cache_big_values_total", "cache" => cache.to_owned()),
            seen: Mutex::default(),
        }
    }

    /// Notes a value that was stored; small ones cost a comparison.
    pub(crate) fn note(&self, entry: &[u8], size_bytes: usize, parts: u32, now: Moment) {
        if size_bytes <= self.above_bytes {
            return;
        }
        self.count.increment(1);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.biggest.retain(|(key, .., at)| key != entry && now.since(*at) < RECENT);
        seen.biggest.push((entry.to_vec(), size_bytes, parts, now));
        seen.biggest.sort_by_key(|(_, size, ..)| std::cmp::Reverse(*size));
        seen.biggest.truncate(LISTED);
        seen.unsaid += 1;
        if seen.said.is_none_or(|said| now.since(said) >= QUIET) {
            let (values, limit) = (seen.unsaid, self.above_bytes);
            let entry = String::from_utf8_lossy(entry);
            tracing::warn!(cache = self.cache, %entry, size_bytes, parts, values, limit, "big values are cached");
            (seen.said, seen.unsaid) = (Some(now), 0);
        }
    }

    /// Returns the biggest of late, the biggest first.
    pub(crate) fn biggest(&self, now: Moment) -> Vec<BigValue> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = seen.biggest.iter().filter(|(.., at)| now.since(*at) < RECENT);
        recent
            .map(|(entry, size_bytes, parts, at)| BigValue {
                entry: String::from_utf8_lossy(entry).into_owned(),
                size_bytes: *size_bytes,
                parts: *parts,
                age_millis: millis(now.since(*at)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_short_sorted_and_forgets() {
        let report = Report::new("test", 100);
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        for size in 0..1000_usize {
            report.note(&size.to_be_bytes(), size, 0, at(1));
        }
        report.note(b"again", 5000, 0, at(2));
        report.note(b"again", 300, 2, at(400));
        let sizes: Vec<usize> = report.biggest(at(500)).iter().map(|big| big.size_bytes).collect();
        assert_eq!(sizes[..2], [999, 998]);
        assert_eq!(sizes.len(), LISTED);
        let late = report.biggest(at(700));
        assert_eq!((late.len(), late[0].size_bytes, late[0].parts), (1, 300, 2));
    }
}
