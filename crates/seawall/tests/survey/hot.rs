//! Hot keys: a planted one is found, by counters and by listening.

use std::time::Duration;

use seawall::{
    cmd,
    survey::{End, HotFound, HotReport, Listen},
};
use seawall_testkit::backend::Backend;
use tokio::task::JoinHandle;

use crate::ground::Ground;

fn found(outcome: HotFound) -> HotReport {
    match outcome {
        HotFound::Found { report, end: End::Complete } => report,
        other => panic!("{other:?}"),
    }
}

/// Half of all reads go to one key, the others to a thousand; until the task is ended.
fn traffic(ground: &Ground) -> JoinHandle<()> {
    let client = ground.seawall.client().clone();
    tokio::spawn(async move {
        for step in 0u64.. {
            let cold = format!("cold:{}", step % 1_000);
            let mut commands = Vec::new();
            for (key, write) in
                [("hot\n\u{ff}", false), (cold.as_str(), false), ("hot\n\u{ff}", step % 4 == 0)]
            {
                let command = match write {
                    true => cmd("SET").arg(key).arg(step).take(),
                    false => cmd("GET").arg(key).take(),
                };
                commands.push((key.as_bytes().to_vec(), command));
            }
            for reply in client.send_all(commands).await {
                if reply.is_err() {
                    return;
                }
            }
        }
    })
}

async fn listening_finds_the_planted_key(backend: Backend) {
    let ground = Ground::open(backend).await;
    let load = traffic(&ground);
    let bounds = Listen { time: Duration::from_secs(30), lines: 3_000 };
    let hot = ground.seawall.hot_survey().top(5);
    let report = found(hot.by_monitor(bounds, std::future::pending()).await.expect("it is heard"));
    load.abort();
    let first = &report.keys[0];
    assert_eq!(&*first.key, "hot\n\u{ff}".as_bytes(), "{report:?}");
    assert!(first.reads > first.writes && first.writes > 0, "{first:?}");
    assert!(first.score * 3 >= report.examined, "two of three: {first:?} of {}", report.examined);
    assert_eq!(report.keys.len(), 5);
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_finds_the_planted_key_on_embedded() {
    listening_finds_the_planted_key(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_finds_the_planted_key_on_redis() {
    listening_finds_the_planted_key(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_finds_the_planted_key_on_a_cluster() {
    listening_finds_the_planted_key(Backend::Cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn listening_has_bounds_and_ends_when_told() {
    let ground = Ground::open(Backend::Redis).await;
    let hot = ground.seawall.hot_survey();
    for bounds in [
        Listen { time: Duration::from_secs(61), lines: 10 },
        Listen { time: Duration::from_secs(1), lines: 0 },
        Listen { time: Duration::from_secs(1), lines: 10_000_000 },
    ] {
        let refused = hot.by_monitor(bounds, std::future::pending()).await;
        assert!(matches!(refused, Err(seawall::Error::Invalid(_))), "{refused:?}");
    }
    let quiet = Listen { time: Duration::from_secs(60), lines: 10 };
    let ended = hot.by_monitor(quiet, std::future::ready(())).await.expect("it begins");
    assert!(matches!(ended, HotFound::Found { end: End::Interrupted, .. }));
    ground.seawall.shutdown().await;
}

async fn counters_find_the_planted_key(backend: Backend) {
    let ground = Ground::open(backend).await;
    let client = ground.seawall.client();
    let hot = ground.seawall.hot_survey();
    let advice = hot.by_frequency(|_| {}, std::future::pending()).await.expect("it answers");
    assert!(matches!(advice, HotFound::Unsupported(text) if text.contains("allkeys-lfu")));
    let policy = cmd("CONFIG").arg("SET").arg("maxmemory-policy").arg("allkeys-lfu").take();
    client.send(b"", &policy).await.expect("it is set");
    ground.fill(500).await;
    client.send(b"hot", cmd("SET").arg("hot").arg(1)).await.expect("it is written");
    for _ in 0..2_000 {
        client.send(b"hot", cmd("GET").arg("hot")).await.expect("it is read");
    }
    let report =
        found(hot.by_frequency(|_| {}, std::future::pending()).await.expect("it is there"));
    assert_eq!(&*report.keys[0].key, b"hot", "{report:?}");
    assert!(report.keys[0].score > report.keys[1].score);
    assert_eq!(report.examined, 501);
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_find_the_planted_key_on_redis() {
    counters_find_the_planted_key(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counters_find_the_planted_key_on_embedded() {
    counters_find_the_planted_key(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_tracker_says_so() {
    let ground = Ground::open(Backend::Redis).await;
    let hot = ground.seawall.hot_survey();
    let outcome = hot.by_tracker(Duration::from_secs(1), std::future::pending()).await;
    let outcome = outcome.expect("it answers");
    assert!(matches!(outcome, HotFound::Unsupported(text) if text.contains("8.6")));
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_fleet_declared_is_listed() {
    let ground = Ground::open(Backend::Embedded).await;
    let hot = ground.seawall.hot_keys();
    hot.declare(b"sale:1", Duration::from_secs(600)).await.expect("it is declared");
    let survey = ground.seawall.hot_survey();
    let report = found(survey.by_fleet().await.expect("it is listed"));
    assert_eq!(report.keys.iter().map(|hot| &*hot.key).collect::<Vec<_>>(), [&b"sale:1"[..]]);
    let none = found(survey.matching("other:*").by_fleet().await.expect("it is listed"));
    assert!(none.keys.is_empty());
    ground.seawall.shutdown().await;
}
