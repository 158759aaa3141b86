//! The ticks: what this process read goes to Redis, and what the fleet decided comes back.
//!
//! Two tasks for each handle. One reports every 100 ms, if there is anything to report: the heaviest
//! keys of the sketch, and those that are hot already. The other hears who became hot or cool. What was
//! said while no connection was up is made up for by lists: all of them after every reconnect; every second
//! those of keys that are known to be hot, and, in a process that reads, a few others in turn, because
//! a message that was lost names nothing to look for.
//!
//! Without Redis a process decides with its own reads. What it could not report is dropped, and so
//! is what was counted before a pause: neither an outage nor a stopped process ends in a flood.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, PoisonError, atomic::Ordering},
    time::Duration,
};

use redis::Value;
use seawall_client::client::{Event, Script, ScriptInvocation};
use seawall_resilience::{
    Backoff,
    clock::{Moment, millis},
};
use tokio::sync::watch;

use super::{
    board::Hot,
    rule::HotRule,
    shared::{MAX_HOT_IN_SHARD, Shared},
    window::Window,
    wire::{HotKey, HotReason, Message, SHARDS, shard},
};

static REPORT: Script = Script::with_time(include_str!("script/report.lua"));

/// How often the fleet's counts meet.
const TICK: Duration = Duration::from_millis(100);
/// How often hot keys are looked up as long as there are any.
const LOOK: Duration = Duration::from_secs(1);
/// How many lists a process that reads looks at in turn each time: all of them in four seconds.
const IN_TURN: u64 = 2;
/// Keys in one report, besides those that are hot.
const MAX_CANDIDATES: usize = 64;
/// A process that has less than this part of the threshold's reads keeps them for itself: so many
/// equal processes are sure to find a key together.
const FLEET: u128 = 16;
/// Counts that took longer than this to come together are of a process that was paused.
const TOO_OLD: Duration = Duration::from_secs(1);
/// After a report that failed, the next one waits; twice as long each time.
const PAUSES: Backoff = Backoff::doubling(TICK, Duration::from_secs(2));
/// Ticks without reads after which a key's own window is dropped.
const IDLE_TICKS: u32 = 50;

/// Returns the reads of a tick in one process from which on a key is worth reporting.
pub(super) fn floor(rule: &HotRule) -> u64 {
    let reads = u128::from(rule.threshold) * TICK.as_nanos() / rule.window.as_nanos() / FLEET;
    u64::try_from(reads).unwrap_or(u64::MAX).max(1)
}

/// A key that is reported.
struct Candidate {
    key: Box<[u8]>,
    reads: u64,
    rule: HotRule,
    /// Reads within the window in this process.
    here: u64,
}

/// What the reporter remembers from tick to tick.
struct Reporter {
    shared: Arc<Shared>,
    windows: HashMap<Box<[u8]>, (Window, u32)>,
    last: Moment,
    next_look: Moment,
    /// Whose turn it is among the lists.
    turn: u64,
    pauses: Backoff,
    not_before: Moment,
}

/// Reports until the handle is shut down.
pub(super) async fn report(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let (clock, randomness) = (shared.clock.clone(), shared.client.randomness().clone());
    let now = clock.now();
    let mut reporter = Reporter {
        shared,
        windows: HashMap::new(),
        last: now,
        next_look: now,
        turn: randomness.within(0..=SHARDS - 1),
        pauses: PAUSES,
        not_before: now,
    };
    // Processes that started together do not report together.
    let mut next = now + TICK.mul_f64(randomness.unit());
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(next) => {}
        }
        next = clock.now() + TICK;
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = reporter.tick() => {}
        }
    }
}

