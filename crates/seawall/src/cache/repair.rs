//! Invalidations that Redis did not take, kept until it does.
//!
//! The queue is a set of entries: invalidating twice is the same as once. While an entry is in it
//! this process reads it past the cache. With a [`RepairLog`] it survives a restart; a database with
//! an outbox table is the best one, because it can be written in the transaction of the change
//! itself.
//!
//! The set is bounded, by number and by bytes. What does not fit is not forgotten: the set collapses
//! into "every entry", this process reads all keys past the cache, and when Redis answers the whole
//! namespace is invalidated (`sweep.rs`). That costs loads, never a promise.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, watch};

use super::{
    level2::Level2,
    messages::about_keys,
    repair_log::RepairLog,
    sweep::{Sweep, sweep},
};
use crate::{
    clock::Clock,
    error::{Error, Result},
};

/// How many entries are replayed in one go.
const BATCH: usize = 256;
/// How many bytes of entries are kept.
const MAX_BYTES: usize = 32 << 20;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// What stands for every entry in a [`RepairLog`].
const EVERYTHING: &[u8] = b"";

/// Entries, each with the number of its last addition: one that is added again while it is being
/// replayed stays.
struct Queue {
    entries: BTreeMap<Vec<u8>, u64>,
    bytes: usize,
    limit: usize,
    /// Set when every entry has to be invalidated: the number of the addition that was too much.
    everything: Option<u64>,
    additions: u64,
}

/// What is to be invalidated next.
#[derive(Debug, PartialEq, Eq)]
enum Batch {
    Nothing,
    /// These, each with its number.
    Entries(Vec<(Vec<u8>, u64)>),
    /// Every entry, which covers all additions up to this one.
    Everything(u64),
}

impl Queue {
    fn new(limit: usize) -> Self {
        Queue { entries: BTreeMap::new(), bytes: 0, limit, everything: None, additions: 0 }
    }

    /// Adds entries; whether they were too much.
    fn extend(&mut self, entries: Vec<Vec<u8>>) -> bool {
        self.additions += 1;
        let mut too_much = false;
        for entry in entries {
            if entry == EVERYTHING {
                too_much = true;
                continue;
            }
            let bytes = entry.len();
            if self.entries.insert(entry, self.additions).is_none() {
                self.bytes += bytes;
            }
        }
        too_much |= self.entries.len() > self.limit || self.bytes > MAX_BYTES;
        if too_much {
            (self.entries, self.bytes) = (BTreeMap::new(), 0);
            self.everything = Some(self.additions);
        }
        too_much
    }

    fn next_batch(&self) -> Batch {
        if self.everything.is_some() {
            return Batch::Everything(self.additions);
        }
        let some = self.entries.iter().take(BATCH);
        let some: Vec<_> = some.map(|(entry, number)| (entry.clone(), *number)).collect();
        if some.is_empty() { Batch::Nothing } else { Batch::Entries(some) }
    }

    fn done(&mut self, batch: &Batch) {
        match batch {
            Batch::Nothing => {}
            Batch::Entries(entries) => {
                for (entry, number) in entries {
                    if self.entries.get(entry) == Some(number) {
                        self.entries.remove(entry);
                    }
                }
            }
            Batch::Everything(covered) => {
                self.everything = self.everything.filter(|number| number > covered);
                self.entries.retain(|_, number| *number > *covered);
            }
        }
        self.bytes = self.entries.keys().map(Vec::len).sum();
    }

    fn len(&self) -> usize {
        self.entries.len() + usize::from(self.everything.is_some())
    }

    /// What a log has to keep.
    fn left(&self) -> Vec<Vec<u8>> {
        let everything = self.everything.map(|_| EVERYTHING.to_vec());
        everything.into_iter().chain(self.entries.keys().cloned()).collect()
    }
}

/// The queue of one cache.
pub(super) struct Repairs {
    cache: String,
    queue: Mutex<Queue>,
    /// How many there are: so that readers need no lock when there is none.
    count: AtomicUsize,
    log: Option<Arc<dyn RepairLog>>,
    /// Held while log and queue are changed together: what is added to the log must not be taken out
    /// of it by a batch that ends before it is in the queue. Readers do not take it. How many entries
    /// the log has.
    logged: Mutex<usize>,
    added: Notify,
}

impl Repairs {
    pub(super) fn open(
        cache: &str,
        limit: usize,
        log: Option<Arc<dyn RepairLog>>,
    ) -> Result<Arc<Self>> {
        let left = match &log {
            None => Vec::new(),
            Some(log) => log.load(cache).map_err(|error| {
                Error::Invalid(format!("the repair log of cache {cache:?} cannot be read: {error}"))
            })?,
        };
        let logged = Mutex::new(left.len());
        let mut queue = Queue::new(limit);
        queue.extend(left);
        Ok(Arc::new(Repairs {
            cache: cache.to_owned(),
            count: AtomicUsize::new(queue.len()),
            queue: Mutex::new(queue),
            log,
            logged,
            added: Notify::new(),
        }))
    }

