//! One server and the single connection that all callers share to talk to it.
//!
//! A node connects on first use and again after a failure. There is one attempt at a time, and all
//! callers that waited for it share its outcome. The attempt runs in its own task, so a caller that
//! is cancelled does not abort it for the others. Right after a failed attempt, further callers get
//! its error at once instead of queueing for another attempt (the pause between attempts doubles up
//! to a second). While an attempt runs after a failure, they wait for it only briefly: in an outage
//! at most one caller pays the connect time-out.
//!
//! A connection is replaced when it breaks, when the server reports that it no longer accepts
//! writes, or when a reply did not arrive in time *and* nothing else arrived in the meantime. A
//! single slow command therefore does not cost all callers the connection; a silent peer does.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::future::BoxFuture;
use metrics::Counter;
use redis::{Cmd, Pipeline, Value};
use seawall_resilience::{
    Backoff,
    clock::{Clock, Moment},
};
use tokio::sync::{OwnedMutexGuard, watch};

use super::{
    dial::{Address, Dialer},
    multiplexed::{MultiplexedConnection, Pulse},
    replies::Reply,
    sentinel::Sentinels,
};
use crate::error::{Error, Result};

/// Marks an unmeasured offset; no real offset has this value.
const UNKNOWN: i64 = i64::MIN;
/// Pauses after failed attempts to connect.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(25), Duration::from_secs(1));
/// After a failed attempt, how long a caller waits for an attempt that another caller started.
const PATIENCE: Duration = Duration::from_millis(50);

/// Maximum number of clock measurements, and the round trip that is short enough to stop early.
const OFFSET_TRIES: usize = 3;
const QUICK_TRIP: Duration = Duration::from_millis(50);

/// One server.
pub struct Node {
    /// Unique among the nodes of a process; never 0.
    number: u64,
    dialer: Arc<Dialer>,
    address: ArcSwap<Address>,
    /// If present, asked for the address before each attempt.
    sentinels: Option<Arc<Sentinels>>,
    live: ArcSwapOption<MultiplexedConnection>,
    opening: Arc<tokio::sync::Mutex<()>>,
    attempts: Mutex<Attempts>,
    /// Counts opened connections.
    opened: watch::Sender<u64>,
    /// Counts address changes ordered from outside.
    aimed: watch::Sender<u64>,
    closed: AtomicBool,
    /// This server's clock minus ours, in microseconds; `UNKNOWN` before the first measurement.
    offset_micros: AtomicI64,
    connects: Counter,
    connect_failures: Counter,
}

/// Outcome of the last attempts to connect.
struct Attempts {
    not_before: Option<Moment>,
    pauses: Backoff,
    error: Option<Error>,
    ended: Option<Moment>,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts { not_before: None, pauses: PAUSES, error: None, ended: None }
    }
}

impl Attempts {
    /// Returns the error for a caller that asked at that time, or `None` if it should attempt to
    /// connect.
    fn verdict(&self, asked: Moment, now: Moment) -> Option<Error> {
        let recent = self.not_before.is_some_and(|at| now < at);
        let shared = self.ended.is_some_and(|at| asked <= at);
        if recent || shared { self.error.clone() } else { None }
    }
}

