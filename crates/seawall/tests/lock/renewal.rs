//! Many locks, few commands.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use seawall::{Seawall, lock::Guard};
use seawall_testkit::{Client, Reply, ServerProcess};

use crate::ground::{Ground, eventually, on_each_backend, soak, take};

on_each_backend! { many_are_renewed_together }

const LEASE: Duration = Duration::from_secs(6);

async fn hold_many(handle: &Seawall, count: usize, lease: Duration) -> Vec<Guard> {
    let taking = stream::iter(0..count).map(|number| {
        let lock = handle.lock(("many", number)).lease(lease);
        async move { take(&lock).await }
    });
    taking.buffer_unordered(64).collect().await
}

async fn many_are_renewed_together(ground: Ground) {
    let a = ground.connect().await;
    let lease = Duration::from_secs(2);
    let guards = hold_many(&a, 300, lease).await;
    assert_eq!(a.renewed_locks(), 300);
    tokio::time::sleep(lease * 2).await;
    assert_eq!(guards.iter().filter(|guard| guard.is_lost()).count(), 0);
    drop(guards);
    eventually("all are given back", async || {
        let free = a.lock(("many", 299)).try_acquire().await.expect("answered").acquired();
        free.is_some() && a.renewed_locks() <= 1
    })
    .await;
    ground.end([a]).await;
}

/// How many scripts the server has run.
fn scripts_run(client: &mut Client) -> u64 {
    let stats = client.call(&["INFO", "commandstats"]).expect("answered").text();
    let of = |name: &str| {
        let line = stats.lines().find_map(|line| line.strip_prefix(name));
        let calls = line.and_then(|line| line.strip_prefix(":calls=")?.split(',').next());
        calls.map_or(0, |calls| calls.parse().expect("a number"))
    };
    of("cmdstat_evalsha") + of("cmdstat_eval")
}

/// At most one command for a hundred locks: with 10,000 of them, at most 100 a tick.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_costs_one_command_for_a_hundred_locks() {
    let server = ServerProcess::redis().expect("a server starts");
    let mut client = server.connect().expect("connected");
    let handle = Seawall::connect(&server.url()).await.expect("connected");
    let count = 500 * soak();
    let guards = hold_many(&handle, count, LEASE).await;
    let before = scripts_run(&mut client);
    // A tick at most every sixth of the lease, at least every third.
    tokio::time::sleep(LEASE).await;
    let commands = scripts_run(&mut client) - before;
    let (fewest, most) = (2 * (count as u64).div_ceil(128), 7 * count as u64 / 100);
    assert!((fewest..=most).contains(&commands), "{commands}, not {fewest} to {most}");
    assert_eq!(guards.iter().filter(|guard| guard.is_lost()).count(), 0);
    assert!(guards.iter().all(|guard| guard.valid_for() > LEASE / 2));
    drop(guards);
    handle.shutdown().await;
    let left = client.call(&["EXISTS", "lock:{many:0}"]).expect("answered");
    assert_eq!(left, Reply::Int(0), "what was dropped is given back at the end");
}
