//! The quorum lock: a majority of independent primaries decides.

use std::time::Duration;

use seawall::{
    Seawall,
    lock::{QuorumAcquireOutcome, QuorumLock, Release},
};
use seawall_testkit::{Reply, ServerProcess, proxy::FaultProxy};

use crate::ground::{PATIENCE, eventually};

const LEASE: Duration = Duration::from_secs(2);

struct Three {
    proxies: Vec<FaultProxy>,
    servers: Vec<ServerProcess>,
}

impl Three {
    fn start() -> Self {
        let servers: Vec<_> =
            (0..3).map(|_| ServerProcess::redis().expect("a server starts")).collect();
        let proxy = |server: &ServerProcess| FaultProxy::start(server.port()).expect("a proxy");
        Three { proxies: servers.iter().map(proxy).collect(), servers }
    }

    async fn connect(&self) -> Vec<Seawall> {
        let mut handles = Vec::new();
        for proxy in &self.proxies {
            let builder = Seawall::builder(&proxy.url());
            let builder = builder.response_timeout(Duration::from_millis(200));
            handles.push(builder.connect().await.expect("connected"));
        }
        handles
    }
}

fn lock(handles: &[Seawall]) -> QuorumLock {
    Seawall::quorum_lock(handles, "leader").expect("three").lease_ttl(LEASE)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_decides_and_tokens_rise_whoever_is_in_it() {
    let three = Three::start();
    let (a, b) = (three.connect().await, three.connect().await);
    let mut highest = 0;
    // Another primary is away in each round: the majorities differ.
    for away in [0, 1, 2, 0] {
        three.proxies[away].down();
        let guard = lock(&a).acquire(PATIENCE).await.expect("valid").acquired();
        let guard = guard.expect("two of three");
        assert!(guard.token().to_u64() > highest, "{} after {highest}", guard.token());
        highest = guard.token().to_u64();
        assert!(lock(&b).try_acquire().await.expect("valid").acquired().is_none());
        assert_eq!(guard.release().await, Release::Released);
        three.proxies[away].heal();
        eventually("both are connected again", async || {
            let free = lock(&b).try_acquire().await.expect("valid");
            match free {
                QuorumAcquireOutcome::Acquired(guard) => {
                    highest = highest.max(guard.token().to_u64());
                    guard.release().await == Release::Released
                }
                QuorumAcquireOutcome::Busy { .. } => false,
            }
        })
        .await;
    }
    for handle in a.iter().chain(&b) {
        handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_lost_with_the_majority_and_not_before() {
    let three = Three::start();
    let (a, b) = (three.connect().await, three.connect().await);
    let guard = lock(&a).try_acquire().await.expect("valid").acquired().expect("free");
    let waiting = tokio::spawn({
        let lock = lock(&b);
        async move { lock.acquire(PATIENCE).await.expect("valid").acquired() }
    });
    three.proxies[0].down();
    tokio::time::sleep(LEASE * 2).await;
    assert!(!guard.is_lost() && !guard.valid_for().is_zero(), "two of three renew it");
    three.proxies[1].down();
    tokio::time::timeout(PATIENCE, guard.lost()).await.expect("no majority is left");
    let token = guard.token();
    assert_eq!(guard.release().await, Release::AlreadyLost);
    three.proxies[0].heal();
    three.proxies[1].heal();
    let next = waiting.await.expect("it waited").expect("a majority is free again");
    assert!(next.token() > token);
    assert!(Seawall::quorum_lock(&a[..2], "leader").is_err());
    drop(next);
    for handle in a.iter().chain(&b) {
        handle.shutdown().await;
    }
}

/// A majority of one server is no majority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_counts_once() {
    let three = Three::start();
    let handles = three.connect().await;
    let twice = [handles[0].clone(), handles[1].clone(), handles[0].clone()];
    let error = Seawall::quorum_lock(&twice, "leader").expect_err("one handle twice");
    assert!(matches!(&error, seawall::Error::Invalid(text) if text.contains("same")), "{error}");

    // Another handle, through another proxy, on another database: the same server.
    let url = format!("redis://127.0.0.1:{}/1", three.servers[0].port());
    let again = Seawall::connect(&url).await.expect("connected");
    let twice = [handles[0].clone(), handles[1].clone(), again.clone()];
    let lock = lock(&twice);
    for refused in [lock.try_acquire().await, lock.acquire(PATIENCE).await] {
        let error = refused.expect_err("one server twice");
        let named = |text: &str| text.contains("same server") && text.contains('2');
        assert!(matches!(&error, seawall::Error::Invalid(text) if named(text)), "{error}");
    }
    let mut client = three.servers[1].connect().expect("connected");
    eventually("nothing stays held", async || {
        client.call(&["EXISTS", "quorum:{leader}"]).expect("answered") == Reply::Int(0)
    })
    .await;
    for handle in handles.iter().chain([&again]) {
        handle.shutdown().await;
    }
}

/// Something else under its key is no lock that somebody holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_at_a_majority_is_named() {
    let three = Three::start();
    let handles = three.connect().await;
    let lock = lock(&handles);
    for server in &three.servers[..2] {
        let mut client = server.connect().expect("connected");
        client.call(&["SET", "quorum:{leader}", "text"]).expect("answered");
    }
    let error = lock.acquire(PATIENCE).await.expect_err("two of three hold no lock");
    assert!(error.is_code("WRONGTYPE") && error.to_string().contains("quorum:{leader}"), "{error}");
    for handle in &handles {
        handle.shutdown().await;
    }
}
