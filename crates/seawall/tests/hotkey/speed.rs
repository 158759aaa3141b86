//! A key that suddenly takes half of all reads, in four processes: how soon everybody holds it, and
//! how soon an invalidation of it is everywhere. Figures are printed, not judged.
//!
//! The processes are this very test binary, started once more with `SEAWALL_HOT_WORKER` set.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, LocalKeeps, Source},
    cmd,
    hotkey::{HotRule, HotRules},
};
use seawall_testkit::ServerProcess;

use crate::process::{Worker, task};

const VARIABLE: &str = "SEAWALL_HOT_WORKER";
const PROCESSES: usize = 4;
const SECOND: Duration = Duration::from_secs(1);
/// Other keys that are read; Redis has them before it begins, as it would.
const KEYS: u64 = 2_000;
const HOT: u64 = 7;
/// How long the processes wait for each other at most.
const PATIENCE_SECONDS: u64 = 60;

/// Reads a second in each process, and from how many on a key is hot. In debug builds a machine that
/// runs other tests too manages a fraction.
const fn pace() -> (u64, u64) {
    if cfg!(debug_assertions) { (400, 200) } else { (5_000, 1_000) }
}

/// One clock for all processes.
fn micros() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

fn open(seawall: &Seawall) -> Cache<u64, u64> {
    let rules = HotRules::all(HotRule::new(pace().1, SECOND));
    let builder = seawall.cache("goods").local_keeps(LocalKeeps::HotOnly);
    builder.hot_keys(rules).build().expect("settings that agree")
}

async fn number(seawall: &Seawall, key: &str) -> u64 {
    let value: Option<u64> =
        seawall.client().query(key.as_bytes(), cmd("GET").arg(key)).await.expect("Redis answers");
    value.unwrap_or(0)
}

async fn read(seawall: &Seawall, cache: &Cache<u64, u64>, key: u64) -> (Source, u64) {
    let source = seawall.clone();
    let load =
        move || async move { Ok::<_, Error>(Loaded::Found(number(&source, "database").await)) };
    let read = cache.get_or_load(&key, load).await.expect("an answer");
    (read.source, read.value.as_deref().copied().expect("a value"))
}

async fn say(seawall: &Seawall, list: &str, number: u64) {
    let mut push = cmd("RPUSH");
    push.arg(list).arg(number);
    seawall.client().send(list.as_bytes(), &push).await.expect("Redis answers");
}

/// One of the processes; nothing to do for the test runner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(url) = task(VARIABLE) else { return };
    let seawall = Seawall::connect(&url).await.expect("Redis answers");
    let cache = open(&seawall);
    for key in 0..KEYS {
        read(&seawall, &cache, key + 100).await;
    }
    let mut said = [false; 2];
    let mut go = false;
    let mut began = micros();
    say(&seawall, "ready", began).await;
    let mut turn = 0;
    loop {
        if turn % 32 == 0 {
            if !go && number(&seawall, "go").await > 0 {
                (go, began, turn) = (true, micros(), 0);
            }
            if number(&seawall, "end").await > 0 {
                break;
            }
        }
        let hot = go && turn % 2 == 0;
        let key = if hot { HOT } else { rand::random::<u64>() % KEYS + 100 };
        let (source, value) = read(&seawall, &cache, key).await;
        if hot && source == Source::Local && !said[0] {
            said[0] = true;
            say(&seawall, "held", micros()).await;
        }
        if hot && value >= 2 && !said[1] {
            said[1] = true;
            say(&seawall, "new", micros()).await;
        }
        assert!(!hot || !said[1] || value >= 2, "an old value after a new one");
        turn += 1;
        let due = began + turn * 1_000_000 / pace().0;
        tokio::time::sleep(Duration::from_micros(due.saturating_sub(micros()))).await;
    }
    say(&seawall, "pace", turn * 1_000_000 / (micros() - began).max(1)).await;
    seawall.shutdown().await;
}

/// What each of the processes said here.
async fn heard(seawall: &Seawall, list: &str) -> Vec<u64> {
    let mut said = Vec::new();
    let mut connection = seawall.client().dedicated(list.as_bytes()).await.expect("a connection");
    while said.len() < PROCESSES {
        let mut pop = cmd("BLPOP");
        pop.arg(list).arg(PATIENCE_SECONDS);
        let limit = Duration::from_secs(PATIENCE_SECONDS + 5);
        let popped: Option<(String, u64)> =
            connection.send(&pop, limit).await.expect("Redis answers");
        let (_, number) = popped.unwrap_or_else(|| panic!("{list}: only {said:?}"));
        said.push(number);
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn a_sudden_hot_key_is_held_by_all_and_its_invalidation_reaches_all() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let seawall = Seawall::connect(&server.url()).await.expect("connected");
    let set = async |key: &str, value: u64| {
        let mut set = cmd("SET");
        set.arg(key).arg(value);
        seawall.client().send(key.as_bytes(), &set).await.expect("Redis answers");
    };
    set("database", 1).await;
    let cache = open(&seawall);
    let start = || Worker::start("speed::work", VARIABLE, &[server.url()]);
    let workers: Vec<Worker> = (0..PROCESSES).map(|_| start()).collect();
    heard(&seawall, "ready").await;
    let began = micros();
    set("go", 1).await;
    let held = heard(&seawall, "held").await;
    let hot = seawall.hot_keys().fleet().await.expect("a list");
    assert!(hot.iter().any(|hot| hot.key == format!("goods:{HOT}")), "{hot:?}");

    set("database", 2).await;
    let changed = micros();
    let done = cache.invalidate(&HOT).await.expect("a good key");
    let Invalidation::Applied(version) = done else { panic!("Redis is there") };
    let load = || async { Ok::<_, Error>(Loaded::Found(2)) };
    let strong = cache.get_or_load_as(Freshness::Strong, &HOT, load).await.expect("an answer");
    assert_eq!(strong.value.as_deref(), Some(&2));
    assert!(strong.version >= version || strong.version.0 == 0);
    let new = heard(&seawall, "new").await;
    set("end", 1).await;
    let after = |times: &[u64], from: u64| {
        times.iter().map(|time| time.saturating_sub(from) / 1000).max().unwrap_or(0)
    };
    let pace: u64 = heard(&seawall, "pace").await.iter().sum();
    println!(
        "{pace} reads a second: held by all {PROCESSES} processes after {} ms, its invalidation seen by all after {} ms",
        after(&held, began),
        after(&new, changed)
    );
    workers.into_iter().for_each(Worker::join);
    seawall.shutdown().await;
}
