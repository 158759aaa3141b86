//! Handles that are made while Redis is down: everything behaves as in an outage, and then works.

use std::{io, time::Duration};

use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Loaded, Source},
    cmd,
};
use seawall_testkit::{Cluster, ServerBuilder, free_port};

use crate::eventually::eventually;

async fn load() -> io::Result<Loaded<u64>> {
    Ok(Loaded::Found(7))
}

#[tokio::test]
async fn a_service_starts_while_redis_is_down() {
    let port = free_port().expect("a port");
    let seawall = Seawall::connect_lazy(&format!("redis://127.0.0.1:{port}")).expect("a handle");
    let numbers: Cache<u64, u64> = seawall.cache("n").build().expect("defaults");
    let refused = seawall.client().send(b"k", cmd("GET").arg("k")).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    let read = numbers.get_or_load(&1, load).await.expect("the source answers");
    assert_eq!((read.value.as_deref(), read.source), (Some(&7), Source::Loaded));
    assert!(seawall.lock("l").try_acquire().await.is_err(), "nobody knows who holds it");

    let _server = ServerBuilder::redis().port(port).start().expect("it starts");
    eventually("Redis is found", async || {
        seawall.client().send(b"k", cmd("SET").arg("k").arg("v")).await.is_ok()
    })
    .await;
    eventually("values are stored", async || {
        numbers.get_or_load(&2, load).await.expect("an answer");
        let strong = numbers.get_as(Freshness::Strong, &2).await.expect("an answer");
        strong.is_some_and(|read| read.source == Source::Remote)
    })
    .await;
    assert!(seawall.lock("l").try_acquire().await.expect("an answer").acquired().is_some());
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_cluster_is_found_by_the_first_command() {
    let cluster = Cluster::start().expect("it starts");
    let seawall = Seawall::connect_lazy(&cluster.url()).expect("a handle");
    for number in 0..50 {
        let key = format!("k{number}");
        let set = seawall.client().send(key.as_bytes(), cmd("SET").arg(&key).arg(number)).await;
        set.expect("written");
    }
    seawall.shutdown().await;
}

/// What is read first is judged by the server's clock, as what is read later.
#[tokio::test]
async fn a_server_whose_clock_is_behind_is_believed_from_the_first_read() {
    let server = ServerBuilder::redis().skew_seconds(-400).start().expect("faketime is installed");
    let writer = Seawall::connect(&server.url()).await.expect("it answers");
    let written: Cache<u64, u64> =
        writer.cache("n").ttl(Duration::from_secs(60)).build().expect("valid");
    written.put(&1, &7).await.expect("stored");
    // Several: the clock is also measured in the background, which may come first.
    for _ in 0..10 {
        let reader = Seawall::connect_lazy(&server.url()).expect("a handle");
        let numbers: Cache<u64, u64> =
            reader.cache("n").ttl(Duration::from_secs(60)).build().expect("valid");
        let read = numbers.get_or_load(&1, load).await.expect("an answer");
        assert_eq!(read.source, Source::Remote);
        reader.shutdown().await;
    }
    writer.shutdown().await;
}

#[test]
fn outside_a_runtime_it_says_so() {
    let error = Seawall::connect_lazy("redis://127.0.0.1:1").expect_err("there is no runtime");
    assert!(error.to_string().contains("Tokio runtime"), "{error}");
}
