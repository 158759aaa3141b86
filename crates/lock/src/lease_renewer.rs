//! Renews leases in batches, and releases locks whose guards were dropped.
//!
//! There is one task per handle, started with the first lock. All its state is behind one mutex, so
//! adding, removing and choosing what to renew are serialised: a hold that is being released is
//! removed first and is in no later batch. A batch that was already in transit when the release was
//! sent does no harm, because a renewal never creates anything and names a hold id that is never
//! reused.
//!
//! A lease is renewed when a third of it has passed. To renew many together, a tick includes every
//! hold of which a sixth has passed: holds with the same lease cost at most one tick per sixth of
//! the lease, and a tick for 10,000 holds costs 79 commands. On a Cluster, where a call reaches one
//! slot, a tick is one pipeline per node.
//!
//! A failed renewal is retried soon, until the hold is lost by time. No `Drop` spawns a task; it
//! leaves the work to this one.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram};
use seawall_client::{
    Handle,
    client::{Client, Topology},
};
use seawall_resilience::clock::{Clock, Moment};
use tokio::sync::{Notify, watch};

use super::{
    hold::Hold,
    line::Lines,
    request::{self, LockRequest},
};

/// Holds that one call renews if all keys are on one server.
const AT_ONCE: usize = 128;
/// Divisors of the lease: when it must be renewed, when it may be renewed along with others, and
/// the delay before a failed renewal is retried.
const RENEW_AFTER: u32 = 3;
const TAKE_ALONG_AFTER: u32 = 6;
const RETRY_AFTER: u32 = 12;
/// Delay before a failed release is retried.
const RELEASE_PAUSE: Duration = Duration::from_millis(200);

/// The lease renewer of one handle.
pub(crate) struct LeaseRenewer {
    client: Client,
    clock: Clock,
    book: Mutex<Book>,
    wake: Notify,
    pub(super) lines: Arc<Lines>,
    pub(super) metrics: Arc<Metrics>,
}

/// The work of the lease renewer.
#[derive(Default)]
struct Book {
    renewed: BTreeMap<u64, Entry>,
    next_id: u64,
    /// When the task plans to wake up; `None` if it has no reason to.
    planned: Option<Moment>,
    given_up: Vec<GivenUp>,
}

struct Entry {
    hold: Arc<Hold>,
    /// When the hold must be renewed, and from when on it may be renewed along with others.
    due: Moment,
    along: Moment,
}

impl Entry {
    fn new(hold: Arc<Hold>) -> Self {
        Entry { due: hold.passed(RENEW_AFTER), along: hold.passed(TAKE_ALONG_AFTER), hold }
    }
}

/// A request to release, until the server has dropped it anyway.
struct GivenUp {
    request: LockRequest,
    until: Moment,
}

/// A hold that is being renewed, with the lease to request.
struct Due {
    id: u64,
    hold: Arc<Hold>,
    lease: Duration,
}

/// Identifies a hold that is being renewed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket(u64);

/// Metrics of locks.
pub(super) struct Metrics {
    pub(super) acquired: Counter,
    pub(super) busy: Counter,
    pub(super) released: Counter,
    pub(super) lost: Counter,
    pub(super) wait_seconds: Histogram,
    pub(super) hold_seconds: Histogram,
    renewals: Counter,
    renewal_failures: Counter,
    renewed: Gauge,
}

impl LeaseRenewer {
    /// Returns the lease renewer of a handle. Its task starts with the first use.
    pub(super) fn of(handle: &Handle) -> Arc<Self> {
        handle.slot(|| Self::start(handle))
    }

