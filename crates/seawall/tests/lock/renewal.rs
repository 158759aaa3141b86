//! Many locks, few commands.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use seawall::{Seawall, lock::Guard};
use seawall_testkit::{Client, Cluster, Reply, ServerProcess};

use crate::ground::{Ground, eventually, on_each_backend, soak, take};

on_each_backend! { many_are_renewed_together }

const LEASE: Duration = Duration::from_secs(6);

async fn hold_many(handle: &Seawall, count: usize, lease: Duration) -> Vec<Guard> {
    let taking = stream::iter(0..count).map(|number| {
        let lock = handle.lock(("many", number)).lease_ttl(lease);
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

/// What stands behind a name in one section of INFO, up to a comma; 0 when it is not there.
fn figure(client: &mut Client, section: &str, name: &str) -> u64 {
    let stats = client.call(&["INFO", section]).expect("answered").text();
    let line = stats.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split(',').next());
    number.map_or(0, |number| number.parse().expect("a number"))
}

/// How many scripts the server has run.
fn scripts_run(client: &mut Client) -> u64 {
    ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="]
        .iter()
        .map(|name| figure(client, "commandstats", name))
        .sum()
}

/// How often the server has read from a connection.
fn reads(client: &mut Client) -> u64 {
    figure(client, "stats", "total_reads_processed:")
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

/// What a server reads in one go, and what a renewal takes of it at most.
const READ_BYTES: u64 = 16 * 1024;
const RENEWAL_BYTES: u64 = 250;

/// On a Cluster a renewal is a command of its own for each slot, but all of a node and a tick go in
/// one pipeline: the node reads once, or as often as the pipeline is larger than what it reads in one
/// go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tick_is_one_pipeline_for_each_node_of_a_cluster() {
    let cluster = Cluster::start().expect("a Cluster starts");
    let handle = Seawall::connect(&cluster.url()).await.expect("connected");
    let count = 500 * soak();
    let guards = hold_many(&handle, count, LEASE).await;
    let nodes = cluster.primaries().expect("they answer");
    let mut clients: Vec<Client> =
        nodes.iter().map(|node| node.connect().expect("connected")).collect();
    let before: Vec<_> =
        clients.iter_mut().map(|client| (scripts_run(client), reads(client))).collect();
    let began = Instant::now();
    tokio::time::sleep(LEASE).await;
    let mut scripts = 0;
    for (client, (scripts_before, reads_before)) in clients.iter_mut().zip(before) {
        let (run, read) = (scripts_run(client) - scripts_before, reads(client) - reads_before);
        scripts += run;
        let seconds = began.elapsed().as_secs() + 1;
        // One more for the script, which the node did not know.
        let ticks = seconds * 6 / LEASE.as_secs() + 2;
        // Replicas, the map and this test talk to it too, a few times a second.
        let most = ticks + 2 * run * RENEWAL_BYTES / READ_BYTES + 4 * seconds + 8;
        assert!(read <= most, "{read} reads for {run} scripts, not {most} at most");
        assert!(most < run, "the bound tells one pipeline from single commands");
    }
    assert!(scripts >= 2 * count as u64, "all were renewed at least twice: {scripts}");
    assert_eq!(guards.iter().filter(|guard| guard.is_lost()).count(), 0);
    drop(guards);
    handle.shutdown().await;
}
