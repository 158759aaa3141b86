//! A shard that fails or hangs costs the others nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall, cmd,
    queue::{Added, Delayed, Given, Job},
    stream::Outcome,
};
use seawall_testkit::{Cluster, ServerProcess, proxy::FaultProxy, proxy::On};

use crate::eventually;

const SHARDS: usize = 4;
const JOBS: usize = 6;

fn queue(seawall: &Seawall) -> Delayed<u64> {
    seawall.delayed_queue::<u64>("parts").shards(SHARDS).build().expect("valid")
}

fn key(shard: usize) -> String {
    format!("delayed:{{parts:{shard}}}")
}

/// Adds items until so many are in a shard of which `fits` is true, and removes all others.
async fn fill(seawall: &Seawall, queue: &Delayed<u64>, count: usize, fits: impl Fn(usize) -> bool) {
    let (mut number, mut there) = (0, 0);
    while there < count {
        let id = format!("item-{number}");
        let added = queue.add(&id, &number, Duration::ZERO).await.expect("answered");
        assert_eq!(added, Added::Now);
        let mut fitting = false;
        for shard in (0..SHARDS).filter(|shard| fits(*shard)) {
            let (key, mut score) = (key(shard), cmd("ZSCORE"));
            score.arg(&key).arg(&id);
            let found: Option<f64> =
                seawall.client().query(key.as_bytes(), &score).await.expect("answered");
            fitting |= found.is_some();
        }
        if fitting {
            there += 1;
        } else {
            let _ = queue.cancel(&id).await.expect("answered");
        }
        number += 1;
    }
}

