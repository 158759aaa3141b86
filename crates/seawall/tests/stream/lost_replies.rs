//! Replies that are lost are no attempts: nothing is parked that no handler has begun.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{
    Seawall,
    stream::{Delivery, Outcome, Stream, WorkerBuilder},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::eventually;

const ENTRIES: u64 = 10;
/// More than the delivery limit.
const LOST: u64 = 6;

/// A server behind a proxy, and a stream with entries.
async fn begin(name: &str) -> (ServerProcess, FaultProxy, Seawall, Stream<u64>) {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(500));
    let seawall = builder.connect().await.expect("in");
    let stream = seawall.stream::<u64>(name).expect("a name");
    for number in 0..ENTRIES {
        stream.append(&number).await.expect("appended");
    }
    (server, proxy, seawall, stream)
}

fn builder(stream: &Stream<u64>, limit: u64) -> WorkerBuilder<u64> {
    let builder = stream.worker("g").batch(16).delivery_limit(limit);
    builder.claim_after(Duration::from_millis(300))
}

/// Scripts that name the stream.
fn scripts(stream: &Stream<u64>) -> On {
    let script = |command: &[Vec<u8>]| command[0].to_ascii_uppercase().starts_with(b"EVAL");
    On::any().when(script).key_prefix(stream.key())
}

/// All are handled, each in its first attempt, and none is parked.
async fn all_are_handled(builder: WorkerBuilder<u64>, stream: &Stream<u64>) -> BTreeMap<u64, u64> {
    let seen = Arc::new(Mutex::new(BTreeMap::new()));
    let noted = Arc::clone(&seen);
    let worker = builder.run(move |delivery: Delivery<u64>| {
        noted.lock().expect("no panic").insert(*delivery.payload(), delivery.attempt());
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    eventually("all are settled", async || {
        let status = stream.status("g").await;
        status.is_ok_and(|status| (status.length, status.pending) == (0, 0))
    })
    .await;
    assert_eq!(stream.parked_count().await.expect("answered"), 0);
    let _ = worker.stop().await;
    let seen = seen.lock().expect("no panic").clone();
    assert_eq!(seen.len() as u64, ENTRIES, "{seen:?}");
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_of_reads_are_no_attempts() {
    let (_server, proxy, seawall, stream) = begin("reads").await;
    proxy.drop_reply(On::command("XREADGROUP").once());
    proxy.drop_reply(scripts(&stream).times(LOST));
    let seen = all_are_handled(builder(&stream, 1), &stream).await;
    assert!(seen.values().all(|attempt| *attempt == 1), "no handler had begun: {seen:?}");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_of_take_overs_are_no_attempts() {
    let (server, proxy, seawall, stream) = begin("claims").await;
    // A worker dies with all of them in hand.
    let other = Seawall::connect(&server.url()).await.expect("in");
    let there = other.stream::<u64>("claims").expect("a name");
    let hangs = |_: Delivery<u64>| std::future::pending::<Outcome>();
    let dying = builder(&there, 1).run(hangs).expect("valid");
    eventually("it has all of them", async || {
        stream.status("g").await.is_ok_and(|status| status.pending == ENTRIES)
    })
    .await;
    let _ = dying.abandon().await;
    proxy.drop_reply(scripts(&stream).times(2 * LOST));
    let _ = all_are_handled(builder(&stream, 1), &stream).await;
    other.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_under_one_name_are_no_attempts() {
    let (_server, proxy, seawall, stream) = begin("named").await;
    let hangs = |_: Delivery<u64>| std::future::pending::<Outcome>();
    let dying = builder(&stream, 1).consumer("c").run(hangs).expect("valid");
    eventually("it has all of them", async || {
        stream.status("g").await.is_ok_and(|status| status.pending == ENTRIES)
    })
    .await;
    let _ = dying.abandon().await;
    proxy.drop_reply(scripts(&stream).times(LOST));
    let _ = all_are_handled(builder(&stream, 1).consumer("c"), &stream).await;
    seawall.shutdown().await;
}
