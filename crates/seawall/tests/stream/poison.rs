//! An entry that aborts its process: it alone is parked, whoever was delivered together with it.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    stream::{Delivery, Outcome, Stream},
};
use seawall_testkit::backend::{Backend, TestBackend};
use tempfile::TempDir;

use crate::{
    PATIENCE, ended,
    ledger::{Key, Ledger, applied},
    process::{Worker as Process, task},
};

const VARIABLE: &str = "SEAWALL_STREAM_POISON";
const IDLE: Duration = Duration::from_millis(300);
const ENTRIES: u64 = 60;

/// What a trial is about.
#[derive(Debug, Clone)]
struct Trial {
    url: String,
    prefix: String,
    ledger: PathBuf,
    streams: u64,
    limit: u64,
    /// Every so manieth entry aborts the process.
    poison: u64,
    batches: bool,
}

impl Trial {
    fn start(&self, name: &str) -> Process {
        let words = [
            self.url.clone(),
            self.prefix.clone(),
            self.ledger.display().to_string(),
            self.streams.to_string(),
            self.limit.to_string(),
            self.poison.to_string(),
            self.batches.to_string(),
            name.to_owned(),
        ];
        Process::start("poison::work", VARIABLE, &words)
    }

    fn streams(&self, seawall: &Seawall) -> Vec<Stream<u64>> {
        let name = |number| format!("poison-{number}");
        (0..self.streams).map(|number| seawall.stream(name(number)).expect("a name")).collect()
    }

    fn is_poison(&self, number: u64) -> bool {
        number % self.poison == self.poison / 2
    }
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, prefix, ledger, streams, limit, poison, batches, name] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("eight words");
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let trial = Arc::new(Trial {
        url: url.to_owned(),
        prefix: prefix.to_owned(),
        ledger: ledger.into(),
        streams: number(streams),
        limit: number(limit),
        poison: number(poison),
        batches: batches == "true",
    });
    let ledger = Arc::new(Ledger::open(&trial.ledger, Key::Unique));
    let seawall = Seawall::builder(url).prefix(prefix).connect().await.expect("in");
    let mut builder = seawall.stream_worker("g", trial.streams(&seawall));
    builder = builder.batch_size(16).concurrency(16).claim_idle(IDLE).max_attempts(trial.limit);
    if name != "-" {
        builder = builder.consumer(name);
    }
    let batches = trial.batches;
    let handle = Arc::new(async move |deliveries: Vec<Delivery<u64>>| {
        for delivery in &deliveries {
            if trial.is_poison(*delivery.payload()) {
                std::process::abort();
            }
        }
        // Neighbours are at work when the poison is begun.
        tokio::time::sleep(Duration::from_millis(5)).await;
        for delivery in deliveries {
            ledger.apply(&delivery.reference(), *delivery.payload());
        }
        Outcome::Done
    });
    let _worker = match batches {
        true => builder.spawn_batches(move |deliveries| {
            let handle = Arc::clone(&handle);
            async move { handle(deliveries).await }
        }),
        false => builder.spawn(move |delivery| {
            let handle = Arc::clone(&handle);
            async move { handle(vec![delivery]).await }
        }),
    }
    .expect("valid");
    // The parent ends it.
    std::future::pending::<()>().await;
}

/// Starts a worker again and again until everything is settled; how often one died.
async fn run_until_settled(trial: &Trial, streams: &[Stream<u64>], named: bool) -> u64 {
    let mut deaths = 0;
    let name = |deaths: u64| match (named, deaths % 2) {
        (true, _) => "same".to_owned(),
        (false, 0) => "-".to_owned(),
        (false, _) => format!("run-{deaths}"),
    };
    let mut worker = trial.start(&name(0));
    let deadline = Instant::now() + 4 * PATIENCE;
    loop {
        if let Some(by_signal) = ended(&mut worker) {
            assert!(by_signal, "a worker ended by itself");
            deaths += 1;
            worker = trial.start(&name(deaths));
        }
        let mut left = 0;
        for stream in streams {
            let status = stream.status("g").await.expect("answered");
            left += status.length;
        }
        if left == 0 {
            return deaths;
        }
        assert!(Instant::now() < deadline, "{left} are left after {deaths} deaths");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Runs a trial and judges it.
async fn run(backend: Backend, streams: u64, limit: u64, poison: u64, named: bool, batches: bool) {
    let stand = TestBackend::shared(backend).expect("the backend starts");
    let folder = TempDir::new().expect("a folder");
    let prefix = format!("poison-{:08x}:", rand::random::<u32>());
    let socket = folder.path().join("engine.sock");
    let builder = Seawall::builder(stand.url()).prefix(&prefix);
    let (builder, url) = match backend {
        Backend::Embedded => (builder.engine_socket(&socket), format!("unix:{}", socket.display())),
        _ => (builder, stand.url().to_owned()),
    };
    let seawall = builder.connect().await.expect("in");
    let ledger = folder.path().join("ledger");
    let trial = Trial { url, prefix, ledger, streams, limit, poison, batches };
    let streams = trial.streams(&seawall);
    for number in 0..ENTRIES {
        let stream = &streams[(number % trial.streams) as usize];
        stream.append(&number).await.expect("appended");
    }
    let deaths = run_until_settled(&trial, &streams, named).await;
    let mut parked = BTreeSet::new();
    for stream in &streams {
        for one in stream.dead_letters(None).await.expect("answered") {
            let data = one.fields.get("data").expect("its payload");
            parked.insert(std::str::from_utf8(data).expect("text").parse::<u64>().expect("number"));
            assert!(one.reason.contains("never settled"), "{}", one.reason);
        }
    }
    let guilty: BTreeSet<u64> = (0..ENTRIES).filter(|number| trial.is_poison(*number)).collect();
    let innocent: BTreeSet<u64> = (0..ENTRIES).filter(|n| !trial.is_poison(*n)).collect();
    assert_eq!(parked, guilty, "after {deaths} deaths");
    let applied = applied(&trial.ledger);
    assert_eq!(applied.keys().copied().collect::<BTreeSet<_>>(), innocent);
    assert!(applied.values().all(|times| *times == 1));
    // Each begins once with others, and then as often as is allowed alone.
    let most = guilty.len() as u64 * (limit + 1);
    assert!((limit..=most).contains(&deaths), "{deaths} deaths, at most {most}");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_aborts_its_process_is_parked_alone_on_redis() {
    run(Backend::Redis, 1, 3, ENTRIES, false, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_aborts_its_process_is_parked_alone_on_the_embedded_engine() {
    run(Backend::Embedded, 1, 5, ENTRIES, true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_abort_their_process_are_parked_alone_on_a_cluster() {
    run(Backend::Cluster, 4, 2, 20, true, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_abort_their_process_are_parked_alone_out_of_batches() {
    run(Backend::Redis, 1, 1, 15, false, true).await;
}
