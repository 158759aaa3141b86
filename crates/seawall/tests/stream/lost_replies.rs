//! Replies that are lost are no attempts: nothing is parked that no handler has begun.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{
    Seawall, cmd,
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
    let builder = stream.worker("g").batch_size(16).max_attempts(limit);
    builder.claim_idle(Duration::from_millis(300))
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
    let worker = builder.spawn(move |delivery: Delivery<u64>| {
        noted.lock().expect("no panic").insert(*delivery.payload(), delivery.attempt());
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    eventually("all are settled", async || {
        let status = stream.status("g").await;
        status.is_ok_and(|status| (status.length, status.pending) == (0, 0))
    })
    .await;
    assert_eq!(stream.dead_letter_count().await.expect("answered"), 0);
    let _ = worker.shutdown().await;
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
    let dying = builder(&there, 1).spawn(hangs).expect("valid");
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
    let dying = builder(&stream, 1).consumer("c").spawn(hangs).expect("valid");
    eventually("it has all of them", async || {
        stream.status("g").await.is_ok_and(|status| status.pending == ENTRIES)
    })
    .await;
    let _ = dying.abandon().await;
    proxy.drop_reply(scripts(&stream).times(LOST));
    let _ = all_are_handled(builder(&stream, 1).consumer("c"), &stream).await;
    seawall.shutdown().await;
}

/// The counter that Redis keeps of a pending entry.
async fn counter(seawall: &Seawall, stream: &Stream<u64>, id: &str) -> u64 {
    let (key, mut pending) = (stream.key(), cmd("XPENDING"));
    pending.arg(key).arg("g").arg(id).arg(id).arg(1);
    let held: Vec<(String, String, u64, u64)> =
        seawall.client().query(key, &pending).await.expect("answered");
    held.first().map(|entry| entry.3).expect("it is pending")
}

/// One that was begun alone and is to be tried again: Redis is told before anything else begins, which
/// might end the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_one_that_was_begun_alone_is_noted_before_others_begin() {
    const ENDED_UNCOUNTED: u64 = 3;
    let (server, proxy, seawall, stream) = begin("noted").await;
    let direct = Seawall::connect(&server.url()).await.expect("in");
    // The first was delivered to a consumer that will never be heard of again; the others are settled.
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(stream.key()).arg("g").arg("0");
    direct.client().send(stream.key(), &create).await.expect("made");
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg("g").arg("dead").arg("STREAMS").arg(stream.key()).arg(">");
    direct.client().send(stream.key(), &read).await.expect("read");
    let mut pending = cmd("XPENDING");
    pending.arg(stream.key()).arg("g").arg("-").arg("+").arg(ENTRIES);
    let pending: Vec<(String, String, u64, u64)> =
        direct.client().query(stream.key(), &pending).await.expect("answered");
    let mut ids = pending.into_iter().map(|entry| entry.0);
    let id = ids.next().expect("the first");
    let mut settle = cmd("XACK");
    settle.arg(stream.key()).arg("g").arg(ids.collect::<Vec<_>>());
    direct.client().send(stream.key(), &settle).await.expect("settled");
    // Redis does not take the note for a while.
    let note = |command: &[Vec<u8>]| {
        command[0].to_ascii_uppercase().starts_with(b"EVAL")
            && command
                .last()
                .is_some_and(|counter| *counter == ENDED_UNCOUNTED.to_string().into_bytes())
    };
    proxy.fail_with(On::any().when(note).key_prefix(stream.key()).times(4), "ERR not now");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (noted, watched) = (Arc::clone(&seen), stream.clone());
    let worker = builder(&stream, 1).spawn(move |delivery: Delivery<u64>| {
        let (noted, watched, direct, id) =
            (Arc::clone(&noted), watched.clone(), direct.clone(), id.clone());
        async move {
            if *delivery.payload() == 0 {
                // Others come, and are read meanwhile.
                for number in 1..ENTRIES {
                    watched.append(&number).await.expect("appended");
                }
                while !watched.status("g").await.is_ok_and(|status| status.pending == ENTRIES) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                return Outcome::Postpone(Duration::from_secs(3_600));
            }
            let counter = counter(&direct, &watched, &id).await;
            noted.lock().expect("no panic").push(counter);
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    eventually("the others are handled", async || worker.counts().handled == ENTRIES - 1).await;
    let seen = seen.lock().expect("no panic").clone();
    assert!(seen.iter().all(|counter| *counter == ENDED_UNCOUNTED), "{seen:?}");
    let _ = worker.abandon().await;
    seawall.shutdown().await;
}
