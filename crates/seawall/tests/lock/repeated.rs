//! Attempts that are made again because their replies were lost: permits and readers.

use std::time::Duration;

use seawall::{
    Seawall,
    lock::{AcquireOutcome, Lock},
};
use seawall_testkit::{Cluster, FaultProxy, ServerProcess, proxy::On};

use crate::ground::{PATIENCE, eventually, take};

/// The lease by which the proxies tell who loses its replies.
const UNLUCKY: Duration = Duration::from_secs(29);

fn is_unlucky(words: &[Vec<u8>]) -> bool {
    words.iter().any(|word| word == b"29000")
}

/// One holder takes its permit unknowingly, another one comes in between, the first asks again.
async fn two_holders_have_two_tokens(
    proxies: &[&FaultProxy],
    handle: &Seawall,
    lock: impl Fn(&Seawall) -> Lock,
) {
    let earlier = take(&lock(handle)).await;
    let watches: Vec<_> =
        proxies.iter().map(|proxy| proxy.watch(On::any().when(is_unlucky))).collect();
    let rules: Vec<_> =
        proxies.iter().map(|proxy| proxy.drop_reply(On::any().when(is_unlucky))).collect();
    let waiting = tokio::spawn({
        let lock = lock(handle).lease_ttl(UNLUCKY).poll_interval(Duration::from_millis(50));
        async move { lock.acquire(PATIENCE).await.expect("answered").acquired().expect("free") }
    });
    eventually("it holds unknowingly", async || watches.iter().any(|watch| watch.count() > 0))
        .await;
    let mut between = None;
    eventually("another one comes in between", async || {
        // The connection that lost a reply may have taken this one's along.
        between = lock(handle).try_acquire().await.ok().and_then(AcquireOutcome::acquired);
        between.is_some()
    })
    .await;
    let between = between.expect("it came in");
    proxies.iter().zip(rules).for_each(|(proxy, rule)| proxy.remove(rule));
    let asked_again = waiting.await.expect("it waited");
    assert_ne!(asked_again.token(), between.token(), "each holder has a token of its own");
    assert!(asked_again.token() > earlier.token() && between.token() > earlier.token());
    let later = take(&lock(handle)).await;
    assert!(later.token() > asked_again.token() && later.token() > between.token());
}

fn permit(handle: &Seawall) -> Lock {
    handle.semaphore("x", 9)
}

fn reader(handle: &Seawall) -> Lock {
    handle.rw_lock("x").read()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_that_ask_again_have_tokens_of_their_own_on_redis() {
    let server = ServerProcess::redis().expect("a server starts");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let handle = Seawall::connect(&proxy.url()).await.expect("connected");
    two_holders_have_two_tokens(&[&proxy], &handle, permit).await;
    two_holders_have_two_tokens(&[&proxy], &handle, reader).await;
    handle.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_that_ask_again_have_tokens_of_their_own_on_a_cluster() {
    let cluster = Cluster::builder().proxied().start().expect("a Cluster starts");
    let proxies: Vec<_> = cluster.nodes().iter().filter_map(|node| node.proxy()).collect();
    let handle = Seawall::connect(&cluster.url()).await.expect("connected");
    two_holders_have_two_tokens(&proxies, &handle, permit).await;
    two_holders_have_two_tokens(&proxies, &handle, reader).await;
    handle.shutdown().await;
}
