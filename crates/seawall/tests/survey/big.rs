//! Big keys of running servers: the top equals the truth, within the rate, on replicas.

use std::time::{Duration, Instant};

use seawall::{
    cmd,
    survey::{End, Kind, Measure, Role, Severity, Source, Thresholds, Tiers},
};
use seawall_testkit::backend::Backend;

use crate::ground::{Ground, LARGE};

/// A million keys in the soak, a twentieth in the tests.
fn keys() -> u64 {
    if std::env::var_os("SEAWALL_SOAK").is_some() { 1_000_000 } else { 50_000 }
}

async fn the_top_equals_the_truth(backend: Backend) {
    let ground = Ground::open(backend).await;
    let count = keys();
    ground.fill(count).await;
    if matches!(backend, Backend::Cluster | Backend::Sentinel) {
        ground.settle().await;
    }
    let rate = 100_000;
    let started = Instant::now();
    let mut steps = 0u64;
    let survey = ground.seawall.survey().rate(rate);
    let surveyed = survey
        .run(
            |progress| {
                steps += 1;
                assert!(progress.seen <= count && progress.total >= count, "{progress:?}");
            },
            std::future::pending(),
        )
        .await
        .expect("it begins");
    let took = started.elapsed();
    let report = surveyed.report;
    assert!(matches!(surveyed.end, End::Complete), "{:?}", surveyed.end);
    let top: Vec<_> = report.largest.iter().map(seawall::survey::Finding::key_text).collect();
    assert_eq!(top, Ground::truth(count, 20));
    assert_eq!(report.totals.keys, count, "duplicates are counted once, nothing is left out");
    // A bucket of a twentieth of a second's keys may be full at the start.
    let least = Duration::from_secs_f64((count - rate / 20) as f64 / rate as f64);
    assert!(took >= least, "{took:?} is faster than the rate allows, {least:?}");
    assert!(steps > 10, "progress was told {steps} times");
    let kinds: Vec<_> = report.by_kind.iter().map(|(kind, sum)| (*kind, sum.keys)).collect();
    let tenth = count / 10;
    assert_eq!(kinds, [(Kind::String, tenth * 8), (Kind::Set, tenth), (Kind::Hash, tenth)]);
    assert_eq!(report.totals.without_lifetime, tenth * 6);
    assert_eq!(report.by_prefix.len(), 1);
    assert_eq!(report.critical, 0);
    assert_eq!(report.warn, (count - LARGE..count).filter(|number| number % 10 < 8).count() as u64);
    let roles: Vec<_> = report.asked.iter().filter_map(|asked| asked.role).collect();
    match backend {
        Backend::Cluster => assert_eq!(roles, [Role::Replica; 3]),
        Backend::Sentinel => assert_eq!(roles, [Role::Replica]),
        _ => assert_eq!(roles, [Role::Primary]),
    }
    let members: u64 = report
        .by_kind
        .iter()
        .find(|(kind, _)| *kind == Kind::Set)
        .map_or(0, |(_, sum)| sum.members);
    assert_eq!(members, 2 * tenth);
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_top_equals_the_truth_on_embedded() {
    the_top_equals_the_truth(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_top_equals_the_truth_on_redis() {
    the_top_equals_the_truth(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_top_equals_the_truth_on_replicas_of_a_cluster() {
    the_top_equals_the_truth(Backend::Cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_top_equals_the_truth_on_a_replica_behind_sentinels() {
    the_top_equals_the_truth(Backend::Sentinel).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_thresholds_and_sources_are_kept_to() {
    let ground = Ground::open(Backend::Redis).await;
    ground.fill(500).await;
    let report = ground.survey(&ground.seawall.survey().rate(0).kind(Kind::Hash)).await;
    assert_eq!(report.totals.keys, 50);
    let report = ground.survey(&ground.seawall.survey().rate(0).matching("fill:3:*")).await;
    assert_eq!(report.totals.keys, (0..500u64).filter(|number| number % 7 == 3).count() as u64);
    let mut thresholds = Thresholds::default();
    thresholds.set(Kind::Set, Measure::Members, Tiers { warn: 1, critical: 2 });
    let survey = ground.seawall.survey().rate(0).kind(Kind::Set).thresholds(thresholds).top(3);
    let report = ground.survey(&survey).await;
    assert_eq!((report.critical, report.flagged.len(), report.largest.len()), (50, 50, 3));
    assert!(report.flagged.iter().all(|found| found.severity == Severity::Critical));
    let only = ground.seawall.survey().source(Source::Replica);
    let refused = only.run(|_| {}, std::future::pending()).await.expect_err("it has no replica");
    assert!(refused.to_string().contains("no replica"), "{refused}");
    ground
        .seawall
        .survey()
        .top(1_000_000)
        .run(|_| {}, std::future::pending())
        .await
        .expect_err("too many");
    ground.seawall.shutdown().await;
}

/// Eight keys among ten thousand: most pages of the scan are empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rare_keys_are_found_behind_empty_pages() {
    let ground = Ground::open(Backend::Embedded).await;
    ground.fill(10_000).await;
    for number in 0..8 {
        let key = format!("rare:{number}");
        let set = cmd("SET").arg(&key).arg(1).take();
        ground.seawall.client().send(key.as_bytes(), &set).await.expect("it is written");
    }
    let survey = ground.seawall.survey().rate(0).matching("rare:*");
    assert_eq!(ground.survey(&survey).await.totals.keys, 8, "no rare key is left out");
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn binary_keys_lifetimes_and_idle_times_are_told() {
    let ground = Ground::open(Backend::Redis).await;
    let client = ground.seawall.client();
    let key = b"\x00bin\xff{}\n";
    let set = cmd("SET").arg(&key[..]).arg("x".repeat(30_000)).arg("EX").arg(1_000).take();
    client.send(key, &set).await.expect("it is written");
    let report = ground.survey(&ground.seawall.survey()).await;
    let found = &report.flagged[0];
    assert_eq!(&*found.key, key);
    assert_eq!(found.key_text(), r"\x00bin\xff{}\x0a");
    let lifetime = found.lifetime.expect("it has one");
    assert!(lifetime <= Duration::from_secs(1_000) && lifetime > Duration::from_secs(900));
    assert!(found.idle.is_some_and(|idle| idle < Duration::from_secs(900)));
    assert_eq!(found.members, 30_000);
    assert!(report.notes.iter().any(|note| note.contains("SAMPLES 5")), "{:?}", report.notes);
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_survey_tells_what_it_found() {
    let ground = Ground::open(Backend::Embedded).await;
    ground.fill(5_000).await;
    let (enough, stop) = tokio::sync::oneshot::channel();
    let mut enough = Some(enough);
    // Slow enough that it cannot end by itself before the deadline of any test.
    let survey = ground.seawall.survey().rate(20);
    let surveyed = survey
        .run(
            |progress| {
                if progress.seen >= 10
                    && let Some(enough) = enough.take()
                {
                    enough.send(()).expect("somebody waits");
                }
            },
            async {
                stop.await.expect("it is told");
            },
        )
        .await
        .expect("it begins");
    assert!(matches!(surveyed.end, End::Interrupted), "{:?}", surveyed.end);
    let keys = surveyed.report.totals.keys;
    assert!((10..1_000).contains(&keys), "{keys}");
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_leaves_what_was_found() {
    let ground = Ground::open(Backend::Redis).await;
    ground.fill(5_000).await;
    let server = ground.stand.server().expect("it is private");
    let mut killed = false;
    let survey = ground.seawall.survey().rate(1_000);
    let surveyed = survey
        .run(
            |progress| {
                if progress.seen >= 100 && !std::mem::replace(&mut killed, true) {
                    server.signal("KILL").expect("it runs");
                }
            },
            std::future::pending(),
        )
        .await
        .expect("it begins");
    assert!(matches!(surveyed.end, End::Failed(_)), "{:?}", surveyed.end);
    assert!(surveyed.report.totals.keys >= 50, "{}", surveyed.report.totals.keys);
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_counted_once_while_the_table_grows_and_shrinks() {
    let ground = Ground::open(Backend::Redis).await;
    ground.fill(3_000).await;
    let client = ground.seawall.client().clone();
    // Up and down between 3,000 and 23,000 keys: the server's table is resized under the scan.
    let churn = tokio::spawn(async move {
        for round in 0u64.. {
            let command = |number: u64| {
                let key = format!("churn:{number}");
                let command = match round % 2 {
                    0 => cmd("SET").arg(&key).arg(1).take(),
                    _ => cmd("DEL").arg(&key).take(),
                };
                (key.into_bytes(), command)
            };
            if client.send_all((0..20_000).map(command).collect()).await.iter().any(Result::is_err)
            {
                return;
            }
        }
    });
    let survey = ground.seawall.survey().rate(20_000).matching("fill:*");
    for _ in 0..3 {
        let report = ground.survey(&survey).await;
        assert_eq!(report.totals.keys, 3_000, "{} duplicates", report.duplicates);
    }
    churn.abort();
    ground.seawall.shutdown().await;
}
