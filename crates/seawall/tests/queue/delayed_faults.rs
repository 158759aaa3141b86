//! Consumers that are killed, replies that are lost: every item is done, and by its id once.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::Write,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};
use seawall::{
    Seawall,
    queue::{Added, Delayed, Job},
    stream::Outcome,
};
use seawall_testkit::{
    ServerProcess,
    backend::{Backend, TestBackend},
    proxy::{FaultProxy, On},
};

use crate::{
    ended, eventually,
    process::{Worker as Process, task},
};

const VARIABLE: &str = "SEAWALL_QUEUE_WORKER";
const ITEMS: u64 = 60;
const KILLS: usize = 8;

fn queue(seawall: &Seawall) -> Delayed<u64> {
    let builder = seawall.delayed_queue::<u64>("faults");
    builder.lease_ttl(Duration::from_millis(500)).max_attempts(1_000).build().expect("valid")
}

async fn add(queue: &Delayed<u64>, number: u64) {
    let mut added = None;
    eventually("it is added", async || {
        added = queue.add(format!("i-{number}"), &number, Duration::ZERO).await.ok();
        added.is_some()
    })
    .await;
    assert!(matches!(added, Some(Added::Now | Added::Before(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_and_cuts_lose_nothing() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("in");
    let queue = queue(&seawall);
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&seen);
    let worker =
        queue.worker().poll_interval(Duration::from_millis(100)).spawn(move |job: Job<u64>| {
            noted.lock().expect("no panic").insert(*job.payload());
            async { Outcome::Done }
        });
    let worker = worker.expect("valid");
    proxy.drop_reply(On::command("EVALSHA").probability(0.1));
    proxy.drop_request(On::command("EVALSHA").probability(0.05));
    for number in 0..ITEMS {
        add(&queue, number).await;
        if number % 20 == 19 {
            proxy.cut_all();
        }
    }
    proxy.heal();
    eventually("all are done", async || {
        let done = seen.lock().expect("no panic").len() as u64 == ITEMS;
        let left = queue.status().await.map(|status| status.waiting + status.leased + status.dead);
        done && left.is_ok_and(|left| left == 0)
    })
    .await;
    worker.shutdown().await;
    seawall.shutdown().await;
}

/// A consumer that kills itself at its third item, before or after it has written that down; as a test
/// without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consume() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, path, death] = words.split(' ').collect::<Vec<_>>().try_into().expect("three words");
    let seawall = Seawall::connect(url).await.expect("in");
    let file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
    let shared = Arc::new(Mutex::new((file, 0)));
    let death = death.to_owned();
    let builder = queue(&seawall).worker().concurrency(2).poll_interval(Duration::from_millis(100));
    let worker = builder.spawn(move |job: Job<u64>| {
        let die = |here: &str, count: u64| {
            if death == here && count == 3 {
                kill_process(getpid(), Signal::KILL).expect("ourselves");
            }
        };
        {
            let (file, count) = &mut *shared.lock().expect("no panic");
            *count += 1;
            die("before", *count);
            writeln!(file, "{}", job.payload()).expect("written");
            die("after", *count);
        }
        async { Outcome::Done }
    });
    let _worker = worker.expect("valid");
    // The parent ends it.
    std::future::pending::<()>().await;
}

fn done(path: &Path) -> BTreeSet<u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Consumers come back after each kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_are_killed_lose_nothing() {
    let stand = TestBackend::private(Backend::Redis).expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("done");
    let seawall = Seawall::connect(stand.url()).await.expect("in");
    let queue = queue(&seawall);
    for number in 0..ITEMS {
        add(&queue, number).await;
    }
    let start = |death: &str| {
        let words = [stand.url(), &path.display().to_string(), death];
        Process::start("delayed_faults::consume", VARIABLE, &words.map(str::to_owned))
    };
    for number in 0..KILLS {
        let mut consumer = start(if number % 2 == 0 { "before" } else { "after" });
        eventually("it has killed itself", async || ended(&mut consumer) == Some(true)).await;
    }
    let _last = start("never");
    eventually("nothing is left", async || {
        let status = queue.status().await.expect("answered");
        status.waiting + status.leased + status.dead == 0
    })
    .await;
    seawall.shutdown().await;
    let done = done(&path);
    let lost: Vec<u64> = (0..ITEMS).filter(|number| !done.contains(number)).collect();
    assert_eq!(lost, Vec::<u64>::new(), "items that were never done");
}

/// A Redis that may not grow takes no more items, and keeps what it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_takes_no_items() {
    let server = ServerProcess::redis().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("in");
    let queue = queue(&seawall);
    add(&queue, 0).await;
    let mut operator = server.connect().expect("connected");
    operator.call(&["CONFIG", "SET", "maxmemory", "1"]).expect("answered");
    let error = queue.add("i-1", &1, Duration::ZERO).await.expect_err("it is full");
    assert!(error.is_code("OOM"), "{error}");
    operator.call(&["CONFIG", "SET", "maxmemory", "0"]).expect("answered");
    add(&queue, 1).await;
    assert_eq!(queue.status().await.expect("answered").waiting, 2);
    seawall.shutdown().await;
}