    fn start(handle: &Handle) -> Arc<Self> {
        handle.needs_every_key("locks");
        let renewer = Arc::new(LeaseRenewer {
            client: handle.client().clone(),
            clock: handle.clock().clone(),
            book: Mutex::default(),
            wake: Notify::new(),
            lines: Arc::default(),
            metrics: Arc::new(Metrics {
                acquired: metrics::counter!("seawall_lock_acquired_total"),
                busy: metrics::counter!("seawall_lock_busy_total"),
                released: metrics::counter!("seawall_lock_released_total"),
                lost: metrics::counter!("seawall_lock_lost_total"),
                wait_seconds: metrics::histogram!("seawall_lock_wait_seconds"),
                hold_seconds: metrics::histogram!("seawall_lock_hold_seconds"),
                renewals: metrics::counter!("seawall_lock_renewals_total"),
                renewal_failures: metrics::counter!("seawall_lock_renewal_failures_total"),
                renewed: metrics::gauge!("seawall_lock_renewed"),
            }),
        });
        handle.spawn_at_home(Arc::clone(&renewer).run(handle.stopping()));
        renewer
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to renew a hold.
    pub(super) fn keep(&self, hold: &Arc<Hold>) -> Ticket {
        let entry = Entry::new(Arc::clone(hold));
        let due = entry.due;
        let mut book = self.book();
        let id = book.next_id;
        book.next_id += 1;
        book.renewed.insert(id, entry);
        self.plan_for(book, due);
        self.metrics.renewed.increment(1.0);
        Ticket(id)
    }

    /// Reschedules a hold after its lease has changed.
    pub(super) fn keep_anew(&self, ticket: Ticket) {
        let mut book = self.book();
        // The hold may have been lost, and so removed, in the meantime.
        let Some(entry) = book.renewed.get_mut(&ticket.0) else { return };
        *entry = Entry::new(Arc::clone(&entry.hold));
        let due = entry.due;
        self.plan_for(book, due);
    }

    /// Wakes the task if it would wake up too late for `due`.
    fn plan_for(&self, mut book: MutexGuard<'_, Book>, due: Moment) {
        if book.planned.is_none_or(|planned| due < planned) {
            book.planned = Some(due);
            drop(book);
            self.wake.notify_one();
        }
    }

    /// Stops renewing a hold.
    pub(super) fn stop_keeping(&self, ticket: Ticket) {
        if self.book().renewed.remove(&ticket.0).is_some() {
            self.metrics.renewed.decrement(1.0);
        }
    }

    /// Releases a request as soon as possible, whether or not the server knows of it. Stops at
    /// `until`, when the server has dropped it anyway.
    pub(super) fn give_up(&self, request: LockRequest, until: Moment) {
        self.book().given_up.push(GivenUp { request, until });
        self.wake.notify_one();
    }

    /// Returns the number of holds that are currently renewed.
    pub(super) fn renewed_count(&self) -> usize {
        self.book().renewed.len()
    }

    async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            self.release_given_up().await;
            self.renew_due().await;
            let next = self.plan_next();
            let pause = async {
                match next {
                    Some(next) => self.clock.sleep_until_lease(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.wake.notified() => {}
                () = pause => {}
            }
        }
        // Remaining holders learn of the loss from their own clock; dropped locks are released now.
        self.release_given_up().await;
    }

    fn plan_next(&self) -> Option<Moment> {
        let retry = self.clock.lease_now() + RELEASE_PAUSE;
        let mut book = self.book();
        let due = book.renewed.values().map(|entry| entry.due).min();
        book.planned = due;
        let retry = (!book.given_up.is_empty()).then_some(retry);
        due.into_iter().chain(retry).min()
    }

    async fn release_given_up(&self) {
        let given_up = std::mem::take(&mut self.book().given_up);
        if given_up.is_empty() {
            return;
        }
        let calls: Vec<_> = given_up.iter().map(|given_up| given_up.request.release()).collect();
        let replies = self.client.run_all(&calls).await;
        let now = self.clock.lease_now();
        let again = given_up.into_iter().zip(replies).filter(|(given_up, reply)| {
            let failed = reply.as_ref().is_err_and(seawall_client::Error::is_outage);
            failed && now < given_up.until
        });
        let again: Vec<_> = again.map(|(given_up, _)| given_up).collect();
        self.book().given_up.extend(again);
    }

    async fn renew_due(&self) {
        let due = self.take_due();
        if due.is_empty() {
            return;
        }
        let at_once = if self.client.topology() == Topology::Cluster { 1 } else { AT_ONCE };
        let calls: Vec<_> = due
            .chunks(at_once)
            .map(|chunk| {
                let holds: Vec<_> =
                    chunk.iter().map(|due| (&due.hold.request, due.lease)).collect();
                request::renew(&holds)
            })
            .collect();
        let before = self.clock.lease_now();
        let replies = self.client.run_all(&calls).await;
        self.metrics.renewals.increment(due.len() as u64);
        for (chunk, reply) in due.chunks(at_once).zip(replies) {
            match reply.and_then(|reply| Ok(redis::from_redis_value::<Vec<i64>>(reply)?)) {
                Ok(renewed) => self.judge(chunk, &renewed, before),
                Err(error) => {
                    self.metrics.renewal_failures.increment(chunk.len() as u64);
                    tracing::warn!(%error, holds = chunk.len(), "leases could not be renewed");
                    self.postpone(chunk);
                }
            }
        }
    }

    /// Returns the holds to renew now: all that are old enough, if one of them is due. Removes
    /// holds that were lost in the meantime.
    fn take_due(&self) -> Vec<Due> {
        let now = self.clock.lease_now();
        let mut book = self.book();
        if !book.renewed.values().any(|entry| entry.due <= now) {
            return Vec::new();
        }
        let mut lost = 0;
        book.renewed.retain(|_, entry| {
            let is_lost = entry.hold.is_lost();
            lost += u32::from(is_lost);
            !is_lost
        });
        let old = book.renewed.iter().filter(|(_, entry)| entry.along <= now);
        let due = old.map(|(id, entry)| {
            let hold = Arc::clone(&entry.hold);
            Due { id: *id, lease: hold.lease(), hold }
        });
        let due = due.collect();
        drop(book);
        self.metrics.renewed.decrement(f64::from(lost));
        due
    }

    fn judge(&self, chunk: &[Due], renewed: &[i64], before: Moment) {
        for (index, Due { id, hold, lease }) in chunk.iter().enumerate() {
            let done = renewed.get(index) == Some(&1) && hold.confirm_renewal(before, *lease);
            let mut book = self.book();
            // The hold may have been released while the renewal was in transit; that is not a loss.
            let Some(entry) = book.renewed.get_mut(id) else { continue };
            if done {
                *entry = Entry::new(Arc::clone(hold));
                continue;
            }
            book.renewed.remove(id);
            drop(book);
            self.metrics.renewed.decrement(1.0);
            hold.lose();
            tracing::warn!(key = %hold.request.options.key.escape_ascii(), "a lock was lost");
        }
    }

    fn postpone(&self, chunk: &[Due]) {
        let now = self.clock.lease_now();
        let mut book = self.book();
        for Due { id, hold, .. } in chunk {
            if let Some(entry) = book.renewed.get_mut(id) {
                entry.due = now + hold.lease() / RETRY_AFTER;
                entry.along = entry.due;
            }
        }
    }
}

impl std::fmt::Debug for LeaseRenewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseRenewer")
            .field("renewed", &self.renewed_count())
            .finish_non_exhaustive()
    }
}
