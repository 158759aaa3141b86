//! Gentle deletion: exactly what matches, on every backend.

use seawall::{cmd, survey::End};
use seawall_testkit::backend::Backend;

use crate::ground::Ground;

async fn a_sweep_takes_away_what_matches_and_nothing_else(backend: Backend) {
    let ground = Ground::open(backend).await;
    ground.fill(1_000).await;
    let client = ground.seawall.client();
    let add = |number: u64| (b"other".to_vec(), cmd("RPUSH").arg("other").arg(number).take());
    client.send_all((0..5_000).map(add).collect()).await.pop().expect("a reply").expect("written");
    let sweep = ground.seawall.sweep("fill:*").rate(0);
    let (preview, end) = sweep.preview(|_| {}, std::future::pending()).await.expect("it begins");
    assert!(matches!(end, End::Complete), "{end:?}");
    assert_eq!((preview.found, preview.removed, preview.named.len()), (1_000, 0, 10));
    let (swept, end) = sweep.remove(|_| {}, std::future::pending()).await.expect("it begins");
    assert!(matches!(end, End::Complete), "{end:?}");
    assert_eq!((swept.found, swept.removed), (1_000, 1_000));
    let report = ground
        .survey(&ground.seawall.survey().rate(0).source(seawall::survey::Source::Primary))
        .await;
    assert_eq!(report.totals.keys, 1, "the other key stays");
    let keys = vec![b"other".to_vec(), b"nobody".to_vec()];
    let mut told = 0;
    let removed = ground.seawall.unlink_keys(&keys, 0, |keys| told += keys).await;
    assert_eq!((removed.expect("it answers"), told), (1, 2));
    ground.seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_is_exact_on_embedded() {
    a_sweep_takes_away_what_matches_and_nothing_else(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_is_exact_on_redis() {
    a_sweep_takes_away_what_matches_and_nothing_else(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_is_exact_on_a_cluster() {
    a_sweep_takes_away_what_matches_and_nothing_else(Backend::Cluster).await;
}
