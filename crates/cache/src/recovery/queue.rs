//! Keeps invalidations that Redis did not take, until it does.
//!
//! The queue is a set: invalidating twice is the same as once. While an entry is in it this process
//! reads it past the cache. With a [`RecoveryLog`] it survives a restart; what others add to the log is
//! found there too. `task.rs` carries it out.
//!
//! Adding to the queue itself never waits, so that a caller that goes away can do it as well; a caller
//! that promises something waits until the log has it.
//!
//! Invariant: what was added before [`RecoveryQueue::end`] is carried out, or stays in the log, or was
//! reported as lost; after it nothing is taken but by the log.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall_client::error::{Error, Result};
use seawall_resilience::clock::{Clock, Moment};
use tokio::sync::Notify;

use crate::{
    recovery::backlog::{Batch, Bump, Queue, Waiting},
    recovery::log::{LogFuture, RecoveryLog, RecoveryRow},
    store::keys::Names,
};

/// How long a caller, or the queue itself, waits for an answer of the log.
const LOG_PATIENCE: Duration = Duration::from_secs(10);
/// Rows that are read from the log at a time.
const PAGE: usize = 1000;

/// The queue of one cache.
pub(crate) struct RecoveryQueue {
    pub(crate) cache: String,
    entry_prefix: Vec<u8>,
    state: Mutex<State>,
    /// How many there are: so that readers need no lock when there is none.
    count: AtomicUsize,
    pub(crate) log: Option<Arc<dyn RecoveryLog>>,
    clock: Clock,
    /// Measures how long a caller waits for the log.
    network_clock: Clock,
    pub(crate) added: Notify,
    /// There is something to write into the log.
    pub(crate) unwritten: Notify,
    /// Additions up to this number are in the log, or could not be written.
    written: AtomicU64,
    /// Wakes those who wait for that, in the order in which they came.
    wrote: Notify,
}

struct State {
    queue: Queue,
    /// To be added at these moments, in their order.
    later: VecDeque<(Moment, Later)>,
    /// How many entries these are.
    later_entries: usize,
    limit: usize,
    /// Entries that the log does not have yet.
    unwritten: Vec<Vec<u8>>,
    /// Counts what was put there.
    writes: u64,
    /// The log was not read yet: anything may be in it.
    unread: bool,
    /// Something of ours was written into the log since it was last read.
    is_due: bool,
    /// Where the next page of the log begins.
    after: u64,
    ended: bool,
}

/// What is to be added later.
enum Later {
    Entries(Vec<Vec<u8>>),
    /// There were more of them than are kept one by one.
    Everything,
}

impl RecoveryQueue {
    pub(crate) fn open(
        names: &Names,
        limit: usize,
        log: Option<Arc<dyn RecoveryLog>>,
        (clock, network_clock): (&Clock, &Clock),
    ) -> Arc<Self> {
        let unread = log.is_some();
        Arc::new(RecoveryQueue {
            cache: names.name().to_owned(),
            entry_prefix: names.entry_prefix().to_vec(),
            state: Mutex::new(State {
                queue: Queue::new(limit),
                later: VecDeque::new(),
                later_entries: 0,
                limit,
                unwritten: Vec::new(),
                writes: 0,
                unread,
                is_due: false,
                after: 0,
                ended: false,
            }),
            count: AtomicUsize::new(usize::from(unread)),
            log,
            clock: clock.clone(),
            network_clock: network_clock.clone(),
            added: Notify::new(),
            unwritten: Notify::new(),
            written: AtomicU64::new(0),
            wrote: Notify::new(),
        })
    }

