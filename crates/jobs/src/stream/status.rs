//! The state of a worker and its group: counted here, queried from Redis, and shown as metrics.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use metrics::{Counter, Histogram};
use redis::{Value, cmd};
use seawall_client::error::{Error, Result};

use super::producer::Core;

/// Counts of a worker since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Entries that were handled and acknowledged.
    pub handled: u64,
    /// Attempts that have to be repeated.
    pub retried: u64,
    /// Entries that became dead letters.
    pub dead_letters: u64,
    /// Entries that were taken over from other workers, or from an earlier run of this worker.
    pub taken_over: u64,
}

/// State of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// State of each of its streams.
    pub streams: Vec<StreamStatus>,
    /// Counts of this worker.
    pub counts: Counts,
    /// Entries that it is working on.
    pub in_hand: usize,
    /// Entries that it will try again.
    pub waiting: usize,
}

/// State of a group on one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamStatus {
    /// The stream's name.
    pub stream: String,
    /// Entries in the stream, including settled ones.
    pub length: u64,
    /// Entries that were not delivered to the group yet.
    ///
    /// Unknown before Redis 7.0, and after entries were deleted from the middle of the stream.
    pub lag: Option<u64>,
    /// Entries that were delivered to any worker and not settled.
    pub pending: u64,
    /// Workers that the group knows, including dead ones.
    pub consumers: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// Queries Redis.
pub(super) async fn ask<T>(stream: &Core<T>, group: &str) -> Result<StreamStatus> {
    let key = || stream.key.clone();
    let commands = vec![
        (key(), cmd("XLEN").arg(&stream.key).to_owned()),
        (key(), cmd("XLEN").arg(&stream.parked).to_owned()),
        (key(), cmd("XINFO").arg("GROUPS").arg(&stream.key).to_owned()),
    ];
    let replies = stream.client.send_all(commands).await;
    let [length, parked, groups]: [Result<Value>; 3] =
        replies.try_into().map_err(|_| Error::unexpected("three replies were asked for"))?;
    let mut status = StreamStatus {
        stream: stream.name.to_string(),
        length: redis::from_redis_value(length?)?,
        lag: None,
        pending: 0,
        consumers: 0,
        dead_letters: redis::from_redis_value(parked?)?,
    };
    if let Some(info) = find_group(groups, group)? {
        let number = |name: &str| -> Result<Option<u64>> {
            info.get(name).map_or(Ok(None), |value| Ok(redis::from_redis_value_ref(value)?))
        };
        status.lag = number("lag")?;
        status.pending = number("pending")?.unwrap_or(0);
        status.consumers = number("consumers")?.unwrap_or(0);
    }
    Ok(status)
}

/// Returns the group's part of `XINFO GROUPS`, or `None` if the group or the stream does not exist.
pub(super) fn find_group(
    groups: Result<Value>,
    group: &str,
) -> Result<Option<HashMap<String, Value>>> {
    let groups: Vec<HashMap<String, Value>> = match groups {
        Ok(groups) => redis::from_redis_value(groups)?,
        Err(Error::Refused { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    for info in groups {
        let name: Option<String> = info.get("name").map(redis::from_redis_value_ref).transpose()?;
        if name.as_deref() == Some(group) {
            return Ok(Some(info));
        }
    }
    Ok(None)
}

/// Counts of one worker, here and in the metrics.
pub(super) struct Meter {
    group: String,
    handled: (AtomicU64, Counter),
    retried: (AtomicU64, Counter),
    parked: (AtomicU64, Counter),
    taken_over: (AtomicU64, Counter),
    pub(super) handler_seconds: Histogram,
    pub(super) delay_seconds: Histogram,
}

impl Meter {
    pub(super) fn new(group: &str) -> Self {
        let of = |outcome: &'static str| {
            let counter = metrics::counter!("seawall_stream_entries_total", "group" => group.to_owned(), "outcome" => outcome);
            (AtomicU64::new(0), counter)
        };
        let seconds = |name: &'static str| metrics::histogram!(name, "group" => group.to_owned());
        Meter {
            handler_seconds: seconds("seawall_stream_handler_seconds"),
            delay_seconds: seconds("seawall_stream_delay_seconds"),
            group: group.to_owned(),
            handled: of("handled"),
            retried: of("retried"),
            parked: of("parked"),
            taken_over: of("taken_over"),
        }
    }

    pub(super) fn handled(&self, count: usize) {
        add(&self.handled, count);
    }

    pub(super) fn retried(&self, count: usize) {
        add(&self.retried, count);
    }

    pub(super) fn parked(&self, count: usize) {
        add(&self.parked, count);
    }

    pub(super) fn taken_over(&self, count: usize) {
        add(&self.taken_over, count);
    }

    pub(super) fn counts(&self) -> Counts {
        Counts {
            handled: self.handled.0.load(Ordering::Relaxed),
            retried: self.retried.0.load(Ordering::Relaxed),
            dead_letters: self.parked.0.load(Ordering::Relaxed),
            taken_over: self.taken_over.0.load(Ordering::Relaxed),
        }
    }

    /// Sets the gauges of a stream from its status.
    pub(super) fn show(&self, status: &StreamStatus) {
        let set = |name: &'static str, value: u64| {
            let labels = [("group", self.group.clone()), ("stream", status.stream.clone())];
            metrics::gauge!(name, &labels).set(value as f64);
        };
        set("seawall_stream_pending", status.pending);
        set("seawall_stream_parked", status.dead_letters);
        set("seawall_stream_length", status.length);
        if let Some(lag) = status.lag {
            set("seawall_stream_lag", lag);
        }
    }
}

fn add((sum, counter): &(AtomicU64, Counter), count: usize) {
    if count > 0 {
        sum.fetch_add(count as u64, Ordering::Relaxed);
        counter.increment(count as u64);
    }
}
