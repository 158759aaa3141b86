//! Many tasks of several handles, on every backend.

use std::{sync::Arc, time::SystemTime};

use seawall::{Seawall, cmd, id::IdsBuilder, testing::TestServer};
use seawall_testkit::backend::Backend;

use super::{
    handles::Handles,
    record::{Process, judge},
};

const HANDLES: usize = 8;
const TASKS_EACH: usize = 8;
const IDS_EACH: usize = 300;

async fn storm(
    handles: impl IntoIterator<Item = &Seawall>,
    build: impl Fn(IdsBuilder) -> IdsBuilder,
) -> Result<usize, String> {
    let mut processes = Vec::new();
    let mut tasks = Vec::new();
    for handle in handles {
        let ids = build(handle.ids("order")).build().expect("valid");
        let process = Arc::new(Process::default());
        for _ in 0..TASKS_EACH {
            let (ids, process) = (ids.clone(), Arc::clone(&process));
            tasks.push(tokio::spawn(async move { process.take_many(&ids, IDS_EACH).await }));
        }
        processes.push(process);
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    judge(processes.iter().map(|process| &**process))
}

async fn on(backend: Backend) {
    let handles = Handles::open(backend, HANDLES).await;
    let before = SystemTime::now();
    let count = storm(&handles.all, |builder| builder).await.expect("unique and rising");
    assert_eq!(count, HANDLES * TASKS_EACH * IDS_EACH);

    let ids = handles.all[0].ids("order").build().expect("valid");
    let time = ids.next().await.expect("an id").decode().time;
    let apart = time.duration_since(before).unwrap_or_else(|error| error.duration());
    assert!(apart.as_secs() < 600, "the time of now: {time:?}");
    let taken = ids.taken_today().await.expect("it answers");
    assert!(taken > count as u64, "those in hand count too: {taken}");

    // Nothing stays for ever.
    let client = handles.all[0].client();
    let mark = format!("{}id:{{order}}", handles.prefix);
    let left: i64 = client.query(mark.as_bytes(), cmd("TTL").arg(&mark)).await.expect("a time");
    assert!((1..=2 * 86_400).contains(&left), "{left}");
    handles.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded() {
    on(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redis() {
    on(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinel() {
    on(Backend::Sentinel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster() {
    on(Backend::Cluster).await;
}

/// Only the mark keeps the processes apart.
#[tokio::test(flavor = "multi_thread")]
async fn ids_are_unique_while_time_stands_still() {
    let test_server = TestServer::start().await.expect("it starts");
    let count = storm([test_server.seawall(); HANDLES], |builder| builder.min_segment(4)).await;
    test_server.shutdown().await;
    assert_eq!(count, Ok(HANDLES * TASKS_EACH * IDS_EACH));
}
