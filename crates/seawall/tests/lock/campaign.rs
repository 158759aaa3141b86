//! A campaign: locks of all kinds, with leases and options drawn at random, are taken, extended, given
//! back and dropped while connections break; then everything heals and nothing may be left.
//!
//! What must hold at every moment:
//! - no more holders believe to hold than the lock allows, and their tokens rise (`history`);
//! - the server keeps a hold for at least as long as its holder believes (`holder`);
//! - a holder that waits for its loss is told of it;
//! - in the end nothing is renewed and no key is left, or only until the lease of an attempt that
//!   arrived late is over.
//!
//! `SEAWALL_LOCK_SEED` repeats the draws of an earlier run; how tasks interleave is drawn anew.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use tokio::task::JoinSet;

use crate::{
    chance::Chance,
    field::{Field, PROCESSES, Running},
    ground::{PATIENCE, soak},
    history::History,
    holder::{Notes, Scene, between},
    subject::{Kind, Subject},
    weather::{self, Faults},
};

const SEED_VARIABLE: &str = "SEAWALL_LOCK_SEED";
/// Overrides how long each campaign takes, in seconds.
const SECONDS_VARIABLE: &str = "SEAWALL_LOCK_SECONDS";
/// Locks that are fought over at the same time, and for how long.
const ROUNDS_AT_ONCE: u64 = 8;
const ROUND: Duration = Duration::from_millis(1500);
/// Longest lease of most rounds, and of the others: the longest that there is.
pub(crate) const SHORT: Duration = Duration::from_millis(1500);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Longest pause between two looks.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(4);
/// How often a long campaign says how far it is.
const PROGRESS: Duration = Duration::from_secs(60);

/// A lock that is fought over for a while.
struct Round {
    kind: Kind,
    name: String,
    longest_lease: Duration,
    notes: Arc<Notes>,
}

#[derive(Default)]
struct Report {
    rounds: u64,
    counts: BTreeMap<Kind, BTreeMap<&'static str, u64>>,
    faults: Faults,
    late: u64,
    violations: Vec<String>,
}

impl Round {
    /// Draws a round.
    fn draw(number: u64, field: &Field, chance: &mut Chance) -> Self {
        let kinds = field.kinds.len() as u64;
        // One after the other, so that even a short campaign has all of them.
        let kind = field.kinds[usize::try_from(number % kinds).expect("few")];
        let longest = if chance.below(3) == 0 { LONGEST } else { SHORT };
        let shortest = Duration::from_millis(100);
        let longest_lease = between(chance, shortest, longest);
        Round { kind, name: format!("r{number:08}"), longest_lease, notes: Arc::default() }
    }

    /// Lets all processes fight over the lock.
    async fn fight(&self, field: &Field, chance: &mut Chance) {
        let servers = if self.kind == Kind::Quorum { &field.primaries } else { &field.servers };
        let holders = 3 + usize::try_from(chance.below(4)).expect("few");
        let until = Instant::now() + ROUND;
        let mut living = JoinSet::new();
        for number in 0..holders {
            let process = number % PROCESSES;
            let handles = match self.kind {
                Kind::Quorum => field.quorum[process].clone(),
                _ => vec![field.single[process].clone()],
            };
            let subject = Subject::new(self.kind, &self.name, handles);
            let scene = Scene {
                subject,
                servers: servers.clone(),
                until,
                longest_lease: self.longest_lease,
                notes: Arc::clone(&self.notes),
            };
            living.spawn(scene.live(format!("{number}"), Chance::new(chance.below(u64::MAX))));
        }
        living.join_all().await;
    }

    /// Looks at what was noted and at what is left.
    async fn judge(self, field: &Field, report: &mut Report) {
        let (holds, violations, counts) = self.notes.take();
        let about = |what: String| format!("{:?} {}: {what}", self.kind, self.name);
        report.violations.extend(violations.into_iter().map(about));
        let faults = History::of(self.kind.capacity(), holds).faults();
        report.violations.extend(faults.into_iter().map(about));
        for (what, count) in counts {
            *report.counts.entry(self.kind).or_default().entry(what).or_insert(0) += count;
        }
        let long = self.longest_lease > SHORT;
        let deadline = Instant::now() + if long { PATIENCE / 15 } else { PATIENCE };
        let mut left = field.left(&self.name).await;
        while !left.is_empty() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
            left = field.left(&self.name).await;
        }
        // An attempt that arrived after it was given up is left until its lease is over, or its place
        // in a line.
        let longest = self.longest_lease.max(LONGEST_LOOK * 3);
        let longest_ms = i64::try_from(longest.as_millis()).expect("a day at most");
        if left.iter().any(|(_, ttl)| !long || !(0..=longest_ms).contains(ttl)) {
            report.violations.push(about(format!("left over: {left:?}")));
        }
        report.late += u64::from(!left.is_empty());
    }
}