impl Node {
    pub(crate) fn new(
        dialer: Arc<Dialer>,
        address: Address,
        sentinels: Option<Arc<Sentinels>>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Node {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            dialer,
            address: ArcSwap::from_pointee(address),
            sentinels,
            live: ArcSwapOption::empty(),
            opening: Arc::default(),
            attempts: Mutex::default(),
            opened: watch::Sender::new(0),
            aimed: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            offset_micros: AtomicI64::new(UNKNOWN),
            connects: metrics::counter!("seawall_connects_total"),
            connect_failures: metrics::counter!("seawall_connect_failures_total"),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn address(&self) -> Arc<Address> {
        self.address.load_full()
    }

    /// Returns the address, after asking the sentinels if there are any.
    pub(crate) async fn confirmed_address(self: &Arc<Self>) -> Result<Arc<Address>> {
        if self.sentinels.is_some() {
            self.live().await?;
        }
        Ok(self.address())
    }

    pub(crate) fn dialer(&self) -> &Arc<Dialer> {
        &self.dialer
    }

    /// Returns a receiver that changes whenever a new connection is opened.
    pub(crate) fn opened(&self) -> watch::Receiver<u64> {
        self.opened.subscribe()
    }

    /// Returns a receiver that changes whenever another address is ordered from outside.
    pub(crate) fn aimed(&self) -> watch::Receiver<u64> {
        self.aimed.subscribe()
    }

    /// Returns this server's clock minus ours, in microseconds, as last measured.
    pub(crate) fn offset_micros(&self) -> Option<i64> {
        Some(self.offset_micros.load(Ordering::Relaxed)).filter(|offset| *offset != UNKNOWN)
    }

    /// Measures the offset between this server's clock and ours. The error is at most half the
    /// round trip, so a slow measurement is repeated.
    pub(crate) async fn measure_offset(self: &Arc<Self>, clock: &Clock) -> Result<i64> {
        let mut best: Option<(Duration, i64)> = None;
        for _ in 0..OFFSET_TRIES {
            let before = clock.now();
            let reply = self.send(&redis::cmd("TIME")).await?;
            let (seconds, micros): (i64, i64) = redis::from_redis_value(reply)?;
            let trip = clock.now().since(before);
            let middle = before + trip / 2;
            let ours = i64::try_from(middle.as_nanos() / 1000).unwrap_or(i64::MAX);
            let measured = (trip, seconds * 1_000_000 + micros - ours);
            best = Some(best.map_or(measured, |best| best.min(measured)));
            if trip <= QUICK_TRIP {
                break;
            }
        }
        let offset = best.map_or(0, |(_, offset)| offset);
        self.offset_micros.store(offset, Ordering::Relaxed);
        Ok(offset)
    }

    /// Sends one command.
    pub async fn send(self: &Arc<Self>, command: &Cmd) -> Result<Value> {
        self.fetch(command).await.map(Value::from)
    }

    /// Like [`send`](Self::send), but strings are views of the read buffer.
    pub(crate) async fn fetch(self: &Arc<Self>, command: &Cmd) -> Result<Reply> {
        let mut is_second = false;
        loop {
            let live = self.live().await?;
            let before = live.heard();
            match live.send(command).await {
                Ok(reply) => return refused(reply).inspect_err(|error| self.heed(error, &live)),
                Err(error) => self.failed(error, &live, before, &mut is_second)?,
            }
        }
    }

    /// Sends several commands in one write and returns a reply for each, or one error for all.
    pub(crate) async fn send_all(
        self: &Arc<Self>,
        commands: &Pipeline,
    ) -> Result<Vec<Result<Value>>> {
        let mut is_second = false;
        loop {
            let live = self.live().await?;
            let before = live.heard();
            match live.send_all(commands).await {
                Ok(replies) => {
                    let check = |reply| {
                        let reply = refused(reply).inspect_err(|error| self.heed(error, &live))?;
                        Ok(reply.into())
                    };
                    return Ok(replies.into_iter().map(check).collect());
                }
                Err(error) => self.failed(error, &live, before, &mut is_second)?,
            }
        }
    }

    /// Retires a connection that does not answer. Returns `Ok` if one retry on a new connection is
    /// safe: the connection had ended before anything was sent (the server restarted, or the
    /// connection was idle for a long time).
    fn failed(
        &self,
        error: Error,
        live: &Arc<MultiplexedConnection>,
        before: u64,
        is_second: &mut bool,
    ) -> Result<()> {
        let is_open = live.is_open();
        if !is_open || live.heard() == before {
            self.retire(live);
        }
        let had_ended = matches!(error, Error::Unavailable(_)) && !is_open;
        if std::mem::replace(is_second, true) || !had_ended {
            return Err(error);
        }
        Ok(())
    }

    /// Retires the connection to a server that has become a replica.
    fn heed(&self, error: &Error, live: &Arc<MultiplexedConnection>) {
        if error.is_code("READONLY") || error.is_code("MASTERDOWN") {
            self.retire(live);
        }
    }

    fn retire(&self, live: &Arc<MultiplexedConnection>) {
        let current = self.live.load();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, live)) {
            self.live.compare_and_swap(&current, None);
        }
    }

    /// Moves to another address. Commands on the old connection are not awaited; an attempt to
    /// connect starts again.
    pub(crate) fn retarget(&self, address: Address) {
        self.address.store(Arc::new(address));
        self.live.store(None);
        *self.attempts() = Attempts::default();
        self.aimed.send_modify(|count| *count += 1);
    }