/// Hears who became hot or cool until the handle is shut down.
pub(super) async fn listen(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let mut subscription = shared.client.pubsub().join(&shared.channel);
    loop {
        let event = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            event = subscription.next() => event,
        };
        match event {
            Some(Event::Message(message)) => match Message::parse(&message) {
                Some(Message::Hot(hot)) => shared.learn(vec![hot]),
                Some(Message::Cool(key)) => shared.forget(&key),
                None => tracing::warn!("a message about hot keys that nobody of ours sent"),
            },
            Some(Event::Resumed) => {
                let all: Vec<u64> = (0..SHARDS).collect();
                tokio::select! {
                    biased;
                    _ = stop.wait_for(|stop| *stop) => return,
                    () = look(&shared, &all) => {}
                }
            }
            Some(Event::Interrupted) => {}
            None => return,
        }
    }
}

/// Compares what is hot here with what is hot in Redis, and fetches what is not in memory (any more).
async fn look(shared: &Shared, shards: &[u64]) {
    let asked = shared.clock.now();
    for (shard_number, list) in shards.iter().zip(shared.list(shards).await) {
        let Ok(list) = list else { continue };
        let named: HashSet<Vec<u8>> = list.iter().map(|hot| hot.bytes.clone()).collect();
        shared.learn_since(asked, list.clone());
        shared.warm(&list);
        for hot in shared.board.all() {
            let key = &hot.known.bytes;
            // What was learned since then is newer than the list.
            if shard(key) == *shard_number && hot.learned < asked && !named.contains(key) {
                shared.forget(key);
            }
        }
    }
}

impl Reporter {
    async fn tick(&mut self) {
        let now = self.shared.clock.now();
        let took = now.since(std::mem::replace(&mut self.last, now));
        let heavy = self.shared.sketch.drain();
        let heavy = if took > TOO_OLD { Vec::new() } else { heavy };
        let candidates = self.candidates(heavy, now);
        if !candidates.is_empty() {
            if now < self.not_before {
                self.decide_alone(&candidates);
            } else {
                self.send(candidates).await;
            }
        }
        let hot = self.shared.board.all();
        if now >= self.next_look && now >= self.not_before {
            let chance = self.shared.client.randomness().unit();
            self.next_look = now + LOOK.mul_f64(0.8 + 0.4 * chance);
            let mut shards: BTreeSet<u64> = hot.iter().map(|hot| shard(&hot.known.bytes)).collect();
            if self.shared.was_read() {
                shards.extend((0..IN_TURN).map(|next| (self.turn + next) % SHARDS));
                self.turn = (self.turn + IN_TURN) % SHARDS;
            }
            if !shards.is_empty() {
                look(&self.shared, &shards.into_iter().collect::<Vec<_>>()).await;
            }
        }
        let now = self.shared.clock.now();
        let over = |hot: &&Arc<Hot>| hot.until <= now;
        hot.iter().filter(over).for_each(|hot| self.lapse(&hot.known.bytes, now));
    }

    /// Drops a key that was not reported for too long.
    fn lapse(&self, key: &[u8], now: Moment) {
        if self.shared.board.get(key).is_some_and(|hot| hot.until <= now) {
            self.shared.forget(key);
        }
    }

    /// Returns the keys to report: the heaviest by their rules, and those that are hot.
    fn candidates(&mut self, heavy: Vec<(Box<[u8]>, u64)>, now: Moment) -> Vec<Candidate> {
        for (_, idle) in self.windows.values_mut() {
            *idle += 1;
        }
        self.windows.retain(|_, (_, idle)| *idle < IDLE_TICKS);
        let members = self.shared.members.read().unwrap_or_else(PoisonError::into_inner);
        let mut worth = Vec::new();
        for (key, reads) in heavy {
            let Some(rule) = members.iter().find_map(|member| member.rule(&key)) else { continue };
            let hot = self.shared.board.has(&key);
            if hot || reads >= floor(rule) {
                let ratio = reads as f64 / rule.threshold as f64 * rule.window.as_secs_f64();
                let candidate = Candidate { key, reads, rule: rule.clone(), here: 0 };
                worth.push((hot, ratio, candidate));
            }
        }
        drop(members);
        worth.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let hot = worth.iter().filter(|(hot, ..)| *hot).count();
        worth.truncate(hot + MAX_CANDIDATES);
        let mut candidates: Vec<Candidate> =
            worth.into_iter().map(|(_, _, candidate)| candidate).collect();
        for candidate in &mut candidates {
            let (window, idle) = self.windows.entry(candidate.key.clone()).or_default();
            *idle = 0;
            candidate.here = window.add(candidate.reads, candidate.rule.window, now);
        }
        candidates
    }

