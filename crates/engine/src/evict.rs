//! Eviction: which keys are removed when memory is full, and the clocks that decide.
//!
//! Every entry has 24 bits of `idle`: under an LRU policy the second of its last use, under an LFU
//! policy a logarithmic counter (8 bits) with the minute of its last decay (16 bits), as in Redis,
//! so that OBJECT IDLETIME and OBJECT FREQ mean the same. Candidates are sampled from random
//! segments of the table and the best few are kept in a small pool between rounds, which comes near
//! to true LRU at a constant cost.

use crate::rng::Rng;

/// What to do when `maxmemory` is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    VolatileLru,
    VolatileLfu,
    VolatileRandom,
    VolatileTtl,
    AllKeysLru,
    AllKeysLfu,
    AllKeysRandom,
    NoEviction,
}

impl Policy {
    pub(crate) const ALL: [Policy; 8] = [
        Policy::VolatileLru,
        Policy::VolatileLfu,
        Policy::VolatileRandom,
        Policy::VolatileTtl,
        Policy::AllKeysLru,
        Policy::AllKeysLfu,
        Policy::AllKeysRandom,
        Policy::NoEviction,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::VolatileLru => "volatile-lru",
            Policy::VolatileLfu => "volatile-lfu",
            Policy::VolatileRandom => "volatile-random",
            Policy::VolatileTtl => "volatile-ttl",
            Policy::AllKeysLru => "allkeys-lru",
            Policy::AllKeysLfu => "allkeys-lfu",
            Policy::AllKeysRandom => "allkeys-random",
            Policy::NoEviction => "noeviction",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Policy> {
        Policy::ALL.into_iter().find(|policy| policy.name().eq_ignore_ascii_case(text))
    }

    pub(crate) fn is_lfu(self) -> bool {
        matches!(self, Policy::VolatileLfu | Policy::AllKeysLfu)
    }

    /// Returns `true` if only keys with a lifetime may be evicted.
    pub(crate) fn volatile_only(self) -> bool {
        matches!(
            self,
            Policy::VolatileLru
                | Policy::VolatileLfu
                | Policy::VolatileRandom
                | Policy::VolatileTtl
        )
    }
}

const CLOCK_MASK: u32 = (1 << 24) - 1;
const LFU_START: u32 = 5;

/// The LRU clock: seconds in 24 bits.
pub(crate) fn lru_clock(now_ms: i64) -> u32 {
    (now_ms / 1000) as u32 & CLOCK_MASK
}

/// Seconds since the last use.
pub(crate) fn lru_idle_seconds(idle: u32, now_ms: i64) -> u32 {
    lru_clock(now_ms).wrapping_sub(idle) & CLOCK_MASK
}

fn lfu_minutes(now_ms: i64) -> u32 {
    (now_ms / 60_000) as u32 & 0xffff
}

/// What a new key starts with.
pub(crate) fn fresh(policy: Policy, now_ms: i64) -> u32 {
    if policy.is_lfu() { lfu_minutes(now_ms) << 8 | LFU_START } else { lru_clock(now_ms) }
}

/// The LFU counter after the decay that is due.
pub(crate) fn lfu_decayed(idle: u32, now_ms: i64, decay_minutes: i64) -> u32 {
    let elapsed = lfu_minutes(now_ms).wrapping_sub(idle >> 8) & 0xffff;
    let periods = if decay_minutes > 0 { i64::from(elapsed) / decay_minutes } else { 0 };
    (idle & 0xff).saturating_sub(periods as u32)
}

/// The LFU word after one more use.
pub(crate) fn lfu_used(idle: u32, now_ms: i64, decay: i64, log_factor: i64, rng: &mut Rng) -> u32 {
    let mut counter = lfu_decayed(idle, now_ms, decay);
    if counter < 255 {
        let base = f64::from(counter.saturating_sub(LFU_START));
        let chance = 1.0 / (base * log_factor as f64 + 1.0);
        if (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= chance {
            counter += 1;
        }
    }
    lfu_minutes(now_ms) << 8 | counter
}

/// A candidate for eviction.
#[derive(Debug)]
pub(crate) struct Candidate {
    /// The higher, the sooner it is evicted.
    pub(crate) score: u64,
    pub(crate) db: u32,
    pub(crate) key: Box<[u8]>,
}

/// The best candidates seen so far.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    candidates: Vec<Candidate>,
    /// What the scores mean.
    policy: Option<Policy>,
}

const POOL: usize = 16;

impl Pool {
    /// Drops candidates that another policy scored.
    pub(crate) fn begin(&mut self, policy: Policy) {
        if self.policy != Some(policy) {
            self.candidates.clear();
            self.policy = Some(policy);
        }
    }

    pub(crate) fn offer(&mut self, score: u64, db: u32, key: &[u8]) {
        if self.candidates.len() == POOL && self.candidates[0].score >= score {
            return;
        }
        if self.candidates.iter().any(|c| c.db == db && *c.key == *key) {
            return;
        }
        let at = self.candidates.partition_point(|c| c.score < score);
        self.candidates.insert(at, Candidate { score, db, key: key.into() });
        if self.candidates.len() > POOL {
            self.candidates.remove(0);
        }
    }

    /// The best one.
    pub(crate) fn take(&mut self) -> Option<Candidate> {
        self.candidates.pop()
    }
}
