//! One of those who take and hold a lock during a campaign: does what comes to its mind, and notes
//! what it sees.
//!
//! While it holds it asks the server, past all faults, for how long that keeps the hold: never shorter
//! than the holder believes. A `lost()` that it waits for all the time must be told.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{Fuse, FusedFuture, FutureExt};
use seawall::{
    Seawall, cmd,
    lock::{Extension, Release},
};

use crate::{
    campaign::{LONGEST_LOOK, SHORT},
    cancel::poll_and_drop,
    chance::Chance,
    ground::PATIENCE,
    history::{Seen, now_nanos},
    subject::{Held, Kind, Settings, Subject},
};

/// The server counts in milliseconds.
const ROUNDING: Duration = Duration::from_millis(1);
/// How late a loss may be told, on a machine however slow.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// Most steps of one hold.
const STEPS: u64 = 12;
/// Most notes of one kind that are kept.
const KEPT: usize = 20;

/// For how long the server keeps the hold of an owner, in milliseconds.
const KEPT_FOR: &str = "\
    local time = redis.call('TIME') \
    local now = time[1] * 1000 + time[2] / 1000 \
    local kind = redis.call('TYPE', KEYS[1]).ok \
    if kind == 'string' then \
      local owner = string.sub(redis.call('GET', KEYS[1]), 1, #ARGV[1]) \
      return owner == ARGV[1] and redis.call('PTTL', KEYS[1]) or 0 \
    end \
    if kind ~= 'zset' then return 0 end \
    local members = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') \
    for i = 1, #members, 2 do \
      if string.sub(members[i], 1, #ARGV[1]) == ARGV[1] then return math.floor(members[i + 1] - now) end \
    end \
    return 0";

/// What all holders of a round note.
#[derive(Default)]
pub(crate) struct Notes {
    holds: Mutex<Vec<Seen>>,
    violations: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    pub(crate) fn count(&self, what: &'static str) {
        *locked(&self.counts).entry(what).or_insert(0) += 1;
    }

    pub(crate) fn violation(&self, what: String) {
        let mut violations = locked(&self.violations);
        if violations.len() < KEPT {
            violations.push(what);
        }
    }

    pub(crate) fn take(&self) -> (Vec<Seen>, Vec<String>, BTreeMap<&'static str, u64>) {
        use std::mem::take;
        (
            take(&mut locked(&self.holds)),
            take(&mut locked(&self.violations)),
            take(&mut locked(&self.counts)),
        )
    }
}

/// Where a holder lives.
pub(crate) struct Scene {
    pub(crate) subject: Subject,
    /// Handles to the servers themselves, past all faults: one answers for a key, or all of a quorum.
    pub(crate) servers: Vec<Seawall>,
    pub(crate) until: Instant,
    pub(crate) longest_lease: Duration,
    pub(crate) notes: Arc<Notes>,
}

/// A time between these, each order of magnitude as likely as the others.
pub(crate) fn between(chance: &mut Chance, least: Duration, most: Duration) -> Duration {
    let (least, most) = (least.as_secs_f64().ln(), most.as_secs_f64().ln());
    let part = chance.below(1 << 32) as f64 / (1_u64 << 32) as f64;
    Duration::from_secs_f64((least + (most - least) * part).exp())
}

/// Drops the future at some point, now and then.
async fn perhaps_dropped<T>(chance: &mut Chance, future: impl Future<Output = T>) -> Option<T> {
    match chance.below(8) {
        0 => poll_and_drop(1 + usize::try_from(chance.below(8)).expect("small"), future).await,
        1 => {
            let limit = between(chance, Duration::from_micros(20), Duration::from_millis(50));
            tokio::time::timeout(limit, future).await.ok()
        }
        _ => Some(future.await),
    }
}

impl Scene {
    /// Takes, holds and gives back until the round is over.
    pub(crate) async fn live(self, name: String, mut chance: Chance) {
        while Instant::now() < self.until {
            let settings = Settings {
                lease: self.lease(&mut chance),
                poll_interval: between(&mut chance, Duration::from_nanos(1), LONGEST_LOOK),
                fixed: chance.below(3) == 0,
            };
            let shared = chance.below(2) == 0;
            let within = Duration::from_millis(chance.below(600));
            let within = (chance.below(3) > 0).then_some(within);
            let asked_nanos = now_nanos();
            let taking = self.subject.acquire(settings, shared, within);
            match perhaps_dropped(&mut chance, taking).await {
                Some(Ok(Some(held))) => {
                    self.notes.count("taken");
                    self.hold(held, asked_nanos, &name, &mut chance).await;
                }
                Some(Ok(None)) => self.notes.count("busy"),
                Some(Err(_)) => self.notes.count("failed"),
                None => self.notes.count("dropped while taking"),
            }
            tokio::time::sleep(Duration::from_millis(chance.below(4))).await;
        }
    }

    fn lease(&self, chance: &mut Chance) -> Duration {
        let least = Duration::from_millis(20);
        // Where leases may be long, half of them are short all the same.
        let most =
            if chance.below(2) == 0 { self.longest_lease } else { self.longest_lease.min(SHORT) };
        between(chance, least, most).max(least)
    }