impl Report {
    fn count(&self, what: &str) -> u64 {
        self.counts.values().filter_map(|counts| counts.get(what)).sum()
    }

    #[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
    fn print(&self, name: &str, seed: u64, began: Instant) {
        let (rounds, late, found) = (self.rounds, self.late, self.violations.len());
        let seconds = began.elapsed().as_secs();
        println!(
            "{name}: {rounds} rounds, {} holds, the server asked {} times, {late} left until their \
             lease ends, {found} violations, {seconds} s, {SEED_VARIABLE}={seed}",
            self.count("taken"),
            self.count("server asked"),
        );
        for (kind, counts) in &self.counts {
            println!("  {kind:?}: {counts:?}");
        }
        println!("  faults: {:?}", self.faults);
    }
}

/// Lets faults come and go until the rounds are over.
async fn fight_in_bad_weather(
    field: &Field,
    rounds: &[Round],
    chance: &mut Chance,
    faults: &mut Faults,
) {
    let mut chances: Vec<_> = rounds.iter().map(|_| Chance::new(chance.below(u64::MAX))).collect();
    let fights = rounds.iter().zip(&mut chances).map(|(round, chance)| round.fight(field, chance));
    let proxies = field.proxies();
    let bad_weather = async {
        loop {
            match &field.running {
                Running::Engine { engine, .. } => {
                    weather::kill_connections(engine, chance, faults).await;
                }
                _ => weather::strike(&proxies, chance, faults).await,
            }
        }
    };
    tokio::select! {
        _ = join_all(fights) => {}
        () = bad_weather => unreachable!("it never ends"),
    }
    tokio::task::block_in_place(|| proxies.iter().for_each(|proxy| proxy.heal()));
}

/// Runs rounds until the time is over, and fails with what was found.
async fn campaign(name: &str, field: Field, seed: u64, seconds: u64) {
    let given = std::env::var(SECONDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let limit = Duration::from_secs(given.unwrap_or(seconds * if soak() > 1 { 40 } else { 1 }));
    let (began, mut told) = (Instant::now(), Instant::now());
    let mut chance = Chance::new(seed);
    let mut report = Report::default();
    let kinds = field.kinds.len();
    while (began.elapsed() < limit || report.rounds < 2 * kinds as u64)
        && report.violations.is_empty()
    {
        let numbers = report.rounds..report.rounds + ROUNDS_AT_ONCE;
        let rounds: Vec<_> =
            numbers.map(|number| Round::draw(number, &field, &mut chance)).collect();
        fight_in_bad_weather(&field, &rounds, &mut chance, &mut report.faults).await;
        report.rounds += ROUNDS_AT_ONCE;
        for round in rounds {
            round.judge(&field, &mut report).await;
        }
        let renewed = async || field.handles().any(|handle| handle.renewed_locks() > 0);
        let deadline = Instant::now() + PATIENCE;
        while renewed().await && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if renewed().await {
            report.violations.push("something is renewed that nobody holds".to_owned());
        }
        if told.elapsed() > PROGRESS {
            told = Instant::now();
            report.print(name, seed, began);
        }
    }
    report.print(name, seed, began);
    field.end().await;
    assert!(report.violations.is_empty(), "{SEED_VARIABLE}={seed}: {:#?}", report.violations);
    for what in ["taken", "server asked", "made longer", "made shorter", "told of a loss"] {
        assert!(report.count(what) > 0, "nothing was {what}: {:?}", report.counts);
    }
    let taken = report.counts.values().filter(|counts| counts.contains_key("taken")).count();
    assert_eq!((taken, report.faults.is_empty()), (kinds, false), "all kinds, and faults");
}

/// A new seed for each run, or the given one.
fn seed() -> u64 {
    let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_of_all_kinds_break_no_promise_on_redis() {
    let seed = seed();
    campaign("redis", Field::redis(seed).await, seed, 10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_of_all_kinds_break_no_promise_on_a_cluster() {
    campaign("cluster", Field::cluster().await, seed(), 6).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_of_all_kinds_break_no_promise_on_the_engine() {
    campaign("engine", Field::engine().await, seed(), 4).await;
}
