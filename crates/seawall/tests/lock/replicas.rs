//! Taking a lock so that replicas have it: enough acknowledge, or nobody holds it.

use std::time::Duration;

use seawall::{Seawall, cmd, lock::Release};
use seawall_testkit::{ServerProcess, backend::Backend};

use crate::ground::{Ground, assert_busy, eventually, take};

const LIMIT: Duration = Duration::from_secs(5);

async fn is_held_on_replicas(backend: Backend, count: u32) {
    let ground = Ground::new(backend).await;
    let (a, b) = (ground.connect().await, ground.connect().await);
    let guard = take(&a.lock("x").replicas(count, LIMIT)).await;
    assert_busy(&b.lock("x")).await;
    assert_eq!(guard.release().await.expect("answered"), Release::Released);
    let _free = take(&b.lock("x").replicas(count, LIMIT)).await;
    ground.end([a, b]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinel_both_replicas_have_it() {
    is_held_on_replicas(Backend::Sentinel, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_the_replica_has_it() {
    is_held_on_replicas(Backend::Cluster, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_few_replicas_are_a_refusal_and_nothing_stays_held() {
    let server = ServerProcess::redis().expect("a server starts");
    let handle = Seawall::connect(&server.url()).await.expect("connected");
    let lock = handle.lock("x").replicas(1, Duration::from_millis(50));
    let error = lock.try_acquire().await.expect_err("there is no replica");
    assert!(error.is_code("NOREPLICAS") && error.to_string().contains("0 of 1"), "{error}");
    eventually("it is given back", async || {
        let key = b"lock:{x}";
        handle.client().query::<i64>(key, cmd("EXISTS").arg(key)).await.expect("answered") == 0
    })
    .await;
    // Who holds it without the policy is not disturbed by one that asks with it.
    let held = take(&handle.lock("x")).await;
    assert_busy(&lock).await;
    assert_eq!(held.release().await.expect("answered"), Release::Released);
    handle.shutdown().await;
}
