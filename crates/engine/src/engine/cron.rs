//! Periodic work: time-outs, expiry, the end of pauses, eviction.

use crate::evict::{self, Policy};
use crate::keyspace::Entry;
use crate::script::ScriptJob;
use crate::value::table::Item;

use super::Engine;

/// Interval of the periodic work.
const CRON_MS: i64 = 100;
/// Segments of a database looked at in one round of expiry.
const EXPIRE_SEGMENTS: usize = 4096;
/// Segments after which the clock is read.
const EXPIRE_AT_ONCE: usize = 64;
/// Maximum time of expiry per round, in all databases; the rest follows in the next round.
const EXPIRE_NANOS: u64 = 5_000_000;

impl Engine {
    /// Does what is due. Returns a script that must be driven.
    pub(crate) fn tick(&mut self) -> Option<Box<ScriptJob>> {
        let now = self.now_ms();
        if self.script.is_none() {
            while let Some(session) = self.waiting.due(now) {
                self.time_out(session);
            }
            if self.asleep_until.is_some_and(|at| at <= now) {
                self.asleep_until = None;
                self.end_pause();
            }
            if self.pause.is_some_and(|pause| pause.until_ms <= now) {
                self.pause = None;
                self.end_pause();
            }
            let is_due = now - self.last_cron_ms >= CRON_MS || now < self.last_cron_ms;
            if is_due && !self.cron_paused {
                self.last_cron_ms = now;
                self.cron(now);
            }
            self.serve_ready();
        }
        self.run_runnable()
    }

    fn cron(&mut self, now: i64) {
        self.stats.sample(now);
        self.garbage.sweep();
        self.stats.peak_memory = self.stats.peak_memory.max(self.used_memory());
        self.limit_tracked_keys();
        self.evict_clients();
        let frozen = self.pause.is_some();
        if self.settings.active_expire && !frozen {
            self.expire_slices(now);
        }
    }

    /// Removes expired keys, within a time limit for all databases together. The next round begins
    /// after the database where this one stopped.
    fn expire_slices(&mut self, now: i64) {
        let until = self.clock.monotonic_nanos().saturating_add(EXPIRE_NANOS);
        let count = self.dbs.len();
        let first = self.expire_first % count;
        for db in (first..count).chain(0..first) {
            self.expire_slice(db as u32, now, until);
            if self.clock.monotonic_nanos() >= until {
                self.expire_first = db + 1;
                return;
            }
        }
    }

    /// Removes expired keys of one database, within limits of work and time.
    fn expire_slice(&mut self, db: u32, now: i64, until: u64) {
        for _ in 0..EXPIRE_SEGMENTS / EXPIRE_AT_ONCE {
            let state = &mut self.dbs[db as usize];
            if state.expiring() == 0 {
                return;
            }
            let mut due: Vec<Entry> = Vec::new();
            let step = state.table.expire_step(now, state.expire_from, EXPIRE_AT_ONCE, |entry| {
                due.push(entry);
            });
            state.expire_from = step.next_segment;
            for entry in due {
                self.expired(db, entry.key());
            }
            if step.next_segment == 0 || self.clock.monotonic_nanos() >= until {
                return;
            }
        }
    }

    // ---- eviction ------------------------------------------------------------------------------

    /// Evicts keys until memory is below the limit. Returns `false` if that is not possible.
    pub(crate) fn make_room(&mut self) -> bool {
        let bound = usize::try_from(self.settings.maxmemory).unwrap_or(usize::MAX);
        if self.script.is_some() {
            return self.used_memory() <= bound;
        }
        // Limit: one command makes at most this many evictions; the rest follows with the next
        // command.
        const AT_ONCE: usize = 10_000;
        for _ in 0..AT_ONCE {
            if self.used_memory() <= bound {
                return true;
            }
            if self.settings.maxmemory_policy == Policy::NoEviction || !self.evict_one() {
                return false;
            }
        }
        true
    }

    fn evict_one(&mut self) -> bool {
        const TRIES: usize = 32;
        let volatile = self.settings.maxmemory_policy.volatile_only();
        let mut dbs: Vec<u32> = Vec::new();
        for (i, db) in self.dbs.iter().enumerate() {
            if if volatile { db.expiring() > 0 } else { db.len() > 0 } {
                dbs.push(i as u32);
            }
        }
        if dbs.is_empty() {
            return false;
        }
        for _ in 0..TRIES {
            for db in &dbs {
                self.sample(*db, volatile);
            }
            while let Some(candidate) = self.evict_pool.take() {
                // It may have gone, or have lost its lifetime, since it was sampled.
                let entry = self.dbs[candidate.db as usize].get(&candidate.key);
                if entry.is_some_and(|entry| !volatile || entry.expires_at().is_some()) {
                    self.evict_key(candidate.db, &candidate.key);
                    return true;
                }
            }
        }
        false
    }

    /// Offers some keys of a database to the pool.
    fn sample(&mut self, db: u32, volatile: bool) {
        let policy = self.settings.maxmemory_policy;
        self.evict_pool.begin(policy);
        let (now, decay) = (self.now_ms(), self.settings.lfu_decay_time);
        let wanted = self.settings.maxmemory_samples.max(1) as usize;
        let (pool, rng) = (&mut self.evict_pool, &mut self.rng);
        let mut seen = 0;
        let noise = rng.next_u64();
        self.dbs[db as usize].table.sample_segment(rng, volatile, |entry| {
            if seen >= wanted || (volatile && entry.expires_at().is_none()) {
                return;
            }
            seen += 1;
            let score = match policy {
                Policy::VolatileTtl => u64::MAX - entry.deadline().unsigned_abs(),
                Policy::VolatileLfu | Policy::AllKeysLfu => {
                    255 - u64::from(evict::lfu_decayed(entry.idle, now, decay))
                }
                Policy::VolatileLru | Policy::AllKeysLru => {
                    u64::from(evict::lru_idle_seconds(entry.idle, now))
                }
                _ => noise ^ seen as u64,
            };
            pool.offer(score, db, entry.key());
        });
    }

    fn evict_key(&mut self, db: u32, key: &[u8]) {
        self.dbs[db as usize].remove(key);
        self.stats.evicted_keys += 1;
        self.log_removal(db, key);
        self.notify(db, crate::notify::Classes::EVICTED, "evicted", key);
        self.key_changed(db, key, None);
    }
}
