//! The end of a handle: everybody is told, and no connection stays behind.

use std::time::{Duration, Instant};

use seawall::{Error, Seawall, cmd};
use seawall_testkit::{Client, Cluster, ServerProcess};

use crate::setup::{Setup, on_every_backend};

const LIMIT: Duration = Duration::from_secs(10);

on_every_backend! {
    clones_and_subscribers_see_the_end
}

async fn clones_and_subscribers_see_the_end(setup: Setup) {
    let seawall = setup.connect().await;
    let (clone, key) = (seawall.clone(), setup.entry("k"));
    let pubsub = clone.client().pubsub();
    let mut subscription = pubsub.subscribe(key.as_bytes(), LIMIT).await.expect("subscribed");
    let waiting = tokio::spawn(async move { while subscription.next().await.is_some() {} });
    seawall.shutdown().await;
    tokio::time::timeout(LIMIT, waiting).await.expect("told in time").expect("no panic");
    let get = cmd("GET").arg(&key).to_owned();
    let client = clone.client();
    assert!(matches!(client.send(key.as_bytes(), &get).await, Err(Error::Closed)));
    assert!(matches!(client.dedicated(key.as_bytes()).await, Err(Error::Closed)));
    let many = client.send_all(vec![(key.clone().into_bytes(), get)]).await;
    assert!(matches!(many.as_slice(), [Err(Error::Closed)]), "{many:?}");
    assert_eq!(pubsub.join(key.as_bytes()).next().await, None);
    // Again is allowed and ends.
    clone.shutdown().await;
}

/// Waits until the server has no client but the one that asks.
async fn all_gone(mut asking: Client) {
    let begun = Instant::now();
    loop {
        let clients = ["normal", "pubsub"]
            .map(|kind| asking.call(&["CLIENT", "LIST", "TYPE", kind]).expect("asked").text());
        let clients = clients.concat();
        if clients.lines().filter(|line| !line.trim().is_empty()).count() == 1 {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "still connected: {clients}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Uses every kind of connection that a handle has.
async fn use_all(seawall: &Seawall) {
    let client = seawall.client();
    for key in ["a", "b", "c", "d"] {
        client.send(key.as_bytes(), cmd("SET").arg(key).arg("v")).await.expect("written");
    }
    drop(client.pubsub().subscribe(b"c", LIMIT).await.expect("subscribed"));
    drop(client.dedicated(b"a").await.expect("a connection"));
}

#[tokio::test]
async fn no_connection_stays_behind() {
    let server = ServerProcess::redis().expect("a server");
    let seawall = Seawall::connect(&server.url()).await.expect("in");
    use_all(&seawall).await;
    seawall.shutdown().await;
    all_gone(server.connect().expect("it answers")).await;
    // The handle itself is still there; dropping one without a shutdown ends it just as well.
    let other = Seawall::connect(&server.url()).await.expect("in");
    use_all(&other).await;
    drop(other);
    all_gone(server.connect().expect("it answers")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_connection_to_any_node_stays_behind() {
    let cluster = Cluster::start().expect("a Cluster");
    let seawall = Seawall::connect(&cluster.url()).await.expect("in");
    use_all(&seawall).await;
    seawall.shutdown().await;
    for node in cluster.nodes() {
        all_gone(node.connect().expect("it answers")).await;
    }
}
