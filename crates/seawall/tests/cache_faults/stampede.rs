//! 10,000 readers in four processes on one key: cold, and past its lifetime.
//!
//! Each process starts 2,500 reads at once when the database says so, and writes down what they saw.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Loaded, Source},
};
use seawall_testkit::ServerProcess;

use crate::{
    database::{Client, Database, Phase},
    process::{Worker, task},
};

const VARIABLE: &str = "SEAWALL_CACHE_CROWD";
const PROCESSES: u64 = 4;
const READERS: u64 = 2500;
/// How long the source takes.
const LOAD: Duration = Duration::from_secs(2);
const KEY: u64 = 0;
const FRESH: Duration = Duration::from_millis(500);

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    seawall
        .cache("crowd")
        .local_max_bytes(0)
        .jitter(0.0)
        .ttl(FRESH)
        .max_stale(Duration::from_secs(60))
        .build()
        .expect("options agree")
}

/// A process of readers; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crowd() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, socket, folder, number] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("four words");
    let seawall = Seawall::builder(url)
        .response_timeout(Duration::from_secs(5))
        .connect()
        .await
        .expect("connected");
    let cache = build(&seawall);
    let database = Client::new(Path::new(socket));
    database.count(crate::database::Tally::Settled, 1).await.expect("the database answers");
    while database.floor(KEY).await.expect("the database answers").phase == Phase::Faults {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut readers = tokio::task::JoinSet::new();
    for _ in 0..READERS {
        let (cache, database) = (cache.clone(), database.clone());
        readers.spawn(async move {
            let load = move || async move {
                let version = database.load(KEY).await?;
                tokio::time::sleep(LOAD).await;
                Ok::<_, io::Error>(Loaded::Found(version))
            };
            let began = Instant::now();
            let read = cache.get_or_load(&KEY, load).await.expect("an answer");
            (began.elapsed(), read.source)
        });
    }
    let (mut slowest, mut stale) = (Duration::ZERO, 0_u64);
    while let Some(read) = readers.join_next().await {
        let (took, source) = read.expect("no panic");
        slowest = slowest.max(took);
        stale += u64::from(source == Source::Stale);
    }
    let line = format!("{} {stale}", slowest.as_millis());
    std::fs::write(Path::new(folder).join(number), line).expect("an own folder");
    // A refresh in the background goes on until it is stored.
    let patience = Instant::now();
    while database.floor(KEY).await.is_ok_and(|floor| floor.phase < Phase::Stop)
        && patience.elapsed() < LOAD * 10
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    seawall.shutdown().await;
}

/// Loads, the slowest read, and how many were given an old value.
async fn stampede(server: &ServerProcess, cold: bool) -> (u64, Duration, u64) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::start(folder.path(), 1);
    let seawall = Seawall::connect(&server.url()).await.expect("connected");
    let cache = build(&seawall);
    let words = |number: u64| {
        [
            server.url(),
            database.socket().display().to_string(),
            folder.path().display().to_string(),
            number.to_string(),
        ]
    };
    let crowds: Vec<Worker> = (0..PROCESSES)
        .map(|number| Worker::start("stampede::crowd", VARIABLE, &words(number)))
        .collect();
    let patience = Instant::now();
    while database.count(crate::database::Tally::Settled) < PROCESSES {
        assert!(patience.elapsed() < Duration::from_secs(30), "not all processes came up");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if !cold {
        let seed = || async { Ok::<_, io::Error>(Loaded::Found(0)) };
        let _ = cache.get_or_load(&KEY, seed).await.expect("loaded");
        tokio::time::sleep(FRESH + Duration::from_millis(50)).await;
    }
    database.enter(Phase::Calm);
    let answers: Vec<_> = (0..PROCESSES).map(|n| folder.path().join(n.to_string())).collect();
    while !answers.iter().all(|answer| answer.exists()) {
        assert!(patience.elapsed() < Duration::from_secs(60), "not all readers were answered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if !cold {
        // The refresh ends long before the value could be asked for again.
        tokio::time::sleep(LOAD).await;
    }
    let loads = database.loads();
    database.enter(Phase::Stop);
    tokio::task::spawn_blocking(|| crowds.into_iter().for_each(Worker::join))
        .await
        .expect("they end");
    seawall.shutdown().await;
    let (mut slowest, mut stale) = (0, 0);
    for answer in answers {
        let text = std::fs::read_to_string(answer).expect("it was written");
        let (millis, count) = text.split_once(' ').expect("two figures");
        slowest = slowest.max(millis.parse::<u64>().expect("a figure"));
        stale += count.parse::<u64>().expect("a figure");
    }
    (loads, Duration::from_millis(slowest), stale)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn ten_thousand_readers_of_a_cold_key_cause_one_load() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let (loads, slowest, stale) = stampede(&server, true).await;
    println!("cold: {} readers, {loads} loads, slowest {slowest:?}", PROCESSES * READERS);
    assert_eq!((loads, stale), (1, 0));
    assert!(slowest >= LOAD, "those who waited for the load had to wait: {slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn ten_thousand_readers_of_a_stale_key_cause_one_refresh_and_none_waits() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let (loads, slowest, stale) = stampede(&server, false).await;
    println!("stale: {} readers, {loads} refreshes, slowest {slowest:?}", PROCESSES * READERS);
    assert_eq!((loads, stale), (1, PROCESSES * READERS));
    assert!(slowest < LOAD, "somebody waited for the refresh: {slowest:?}");
}