    /// Whether this entry waits for its invalidation.
    pub(super) fn concerns(&self, entry: &[u8]) -> bool {
        if self.count.load(Ordering::Acquire) == 0 {
            return false;
        }
        let queue = self.lock();
        queue.everything.is_some() || queue.entries.contains_key(entry)
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// How many wait; one for "every entry".
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Queues entries.
    pub(super) fn add(&self, entries: Vec<Vec<u8>>) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        self.log_addition(&entries, &mut logged);
        let mut queue = self.lock();
        let too_much = queue.extend(entries);
        self.count.store(queue.len(), Ordering::Release);
        drop(queue);
        if too_much {
            tracing::warn!(
                cache = self.cache,
                "too many invalidations wait for Redis: all entries will be invalidated"
            );
            let everything = [EVERYTHING.to_vec()];
            self.log_addition(&everything, &mut logged);
            self.shorten_log(&everything, &mut logged);
        }
        self.added.notify_one();
    }

    fn next_batch(&self) -> Batch {
        self.lock().next_batch()
    }

    fn done(&self, batch: &Batch) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = self.lock();
        queue.done(batch);
        self.count.store(queue.len(), Ordering::Release);
        // Only now and then, so that a long queue is not written again for each batch of it.
        let worth_it = queue.len() == 0 || queue.len() * 2 <= *logged;
        let left = if self.log.is_some() && worth_it { Some(queue.left()) } else { None };
        drop(queue);
        if let Some(left) = left {
            self.shorten_log(&left, &mut logged);
        }
    }

    fn log_addition(&self, entries: &[Vec<u8>], logged: &mut usize) {
        let Some(log) = &self.log else { return };
        *logged += entries.len();
        if let Err(error) = log.add(&self.cache, entries) {
            tracing::error!(cache = self.cache, %error, "a queued invalidation would not survive a restart");
        }
    }

    fn shorten_log(&self, left: &[Vec<u8>], logged: &mut usize) {
        let Some(log) = &self.log else { return };
        match log.keep_only(&self.cache, left) {
            Ok(()) => *logged = left.len(),
            Err(error) => {
                tracing::warn!(cache = self.cache, %error, "the repair log could not be shortened");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Replays the queue whenever there is something in it, until the handle is shut down.
pub(super) async fn replay(
    repairs: Arc<Repairs>,
    level2: Arc<Level2>,
    way: Sweep,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let batch = repairs.next_batch();
        let repaired = match &batch {
            Batch::Nothing => {
                tokio::select! {
                    biased;
                    () = repairs.added.notified() => continue,
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
            Batch::Entries(entries) => {
                let entries: Vec<Vec<u8>> =
                    entries.iter().map(|(entry, _)| entry.clone()).collect();
                level2.invalidate(&entries, false, &about_keys(&entries)).await.map(drop)
            }
            Batch::Everything(_) => tokio::select! {
                swept = sweep(&level2, way) => swept,
                _ = stop.wait_for(|stop| *stop) => return,
            },
        };
        match repaired {
            Ok(()) => {
                repairs.done(&batch);
                pause = FIRST_PAUSE;
            }
            Err(error) => {
                tracing::debug!(%error, waiting = repairs.len(), "the repair queue waits for Redis");
                tokio::select! {
                    () = clock.sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                    _ = stop.wait_for(|stop| *stop) => return,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::repair_log::FileRepairLog, *};

    fn entries(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
        numbers.map(|number| number.to_be_bytes().to_vec()).collect()
    }

    #[test]
    fn too_many_become_everything_and_later_ones_are_kept() {
        let mut queue = Queue::new(10);
        assert!(!queue.extend(entries(0..10)));
        assert!(!queue.extend(entries(5..10)), "the same once more");
        assert!(queue.extend(entries(10..11)));
        assert_eq!((queue.len(), queue.bytes), (1, 0), "no memory for what did not fit");
        let batch = queue.next_batch();
        assert!(matches!(batch, Batch::Everything(_)));
        // While everything is being invalidated another one comes.
        assert!(!queue.extend(entries(3..4)));
        queue.done(&batch);
        let Batch::Entries(left) = queue.next_batch() else { panic!("one is left: {batch:?}") };
        assert_eq!(left[0].0, 3_u64.to_be_bytes());
        queue.done(&Batch::Entries(left));
        assert_eq!(queue.next_batch(), Batch::Nothing);
    }

    #[test]
    fn large_entries_are_bounded_by_their_bytes() {
        let mut queue = Queue::new(1000);
        let large = |number: u8| vec![vec![number; MAX_BYTES / 2]];
        assert!(!queue.extend(large(1)));
        assert!(!queue.extend(large(2)));
        assert!(queue.extend(large(3)));
    }

    #[test]
    fn a_restart_remembers_that_it_was_too_much() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let log: Arc<dyn RepairLog> = Arc::new(FileRepairLog::open(folder.path()).expect("empty"));
        let open = || Repairs::open("shop", 3, Some(Arc::clone(&log))).expect("readable");
        let repairs = open();
        repairs.add(entries(0..3));
        assert!(!repairs.concerns(b"any"));
        repairs.add(entries(3..4));
        assert!(repairs.concerns(b"any"));
        assert_eq!(log.load("shop").expect("readable"), [EVERYTHING.to_vec()], "the log is short");
        let again = open();
        assert!(again.concerns(b"any"));
        again.done(&again.next_batch());
        assert!(!again.concerns(b"any"));
        assert!(log.load("shop").expect("readable").is_empty());
    }
}