/// Each claim brings all jobs of the shards that answer.
async fn claim_again_and_again(queue: &Delayed<u64>) {
    for round in 0..6 {
        let claim = queue.claim(100).await.expect("some shards answer");
        assert_eq!(claim.jobs.len(), JOBS, "round {round}");
        assert!(claim.failed.is_some(), "a shard did not answer");
        assert_eq!(claim.next_in, Some(Duration::ZERO), "that shard may have something");
        for job in &claim.jobs {
            let given = queue.postpone(job, Duration::ZERO).await.expect("answered");
            assert_eq!(given, Given::Waiting);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_returns_what_other_shards_gave_when_one_refuses() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let queue = queue(&seawall);
    fill(&seawall, &queue, JOBS, |shard| shard == 1).await;
    let claims = |command: &[Vec<u8>]| command[0].to_ascii_uppercase().starts_with(b"EVAL");
    let refuses = On::any().when(claims).key_prefix(key(0));
    let rule = proxy.fail_with(refuses, "LOADING Redis is loading the dataset in memory");
    claim_again_and_again(&queue).await;
    proxy.remove(rule);
    let claim = queue.claim(100).await.expect("answered");
    assert_eq!((claim.jobs.len(), claim.failed.is_none()), (JOBS, true));
    // Nothing is due anywhere else: what failed is the answer.
    proxy.fail_with(On::any().when(claims).key_prefix(key(0)), "LOADING again");
    assert!(queue.claim(100).await.is_err());
    seawall.shutdown().await;
}

/// A Cluster on which no fail-over hides that a node hangs.
fn cluster() -> Cluster {
    let patient = Duration::from_secs(600);
    Cluster::builder().replicas_each(0).node_timeout(patient).start().expect("a cluster")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_returns_what_other_shards_gave_when_a_node_hangs() {
    let cluster = cluster();
    // Long enough for the shards that answer, however busy the machine is; and all that hang are waited
    // for within a quarter of the lease.
    let builder = Seawall::builder(&cluster.url()).response_timeout(Duration::from_secs(2));
    let seawall = builder.connect().await.expect("in");
    let queue = seawall.delayed_queue::<u64>("parts").shards(SHARDS);
    let queue = queue.lease_ttl(Duration::from_secs(240)).build().expect("valid");
    let owner = |shard| cluster.primary_of(key(shard).as_bytes()).expect("an owner").port();
    let hanging = cluster.primary_of(key(0).as_bytes()).expect("an owner");
    fill(&seawall, &queue, JOBS, |shard| owner(shard) != hanging.port()).await;
    hanging.pause().expect("it runs");
    claim_again_and_again(&queue).await;
    hanging.resume().expect("it was paused");
    seawall.shutdown().await;
}

/// A claim that was sent and not waited for may have taken something.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_is_not_waited_for_may_have_given_something() {
    let cluster = cluster();
    let builder = Seawall::builder(&cluster.url()).response_timeout(Duration::from_secs(1));
    let seawall = builder.connect().await.expect("in");
    let lease = Duration::from_secs(2);
    let queue = seawall.delayed_queue::<u64>("parts").shards(SHARDS).lease_ttl(lease);
    let queue = queue.build().expect("valid");
    let owner = |shard| cluster.primary_of(key(shard).as_bytes()).expect("an owner").port();
    let hanging = cluster.primary_of(key(0).as_bytes()).expect("an owner");
    fill(&seawall, &queue, 1, |shard| owner(shard) != hanging.port()).await;
    hanging.pause().expect("it runs");
    // Each time another shard is asked first.
    eventually("jobs were in hand when a shard was not waited for", async || {
        let Ok(claim) = queue.claim(1 + JOBS).await else { return false };
        for job in &claim.jobs {
            // Where its lease has ended meanwhile, it comes back by itself.
            let _ = queue.postpone(job, Duration::ZERO).await;
        }
        let given_up = claim.failed.filter(|error| error.to_string().contains("too slow"));
        given_up.is_some_and(|error| {
            assert!(error.is_indeterminate(), "{error:?}");
            true
        })
    })
    .await;
    hanging.resume().expect("it was paused");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_hangs_does_not_hold_the_seats_of_the_others() {
    let cluster = cluster();
    // Longer than the test is patient: whoever waits for the time-out waits too long.
    let builder = Seawall::builder(&cluster.url()).response_timeout(Duration::from_secs(240));
    let seawall = builder.connect().await.expect("in");
    let queue = queue(&seawall);
    let handled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&handled);
    let builder = queue.worker().concurrency(2).poll_interval(Duration::from_millis(20));
    let builder = builder.drain_timeout(Duration::from_millis(100));
    let worker = builder.spawn(move |_: Job<u64>| {
        count.fetch_add(1, Ordering::SeqCst);
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    let hanging = cluster.primary_of(key(0).as_bytes()).expect("an owner");
    hanging.pause().expect("it runs");
    // Long enough for the hanging shard to be asked.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut added = 0;
    for number in 0.. {
        let id = format!("item-{number}");
        let adding = queue.add(id, &number, Duration::ZERO);
        // Some of them go to the node that hangs.
        if tokio::time::timeout(Duration::from_millis(200), adding).await.is_ok() {
            added += 1;
        }
        if added == 20 {
            break;
        }
    }
    eventually("the healthy shards' jobs are handled", async || {
        handled.load(Ordering::SeqCst) >= 20
    })
    .await;
    hanging.resume().expect("it was paused");
    worker.shutdown().await;
    seawall.shutdown().await;
}

/// What is known is said, and which shards said nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_is_that_of_the_shards_that_answer() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let queue = queue(&seawall);
    fill(&seawall, &queue, JOBS, |shard| shard == 1).await;
    let whole = queue.status().await.expect("answered");
    assert!(whole.failed.is_empty(), "{whole:?}");
    let job = queue.claim(1).await.expect("answered").jobs.pop().expect("due");
    let given = queue.bury(&job, "for good").await.expect("answered");
    assert_eq!(given, Given::Dead);

    let away = "LOADING Redis is loading the dataset in memory";
    let of = |shard: usize| {
        move |words: &[Vec<u8>]| {
            words.get(1).is_some_and(|word| word.starts_with(key(shard).as_bytes()))
        }
    };
    let first = proxy.fail_with(On::any().when(of(0)), away);
    let last = proxy.fail_with(On::any().when(of(3)), away);
    let status = queue.status().await.expect("two shards answer");
    assert_eq!((status.waiting, status.dead), (JOBS as u64 - 1, 1));
    let failed: Vec<usize> = status.failed.iter().map(|failed| failed.shard).collect();
    assert_eq!(failed, [0, 3]);
    assert!(status.failed[0].error.is_code("LOADING"), "{status:?}");
    let dead = queue.dead(10).await.expect("two shards answer");
    assert_eq!((dead.items.len(), dead.failed.len()), (1, 2), "{dead:?}");

    let others = [proxy.fail_with(On::any().when(of(1)), away), {
        proxy.fail_with(On::any().when(of(2)), away)
    }];
    assert!(queue.status().await.is_err(), "nobody answers");
    for rule in [first, last].into_iter().chain(others) {
        proxy.remove(rule);
    }
    assert!(queue.status().await.expect("answered").failed.is_empty());
    seawall.shutdown().await;
}
