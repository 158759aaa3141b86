//! A server that comes back with an older state brings back what was invalidated.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded},
    cmd,
};
use seawall_testkit::ServerProcess;

/// Nothing stale is left this long after the server is back.
const HEALED: Duration = Duration::from_secs(5);

async fn read(cache: &Cache<u64, u64>, value: u64) -> Option<u64> {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(value)) };
    let read = cache.get_or_load_as(Freshness::Strong, &1, load).await.expect("an answer");
    read.value.as_deref().copied()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledged_invalidation_that_the_server_forgot_is_done_again() {
    let mut server = ServerProcess::redis().expect("it starts");
    let seawall = Seawall::connect(&server.url()).await.expect("it answers");
    let cache: Cache<u64, u64> =
        seawall.cache("ghost").fresh_for(Duration::from_secs(600)).build().expect("options agree");
    assert_eq!(read(&cache, 1).await, Some(1));
    seawall.link().send(b"", &cmd("SAVE")).await.expect("a snapshot with the old value");
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    assert_eq!(read(&cache, 2).await, Some(2));
    server.restart().expect("it starts from the snapshot");
    tokio::time::sleep(HEALED).await;
    assert_eq!(read(&cache, 2).await, Some(2), "the old entry was back and is gone");
    seawall.shutdown().await;
}
