//! Skew: a planted slot is found, for data and for accesses.

use std::time::Duration;

use seawall::{
    cmd,
    survey::{End, Listen},
};
use seawall_testkit::backend::Backend;

use crate::ground::Ground;

/// One slot has most of the memory, by one key; another takes most of the reads.
async fn the_planted_slots_are_found(backend: Backend) {
    let ground = Ground::open(backend).await;
    let client = ground.seawall.client().clone();
    for number in 0..500 {
        let key = format!("even:{number}");
        client.send(key.as_bytes(), cmd("SET").arg(&key).arg("x")).await.expect("it is written");
    }
    let big = "{heavy}:list";
    let set = cmd("SET").arg(big).arg("x".repeat(1_000_000)).take();
    client.send(big.as_bytes(), &set).await.expect("it is written");
    if backend == Backend::Cluster {
        ground.settle().await;
    }
    let load = tokio::spawn({
        let client = client.clone();
        async move {
            for step in 0u64.. {
                let key = if step % 4 == 0 { format!("even:{}", step % 500) } else { "hot".into() };
                if client.send(key.as_bytes(), cmd("GET").arg(&key)).await.is_err() {
                    return;
                }
            }
        }
    });
    let bounds = Listen { time: Duration::from_secs(30), lines: 2_000 };
    let survey = ground.seawall.skew_survey().rate(0).listen(bounds);
    let (report, end) = survey.run(|_| {}, std::future::pending()).await.expect("it begins");
    load.abort();
    assert!(matches!(end, End::Complete), "{end:?}");
    let heavy = &report.heavy_slots[0];
    let slot: u16 = match backend {
        Backend::Cluster => {
            client.query(b"x", cmd("CLUSTER").arg("KEYSLOT").arg(big)).await.expect("a slot")
        }
        _ => heavy.slot,
    };
    assert_eq!(heavy.slot, slot);
    let (key, bytes) = heavy.largest.as_ref().expect("it has a key");
    assert_eq!(&**key, big.as_bytes());
    assert!(*bytes > 1_000_000 && report.slot_bytes.0 > 10.0, "{report:?}");
    let hot = &report.hot_slots[0];
    assert_eq!(hot.hottest.as_ref().map(|(key, _)| &**key), Some(&b"hot"[..]), "{hot:?}");
    assert!(report.advice.iter().any(|line| line.contains(big)), "{:?}", report.advice);
    assert!(
        report.advice.iter().any(|line| line.contains("hot most of them")),
        "{:?}",
        report.advice
    );
    assert_eq!(report.sampled, 501);
    match backend {
        Backend::Cluster => {
            assert_eq!(report.nodes.len(), 3);
            assert!(report.node_bytes.0 > 2.0, "{:?}", report.node_bytes);
            let commands: f64 = report.nodes.iter().map(|node| node.commands_per_second).sum();
            assert!(commands > 0.0);
        }
        _ => assert!(report.notes.iter().any(|note| note.contains("no Cluster"))),
    }
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_planted_slots_are_found_on_a_cluster() {
    the_planted_slots_are_found(Backend::Cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_planted_slots_are_found_on_redis() {
    the_planted_slots_are_found(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_planted_slots_are_found_on_embedded() {
    the_planted_slots_are_found(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sample_stands_for_the_rest() {
    let ground = Ground::open(Backend::Redis).await;
    let client = ground.seawall.client();
    for number in 0..5_000 {
        let key = format!("even:{number:04}");
        let commands = vec![(key.clone().into_bytes(), cmd("SET").arg(&key).arg("x").take())];
        client.send_all(commands).await.remove(0).expect("it is written");
    }
    let all = ground.seawall.skew_survey().rate(0);
    let (whole, _) = all.run(|_| {}, std::future::pending()).await.expect("it begins");
    let (part, _) = all.sample(1_000).run(|_| {}, std::future::pending()).await.expect("it begins");
    assert!(part.sampled >= 1_000 && part.sampled < 2_500, "{}", part.sampled);
    let (whole, part) = (whole.nodes[0].bytes as f64, part.nodes[0].bytes as f64);
    assert!((part / whole - 1.0).abs() < 0.05, "{part} for {whole}");
    ground.seawall.shutdown().await;
}