    /// Closes the connection permanently.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.live.store(None);
        // Lets a running attempt notice that it is no longer needed.
        self.aimed.send_modify(|count| *count += 1);
    }

    /// Returns `true` if there is a connection and no failure of it is known.
    pub(crate) fn is_connected(&self) -> bool {
        self.live.load().is_some()
    }

    /// Returns the activity counters of the current connection, or `None` if there is none.
    pub(crate) fn pulse(&self, look: bool) -> Option<Pulse> {
        let live = self.live.load();
        let live = live.as_ref()?;
        let pulse = live.pulse();
        if look {
            live.look();
        }
        Some(pulse)
    }

    /// Connects in advance, so that the first command need not.
    pub(crate) async fn warm_up(self: &Arc<Self>) {
        if let Err(error) = self.live().await {
            tracing::debug!(address = ?self.address, %error, "no connection ahead of time");
        }
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn live(self: &Arc<Self>) -> Result<Arc<MultiplexedConnection>> {
        if let Some(live) = self.live.load_full() {
            return Ok(live);
        }
        let (clock, asked) = (&self.dialer.clock, self.dialer.clock.now());
        let failed = self.attempts().error.clone();
        let gate = Arc::clone(&self.opening).lock_owned();
        let one_at_a_time = match failed {
            None => gate.await,
            Some(error) => clock.timeout(PATIENCE, gate).await.ok_or(error)?,
        };
        if let Some(live) = self.live.load_full() {
            return Ok(live);
        }
        if let Some(error) = self.attempts().verdict(asked, clock.now()) {
            return Err(error);
        }
        // The task ends by itself: within the connect time-out, or at once when the node is closed.
        // It runs on the handle's own runtime, because the connection outlives the caller's.
        let attempt = self.dialer.home.spawn(Arc::clone(self).attempt_alone(one_at_a_time));
        attempt.await.unwrap_or(Err(Error::Closed))
    }

    /// Boxed, because an attempt may ask the sentinels, which are nodes themselves.
    fn attempt_alone(
        self: Arc<Self>,
        one_at_a_time: OwnedMutexGuard<()>,
    ) -> BoxFuture<'static, Result<Arc<MultiplexedConnection>>> {
        Box::pin(async move {
            let outcome = self.attempt().await;
            drop(one_at_a_time);
            outcome
        })
    }

    /// Makes one attempt to connect and records its outcome.
    async fn attempt(&self) -> Result<Arc<MultiplexedConnection>> {
        let opened = self.open_where_aimed().await;
        let mut attempts = self.attempts();
        match opened {
            Ok(connection) => {
                *attempts = Attempts::default();
                let live = Arc::new(connection);
                self.live.store(Some(Arc::clone(&live)));
                // Checked after the connection is stored. `close` works in the opposite order, so
                // one of the two sees the other.
                if self.closed.load(Ordering::SeqCst) {
                    self.live.store(None);
                    return Err(Error::Closed);
                }
                self.opened.send_modify(|count| *count += 1);
                self.dialer.connections.send_modify(|count| *count += 1);
                self.connects.increment(1);
                Ok(live)
            }
            Err(error) => {
                let now = self.dialer.clock.now();
                attempts.not_before = Some(now + attempts.pauses.pause());
                attempts.ended = Some(now);
                attempts.error = Some(error.clone());
                self.connect_failures.increment(1);
                tracing::debug!(address = ?self.address, %error, "cannot connect");
                Err(error)
            }
        }
    }

    /// Makes one attempt, restarted whenever the address changes; each restart takes a fail-over.
    async fn open_where_aimed(&self) -> Result<MultiplexedConnection> {
        let mut aimed = self.aimed.subscribe();
        loop {
            if self.closed.load(Ordering::SeqCst) {
                return Err(Error::Closed);
            }
            tokio::select! {
                biased;
                // Before the connection: one to the former address is of no use.
                _ = aimed.changed() => {}
                opened = self.open() => return opened,
            }
        }
    }

    async fn open(&self) -> Result<MultiplexedConnection> {
        if let Some(sentinels) = &self.sentinels {
            let address = sentinels.primary().await?;
            self.address.store(Arc::new(Address::Tcp(address)));
        }
        self.dialer.shared(&self.address.load()).await
    }
}

/// Converts an error reply to an error.
pub(super) fn refused(reply: Reply) -> Result<Reply> {
    match reply {
        Reply::Other(Value::ServerError(error)) => {
            Err(Error::replied(error.code(), error.details().unwrap_or_default()))
        }
        reply => Ok(reply),
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("address", &self.address.load()).finish_non_exhaustive()
    }
}