    async fn hold(&self, held: Held, asked_nanos: u64, worker: &str, chance: &mut Chance) {
        let from_nanos = now_nanos();
        let mut seen = Seen {
            worker: worker.to_owned(),
            token: held.token(),
            asked_nanos,
            from_nanos,
            to_nanos: from_nanos,
            lost: false,
            weight: held.weight,
        };
        {
            let mut told = pin!(held.lost().fuse());
            for _ in 0..chance.below(STEPS) {
                // Taken before looking: if it is held after this moment, it was held at it.
                let at = now_nanos();
                if held.is_lost() {
                    seen.lost = true;
                    break;
                }
                seen.to_nanos = at;
                self.step(&held, told.as_mut(), chance).await;
            }
            if held.is_lost() {
                self.notes.count("lost");
                if !told.is_terminated() && tokio::time::timeout(PATIENCE, told).await.is_err() {
                    self.notes.violation(format!("{worker} was not told of its loss: {seen:?}"));
                }
            }
        }
        locked(&self.notes.holds).push(seen);
        match chance.below(4) {
            0 => drop(held),
            _ => match perhaps_dropped(chance, held.release()).await {
                Some(Ok(Release::Released)) => self.notes.count("released"),
                Some(Ok(Release::AlreadyLost)) => self.notes.count("released too late"),
                Some(Ok(Release::StillHeld)) => {
                    self.notes.violation(format!("{worker} alone held it, and still does"));
                }
                Some(Err(_)) | None => self.notes.count("given back in the background"),
            },
        }
    }

    /// Does something, unless it is told of a loss meanwhile.
    async fn step(
        &self,
        held: &Held,
        told: Pin<&mut Fuse<impl Future<Output = ()>>>,
        chance: &mut Chance,
    ) {
        let action = async {
            match chance.below(8) {
                0 => self.wait_for_the_loss(held).await,
                1..=2 => {
                    let pause = between(chance, Duration::from_micros(50), self.longest_lease);
                    tokio::time::sleep(pause.min(Duration::from_secs(2))).await;
                }
                3..=5 => self.extend(held, chance).await,
                6 => self.ask_the_server(held).await,
                // The process is paused, or as good as.
                _ => std::thread::sleep(Duration::from_millis(chance.below(30))),
            }
        };
        tokio::select! {
            biased;
            () = told => {
                self.notes.count("told of a loss");
                if !held.is_lost() {
                    self.notes.violation("told of a loss that is none".to_owned());
                }
            }
            () = action => {}
        }
    }

    /// Waits until the end of a lease that nobody renews. Nobody looks meanwhile: only the wait itself
    /// can tell of the loss, and then this one is dropped.
    async fn wait_for_the_loss(&self, held: &Held) {
        if held.fixed && held.valid_for() <= SHORT {
            self.notes.count("waited for a loss");
            tokio::time::sleep(held.valid_for() + TOLD_WITHIN).await;
            self.notes.violation("a loss was not told".to_owned());
        }
    }

    async fn extend(&self, held: &Held, chance: &mut Chance) {
        let lease = self.lease(chance);
        let before = held.valid_for();
        let shorter = lease < before;
        match perhaps_dropped(chance, held.extend(lease)).await {
            Some(Ok(Extension::Extended)) => {
                self.notes.count(if shorter { "made shorter" } else { "made longer" });
                if held.valid_for() > lease {
                    let believes = held.valid_for();
                    self.notes.violation(format!("believes {believes:?} of a lease of {lease:?}"));
                }
            }
            Some(Ok(Extension::AlreadyLost)) => self.notes.count("extended too late"),
            Some(Err(_)) => self.notes.count("extension failed"),
            None => self.notes.count("dropped while extending"),
        }
        self.ask_the_server(held).await;
        if shorter && before > TOLD_WITHIN {
            self.wait_for_the_loss(held).await;
        }
    }

    /// The server must keep it for at least as long as the holder believes.
    async fn ask_the_server(&self, held: &Held) {
        let (asked, believes) = (Instant::now(), held.valid_for());
        let mut kept = Vec::new();
        for key in self.subject.kind.end_keys(&self.subject.name, held.weight) {
            let mut ask = cmd("EVAL");
            ask.arg(KEPT_FOR).arg(1).arg(&key).arg(&held.owner);
            let mut answers = Vec::new();
            for server in &self.servers {
                // On a Cluster all but one say that the key is elsewhere.
                if let Ok(left) = server.client().query::<i64>(key.as_bytes(), &ask).await {
                    answers.push(Duration::from_millis(u64::try_from(left).unwrap_or(0)));
                }
            }
            answers.sort_unstable();
            // Of three primaries the middle one's answer is a majority's.
            let answer = match (self.subject.kind, answers.as_slice()) {
                (Kind::Quorum, [_, middle, _]) => *middle,
                (kind, [only]) if kind != Kind::Quorum => *only,
                _ => return self.notes.count("server not asked"),
            };
            kept.push(answer);
        }
        let needed = believes.saturating_sub(asked.elapsed());
        self.notes.count("server asked");
        if kept.iter().any(|kept| *kept + ROUNDING < needed) {
            let Subject { kind, name, .. } = &self.subject;
            self.notes.violation(format!("{kind:?} {name}: {kept:?} kept of {needed:?} believed"));
        }
    }
}