    async fn send(&mut self, candidates: Vec<Candidate>) {
        let shared = &self.shared;
        let mut shards: BTreeMap<u64, Vec<Candidate>> = BTreeMap::new();
        for candidate in candidates {
            shards.entry(shard(&candidate.key)).or_default().push(candidate);
        }
        let calls: Vec<ScriptInvocation> =
            shards.iter().map(|(number, group)| report_call(shared, *number, group)).collect();
        let mut failed = false;
        let asked = shared.clock.now();
        let replies = shared.client.run_all(&calls).await;
        for (group, reply) in shards.values().zip(replies) {
            shared.metrics.reports.increment(1);
            match reply.map(|reply| parse_report(group, reply)) {
                Ok(hot) => shared.learn_since(asked, hot),
                Err(error) => {
                    tracing::debug!(%error, "hot keys are found without the fleet");
                    shared.metrics.report_failures.increment(1);
                    failed = true;
                    self.decide_alone(group);
                }
            }
        }
        shared.reachable.store(!failed, Ordering::Relaxed);
        if failed {
            let now = shared.clock.now();
            // Never all processes at once when Redis is back.
            self.not_before =
                now + self.pauses.pause().mul_f64(0.5 + shared.client.randomness().unit());
        } else {
            self.pauses.reset();
        }
    }

    /// Without Redis: what this process alone reads often enough is hot, for this process.
    fn decide_alone(&self, candidates: &[Candidate]) {
        let shared = &self.shared;
        let now = u64::try_from(shared.client.server_millis()).unwrap_or(0);
        for candidate in candidates {
            let before = shared.board.get(&candidate.key);
            let wanted = candidate.rule.threshold / if before.is_some() { 2 } else { 1 };
            if candidate.here < wanted {
                continue;
            }
            let mut known = before.map_or_else(
                || HotKey {
                    key: String::from_utf8_lossy(&candidate.key).into_owned(),
                    bytes: candidate.key.to_vec(),
                    reads: 0,
                    window: candidate.rule.window,
                    writes: 0,
                    sources: 1,
                    version: 0,
                    since_millis: now,
                    left: Duration::ZERO,
                    reason: HotReason::Counted,
                    spread: false,
                },
                |hot| hot.known.clone(),
            );
            known.reads = candidate.here;
            known.left = candidate.rule.cool_for;
            shared.learn(vec![known]);
        }
    }
}

fn report_call(shared: &Shared, number: u64, group: &[Candidate]) -> ScriptInvocation {
    let windows = shared.key("hot-window", number);
    let mut keys = vec![shared.key("hot-keys", number)];
    keys.extend(group.iter().map(|candidate| [&windows[..], b":", &candidate.key].concat()));
    let mut call =
        REPORT.on(&keys).arg(&shared.channel).arg(&shared.source[..]).arg(MAX_HOT_IN_SHARD);
    for Candidate { key, reads, rule, .. } in group {
        call = call
            .arg(&key[..])
            .arg(*reads)
            .arg(shared.board.take_writes(key))
            .arg(millis(rule.window))
            .arg(rule.threshold)
            .arg(millis(rule.cool_for))
            .arg(rule.copies_at.unwrap_or(0))
            .arg(shared.version(key));
    }
    call
}

fn parse_report(group: &[Candidate], reply: Value) -> Vec<HotKey> {
    let Value::Array(items) = reply else { return Vec::new() };
    let mut items = items.into_iter();
    let Some(Value::Int(now)) = items.next() else { return Vec::new() };
    let lines = group.iter().zip(items).filter_map(|(candidate, line)| match line {
        Value::BulkString(line) => HotKey::parse(&candidate.key, &line, now.unsigned_abs()),
        _ => None,
    });
    lines.collect()
}
