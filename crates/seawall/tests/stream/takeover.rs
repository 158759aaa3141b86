//! What a dead worker held is another's after the idle time; what a live one holds is not.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Seawall, cmd,
    stream::{Delivery, Outcome, Stream},
};
use seawall_testkit::backend::{Backend, TestBackend};

use crate::{
    eventually,
    process::{Worker as Process, task},
    setup::{Setup, on_every_backend},
};

const IDLE: Duration = Duration::from_secs(1);
/// What a take-over may cost beyond the idle time, on a machine that is busy with much else.
const MORE: Duration = Duration::from_secs(10);
const VARIABLE: &str = "SEAWALL_STREAM_HOLDER";

on_every_backend! {
    what_another_consumer_left_is_taken_over_and_counted
    a_slow_handler_keeps_its_entry
}

/// Delivers what there is to a consumer that will never be heard of again.
async fn deliver_to_nobody(seawall: &Seawall, stream: &Stream<u64>) {
    let (client, key) = (seawall.client(), stream.key());
    let mut create = cmd("XGROUP");
    create.arg("CREATE").arg(key).arg("g").arg("0").arg("MKSTREAM");
    client.send(key, &create).await.expect("made");
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg("g").arg("dead").arg("STREAMS").arg(key).arg(">");
    client.send(key, &read).await.expect("read");
}

async fn what_another_consumer_left_is_taken_over_and_counted(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("left").expect("a name");
    let appended = stream.append_all(&(0..30).collect::<Vec<_>>()).await.expect("valid");
    assert!(appended.iter().all(Result::is_ok));
    // One of them is gone from the stream although it is pending.
    deliver_to_nobody(&seawall, &stream).await;
    let gone = appended[7].as_ref().expect("appended");
    let key = stream.key();
    seawall.client().send(key, cmd("XDEL").arg(key).arg(gone)).await.expect("deleted");
    let handled = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&handled);
    let builder = stream.worker("g").claim_idle(Duration::from_millis(300)).batch_size(4);
    let worker = builder.spawn(move |delivery: Delivery<u64>| {
        assert_eq!(delivery.attempt(), 2);
        count.fetch_add(1, Ordering::SeqCst);
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    eventually("all that are left are handled, nothing is pending", async || {
        handled.load(Ordering::SeqCst) == 29
            && stream.status("g").await.expect("answered").pending == 0
    })
    .await;
    assert_eq!(worker.counts().taken_over, 29);
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}

async fn a_slow_handler_keeps_its_entry(setup: Setup) {
    let seawall = setup.connect().await;
    let stream = seawall.stream::<u64>("kept").expect("a name");
    stream.append(&1).await.expect("appended");
    // Renewed three times in it: a machine that is busy for most of a second loses nothing.
    let idle = Duration::from_secs(1);
    let begun = Arc::new(AtomicU64::new(0));
    let run = |name: &str| {
        let begun = Arc::clone(&begun);
        let builder = stream.worker("g").consumer(name).claim_idle(idle);
        let worker = builder.spawn(move |_: Delivery<u64>| {
            begun.fetch_add(1, Ordering::SeqCst);
            async move {
                // Far longer than the idle time: what is shown is that nothing happens meanwhile.
                tokio::time::sleep(idle * 4).await;
                Outcome::Done
            }
        });
        worker.expect("valid")
    };
    let (one, other) = (run("one"), run("other"));
    eventually("it is settled", async || one.counts().handled + other.counts().handled == 1).await;
    assert_eq!(begun.load(Ordering::SeqCst), 1, "one handler began");
    let _ = (one.shutdown().await, other.shutdown().await);
    seawall.shutdown().await;
}

/// The process that takes entries and holds on to them; as a test without the variable it does
/// nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold() {
    let Some(url) = task(VARIABLE) else { return };
    let seawall = Seawall::connect(&url).await.expect("in");
    let stream = seawall.stream::<u64>("held").expect("a name");
    let worker = stream
        .worker("g")
        .consumer("holder")
        .claim_idle(IDLE)
        .spawn(|_: Delivery<u64>| std::future::pending::<Outcome>());
    let _worker = worker.expect("valid");
    std::future::pending::<()>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pending_of_a_killed_worker_is_taken_over_in_time() {
    let stand = TestBackend::private(Backend::Redis).expect("a server");
    let seawall = Seawall::connect(stand.url()).await.expect("in");
    let stream = seawall.stream::<u64>("held").expect("a name");
    for number in 0..10 {
        stream.append(&number).await.expect("appended");
    }
    let holder = Process::start("takeover::hold", VARIABLE, &[stand.url().to_owned()]);
    eventually("the holder has them", async || {
        stream.status("g").await.expect("answered").pending == 10
    })
    .await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker =
        stream.worker("g").consumer("heir").claim_idle(IDLE).spawn(move |_: Delivery<u64>| {
            tell.send(Instant::now()).expect("the test listens");
            async { Outcome::Done }
        });
    let worker = worker.expect("valid");
    // The holder renews: as long as it lives, nobody takes them.
    assert!(tokio::time::timeout(IDLE * 2, told.recv()).await.is_err(), "the holder is alive");
    let killed = Instant::now();
    drop(holder);
    for _ in 0..10 {
        let handled = told.recv().await.expect("taken over");
        assert!(handled - killed < IDLE + MORE, "{:?}", handled - killed);
    }
    assert_eq!(worker.counts().taken_over, 10);
    let _ = worker.shutdown().await;
    seawall.shutdown().await;
}
