//! The mark lost, rolled back, or ahead of time; midnight; fail-over.

use std::time::{Duration, Instant};

use seawall::{
    Seawall, cmd,
    id::{EPOCH_SECONDS, Ids},
    testing::TestServer,
};
use seawall_testkit::{SentinelSet, ServerProcess};

use super::record::{Process, judge};

const MARK: &str = "id:{order}";

struct Scene {
    test_server: TestServer,
    ids: Vec<Ids>,
    processes: Vec<Process>,
}

impl Scene {
    async fn open() -> Self {
        let test_server = TestServer::start().await.expect("it starts");
        let make = || test_server.seawall().ids("order").min_segment(8).build();
        let ids = (0..4).map(|_| make().expect("valid")).collect();
        Scene { test_server, ids, processes: (0..4).map(|_| Process::default()).collect() }
    }

    async fn take(&self, process: usize, count: usize) {
        self.processes[process].take_many(&self.ids[process], count).await;
    }

    async fn send(&self, command: &seawall::Cmd) -> seawall::Value {
        self.test_server
            .seawall()
            .client()
            .send(MARK.as_bytes(), command)
            .await
            .expect("it answers")
    }

    async fn mark(&self) -> String {
        let client = self.test_server.seawall().client();
        client.query(MARK.as_bytes(), cmd("GET").arg(MARK)).await.expect("a mark")
    }

    async fn end(self) -> Result<usize, String> {
        self.test_server.shutdown().await;
        judge(&self.processes)
    }
}

/// Everything is lost again and again, within one second.
#[tokio::test]
async fn a_lost_mark_brings_no_id_back() {
    let scene = Scene::open().await;
    for round in 0..50 {
        for process in 0..4 {
            scene.take((process + round) % 4, 20).await;
        }
        scene.send(&cmd("FLUSHALL")).await;
        scene.test_server.advance(Duration::from_millis(1)).await;
    }
    assert_eq!(scene.end().await, Ok(50 * 80));
}

#[tokio::test]
async fn a_mark_that_rolled_back_brings_no_id_back() {
    let scene = Scene::open().await;
    scene.take(0, 30).await;
    for round in 0..50 {
        let before = scene.mark().await;
        for process in 0..4 {
            scene.take((process + round) % 4, 40).await;
        }
        scene.test_server.advance(Duration::from_millis(1)).await;
        scene.send(cmd("SET").arg(MARK).arg(before)).await;
    }
    assert_eq!(scene.end().await, Ok(30 + 50 * 160));
}

/// The clock of the old primary was an hour ahead of the new one's, and the last writes were lost.
#[tokio::test]
async fn ids_rise_although_the_clock_is_behind() {
    let scene = Scene::open().await;
    scene.take(0, 10).await;
    let mark = scene.mark().await;
    let second: u64 = mark.split(' ').next().expect("a second").parse().expect("a number");
    scene.send(cmd("SET").arg(MARK).arg(format!("{} 4294967290", second + 3_600))).await;
    for process in 0..4 {
        scene.take(process, 100).await;
    }
    // With the mark in place, all go on from it; without it, who was there knows better.
    scene.send(cmd("DEL").arg(MARK)).await;
    scene.take(3, 100).await;
    scene.take(2, 100).await;
    assert_eq!(scene.end().await, Ok(610));
}

#[tokio::test]
async fn midnight_changes_the_day_and_nothing_else() {
    let scene = Scene::open().await;
    let client = scene.test_server.seawall().client();
    let (now, _): (u64, u64) = client.query(b"", &cmd("TIME")).await.expect("a time");
    scene.test_server.advance(Duration::from_secs(86_400 - now % 86_400 - 2)).await;
    for _ in 0..40 {
        for process in 0..4 {
            scene.take(process, 5).await;
        }
        scene.test_server.advance(Duration::from_millis(100)).await;
    }
    let days: Vec<String> =
        client.query(b"", cmd("KEYS").arg("id:{order}:*")).await.expect("the keys");
    assert_eq!(days.len(), 2, "{days:?}");
    let mut taken = 0;
    for day in &days {
        taken += client.query::<u64>(day.as_bytes(), cmd("GET").arg(day)).await.expect("a count");
        let left: i64 = client.query(day.as_bytes(), cmd("TTL").arg(day)).await.expect("a time");
        assert!(left > 86_400, "{left}");
    }
    assert!(taken >= 800, "{taken}");
    let time = scene.ids[0].next().await.expect("an id").decode().time;
    let second = time.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(second % 86_400 < 5 && second > EPOCH_SECONDS, "{second}");
    assert_eq!(scene.end().await, Ok(800));
}

/// Takes ids from each until all have gone on, or gives up.
async fn go_on(ids: &[Ids], processes: &[Process], each: usize) {
    let deadline = Instant::now() + Duration::from_secs(60);
    for (ids, process) in ids.iter().zip(processes) {
        let mut left = each;
        while left > 0 {
            match process.take(ids).await {
                Ok(_) => left -= 1,
                Err(error) => {
                    assert!(Instant::now() < deadline, "{error}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

async fn open(url: &str) -> (Seawall, Vec<Ids>, Vec<Process>) {
    let seawall = Seawall::connect(url).await.expect("it answers");
    let ids = (0..3).map(|_| seawall.ids("order").build().expect("valid")).collect();
    (seawall, ids, (0..3).map(|_| Process::default()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_empty_repeats_nothing() {
    let mut server = ServerProcess::redis().expect("it starts");
    let (seawall, ids, processes) = open(&format!("redis://127.0.0.1:{}", server.port())).await;
    for _ in 0..3 {
        go_on(&ids, &processes, 300).await;
        server.restart().expect("it starts again");
    }
    go_on(&ids, &processes, 300).await;
    assert_eq!(judge(&processes), Ok(3 * 4 * 300));
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fail_over_repeats_nothing() {
    let set = SentinelSet::start().expect("it starts");
    let (seawall, ids, processes) = open(&set.url()).await;
    go_on(&ids, &processes, 300).await;
    let lost = set.kill_primary().expect("there is one");
    set.await_failover(lost).expect("another takes over");
    go_on(&ids, &processes, 1_000).await;
    assert_eq!(judge(&processes), Ok(3 * 1_300));
    seawall.shutdown().await;
}