    /// Returns whether this entry waits for its invalidation, as far as is known: nothing is before the
    /// log was read.
    pub(crate) fn concerns(&self, entry: &[u8]) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let state = self.lock();
        state.unread || state.queue.concerns(entry)
    }

    /// Returns whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Returns how many wait; one for "every entry".
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Returns whether nothing would carry out what is added.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Queues entries at once. The returned future waits until the log has them.
    ///
    /// # Errors
    /// [`Error::Closed`] when nothing will ever carry them out.
    pub(crate) fn add(&self, entries: Vec<Vec<u8>>) -> impl Future<Output = Result<()>> {
        let queued = self.queue(entries);
        async move {
            let number = match queued {
                Ok(number) => number,
                Err(entries) => {
                    let log = self.log.as_ref().ok_or(Error::Closed)?;
                    let added = self.in_time(log.add(&self.cache, &entries)).await;
                    return added.map_err(|error| {
                        tracing::error!(cache = self.cache, %error, "an invalidation is lost");
                        Error::Closed
                    });
                }
            };
            if self.log.is_some() {
                let written = self.written_up_to(number);
                if self.network_clock.timeout(LOG_PATIENCE, written).await.is_none() {
                    let cache = &self.cache;
                    tracing::error!(
                        cache,
                        "the recovery log does not answer: a restart would lose an invalidation"
                    );
                }
            }
            Ok(())
        }
    }

    /// Waits until additions up to this number are in the log, or could not be written.
    async fn written_up_to(&self, number: u64) {
        loop {
            // Notices what is written after it was made, also before it is polled.
            let wrote = self.wrote.notified();
            if self.written.load(Ordering::Acquire) >= number {
                return;
            }
            wrote.await;
        }
    }

    /// Queues entries for a caller that cannot wait.
    pub(crate) fn add_now(&self, entries: Vec<Vec<u8>>) {
        let Err(entries) = self.queue(entries) else { return };
        if let (Some(log), Ok(runtime)) = (&self.log, tokio::runtime::Handle::try_current()) {
            let (log, cache) = (Arc::clone(log), self.cache.clone());
            runtime.spawn(async move {
                if let Err(error) = log.add(&cache, &entries).await {
                    tracing::error!(cache, %error, "an invalidation is lost");
                }
            });
            return;
        }
        tracing::error!(cache = self.cache, "an invalidation is lost: the handle was shut down");
    }

    /// Queues entries, the log included. Returns the number to wait for, or the entries after the end.
    fn queue(&self, entries: Vec<Vec<u8>>) -> std::result::Result<u64, Vec<Vec<u8>>> {
        let mut state = self.lock();
        if state.ended {
            return Err(entries);
        }
        if self.log.is_some() {
            state.unwritten.extend(entries.iter().cloned());
            state.writes += 1;
        }
        let number = state.writes;
        let too_much = state.queue.extend(entries);
        self.tell(state, too_much);
        if self.log.is_some() {
            self.unwritten.notify_one();
        }
        Ok(number)
    }

    /// Queues what was acknowledged once and may have been forgotten; the log need not have it.
    pub(crate) fn repeat(&self, entries: Vec<Vec<u8>>, bumps: Vec<Bump>) {
        let mut state = self.lock();
        if state.ended {
            drop(state);
            tracing::error!(
                cache = self.cache,
                "an invalidation is lost: the handle was shut down"
            );
            return;
        }
        let mut too_much = !entries.is_empty() && state.queue.extend(entries);
        for bump in bumps {
            too_much |= state.queue.bump(bump);
        }
        self.tell(state, too_much);
    }

    /// Queues the end of a generation, for a caller that cannot wait. Logs have no rows for it.
    pub(crate) fn bump_now(&self, bump: Bump) {
        self.repeat(Vec::new(), vec![bump]);
    }

    /// Queues entries at that moment, or at the end if that comes first.
    pub(crate) fn add_later(&self, at: Moment, entries: Vec<Vec<u8>>) {
        let mut state = self.lock();
        state.later_entries += entries.len();
        // The delay is the same for all of them.
        state.later.push_back((at, Later::Entries(entries)));
        if state.later_entries > state.limit {
            state.later.clear();
            state.later_entries = 0;
            state.later.push_back((at, Later::Everything));
        }
        drop(state);
        self.added.notify_one();
    }

    /// Queues what is due by now. Returns when the next one is due.
    pub(crate) fn take_due(&self, now: Moment, all: bool) -> Option<Moment> {
        let mut state = self.lock();
        let mut too_much = false;
        while state.later.front().is_some_and(|(at, _)| all || *at <= now) {
            let Some((_, later)) = state.later.pop_front() else { break };
            match later {
                Later::Entries(entries) => {
                    state.later_entries -= entries.len();
                    too_much |= state.queue.extend(entries);
                }
                Later::Everything => {
                    state.queue.collapse();
                    too_much = true;
                }
            }
        }
        let next = state.later.front().map(|(at, _)| *at);
        self.publish(state, too_much);
        next
    }

    fn tell(&self, state: MutexGuard<'_, State>, too_much: bool) {
        self.publish(state, too_much);
        self.added.notify_one();
    }

    fn publish(&self, state: MutexGuard<'_, State>, too_much: bool) {
        self.count.store(state.queue.len() + usize::from(state.unread), Ordering::Release);
        drop(state);
        if too_much {
            tracing::warn!(
                cache = self.cache,
                "too many invalidations wait for Redis: all entries will be invalidated"
            );
        }
    }

    pub(crate) fn next_batch(&self) -> Batch {
        self.lock().queue.next_batch()
    }

    /// Forgets what was carried out. Returns the rows to remove from the log.
    pub(crate) fn done(&self, batch: Batch) -> Vec<u64> {
        let mut state = self.lock();
        let rows = state.queue.done(batch);
        self.publish(state, false);
        rows
    }

    pub(crate) fn failed(&self, entries: &[(Vec<u8>, Waiting)]) {
        self.lock().queue.failed(entries);
    }

    /// Ends the queue if it is empty, or `at_any_rate`. Returns whether it ended.
    pub(crate) fn end(&self, at_any_rate: bool) -> bool {
        let mut state = self.lock();
        let left = state.queue.len();
        if left > 0 && !at_any_rate {
            return false;
        }
        state.ended = true;
        drop(state);
        if left > 0 && self.log.is_none() {
            let cache = &self.cache;
            tracing::error!(cache, left, "Redis is away at the end: invalidations are lost");
        }
        self.unwritten.notify_one();
        true
    }

    /// Ends the queue because its tasks are gone, with the runtime that they ran on.
    pub(crate) fn abandon(&self) {
        self.end(true);
        self.written.store(u64::MAX, Ordering::Release);
        self.wrote.notify_waiters();
    }

    /// Returns what the log does not have yet and still needs, with the number that covers it; `None`
    /// at the end.
    pub(crate) fn take_unwritten(&self) -> Option<(Vec<Vec<u8>>, u64)> {
        let mut state = self.lock();
        let mut entries = std::mem::take(&mut state.unwritten);
        // What was carried out meanwhile needs no row; "every entry" may stand for any of them.
        if state.queue.room() > 0 {
            entries.retain(|entry| state.queue.has(entry));
        }
        if entries.is_empty() && state.ended {
            return None;
        }
        Some((entries, state.writes))
    }

    /// Notes that additions up to this number were written. Those that failed are tried again.
    pub(crate) fn wrote(&self, number: u64, failed: Vec<Vec<u8>>) {
        let mut state = self.lock();
        state.is_due = true;
        if !state.ended {
            state.unwritten.extend(failed);
        }
        drop(state);
        self.written.fetch_max(number, Ordering::AcqRel);
        self.wrote.notify_waiters();
    }

    /// Returns whether the log has something that only reading it takes away.
    pub(crate) fn log_is_due(&self) -> bool {
        let state = self.lock();
        state.unread || state.is_due && state.queue.room() > 0
    }

    /// Waits for an answer of the log, with a time limit: it may be a database that hangs.
    pub(crate) async fn in_time<T>(&self, answer: LogFuture<'_, T>) -> io::Result<T> {
        let answered = self.clock.timeout(LOG_PATIENCE, answer).await;
        answered.unwrap_or_else(|| {
            let text = format!("the recovery log did not answer within {LOG_PATIENCE:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
    }

    /// Reads a page of the log; all of it the first time.
    pub(crate) async fn read_log(self: Arc<Self>) -> io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        // Each turn but the last takes a page of room.
        loop {
            let (after, asked, first) = {
                let mut state = self.lock();
                state.is_due = false;
                (state.after, state.queue.room().min(PAGE), state.unread)
            };
            let rows = match asked {
                0 => Vec::new(),
                _ => self.in_time(log.load(&self.cache, after, asked)).await?,
            };
            let (is_last, last) = (rows.len() < asked, rows.last().map_or(0, |row| row.id));
            let rows = rows.into_iter().filter(|row| self.is_ours(row)).collect();
            let mut state = self.lock();
            state.after = if is_last { 0 } else { last };
            let mut too_much = state.queue.extend_by_rows(rows);
            if first && asked == 0 {
                // More rows than may wait: the others are carried out page by page after this.
                state.queue.collapse();
                too_much = true;
            }
            state.unread &= !(is_last || asked == 0);
            let more = state.unread;
            self.publish(state, too_much);
            if !more {
                return Ok(());
            }
        }
    }

    /// Returns whether a row speaks of an entry of this cache. Another key is not ours to delete; the
    /// row stays.
    fn is_ours(&self, row: &RecoveryRow) -> bool {
        let is_ours = row.entry.is_empty() || row.entry.starts_with(&self.entry_prefix);
        if !is_ours {
            let (cache, entry) = (&self.cache, row.entry.escape_ascii());
            tracing::error!(cache, row = row.id, %entry, "no entry of this cache: use `entry_name`");
        }
        is_ours
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
