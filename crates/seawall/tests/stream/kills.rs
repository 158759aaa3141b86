//! Workers that are killed before and after their commit: nothing lost, nothing applied twice, and a
//! checker that notices a ledger without protection.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use seawall::Seawall;
use seawall_testkit::backend::{Backend, TestBackend};
use tempfile::TempDir;

use crate::{
    PATIENCE, ended,
    ledger::{Key, applied, digest},
    process::Worker as Process,
    worker::{Death, IDLE, Task},
};

/// Workers at once.
const WORKERS: usize = 4;
/// Entries for each kill: enough that there is always work in the middle of which to die.
const ENTRIES_EACH: u64 = 12;

/// By how much large counts are multiplied: they run at a twentieth unless `SEAWALL_SOAK` is set.
fn soak() -> u64 {
    if std::env::var_os("SEAWALL_SOAK").is_some() { 20 } else { 1 }
}

struct Trial {
    _stand: TestBackend,
    folder: TempDir,
    seawall: Seawall,
    task: Task,
    kills: u64,
}

impl Trial {
    async fn on(backend: Backend, kills: u64, streams: u64) -> Self {
        let stand = TestBackend::shared(backend).expect("the backend starts");
        let folder = tempfile::tempdir().expect("a folder");
        let prefix = format!("kills-{:08x}:", rand::random::<u32>());
        let socket = folder.path().join("engine.sock");
        let builder = Seawall::builder(stand.url()).prefix(&prefix);
        let (builder, url) = match backend {
            Backend::Embedded => {
                (builder.engine_socket(&socket), format!("unix:{}", socket.display()))
            }
            _ => (builder, stand.url().to_owned()),
        };
        let seawall = builder.connect().await.expect("in");
        let ledger = folder.path().join("ledger");
        let task = Task { url, prefix, ledger, key: Key::Unique, streams };
        Trial { _stand: stand, folder, seawall, task, kills }
    }

    fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    fn entries(&self) -> u64 {
        self.kills * ENTRIES_EACH
    }

    /// Appends all entries, spread over the streams.
    async fn append(&self) {
        let streams = self.task.streams;
        for number in 0..streams {
            let stream = self.seawall.stream::<u64>(format!("kills-{number}")).expect("a name");
            let numbers: Vec<u64> =
                (0..self.entries()).filter(|entry| entry % streams == number).collect();
            for id in stream.append_all(&numbers).await.expect("valid") {
                id.expect("appended");
            }
        }
    }

    /// Starts one worker after the other, each of which kills itself, until enough have died. Every
    /// other one comes back under its name; what the others held is taken over.
    async fn kill_workers(&self) {
        let start = |place: usize, number: u64| {
            let name = match number % 2 {
                0 => format!("place-{place}"),
                _ => format!("place-{place}-{number}"),
            };
            let death = if number % 4 < 2 { Death::BeforeCommit } else { Death::AfterCommit };
            (name.clone(), self.task.start(&name, death, 1 + number % 5))
        };
        let mut next = WORKERS as u64;
        let mut running: Vec<(String, Process)> =
            (0..WORKERS).map(|place| start(place, place as u64)).collect();
        let mut killed = 0;
        let deadline = Instant::now() + PATIENCE * u32::try_from(1 + self.kills / 20).expect("few");
        while killed < self.kills {
            for (place, worker) in running.iter_mut().enumerate() {
                if let Some(by_signal) = ended(&mut worker.1) {
                    assert!(by_signal, "a worker ended by itself");
                    killed += 1;
                    next += 1;
                    *worker = start(place, next);
                }
            }
            assert!(Instant::now() < deadline, "{killed} of {} killed", self.kills);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Lets workers that do not die finish; gives up when nothing happens for long.
    async fn finish(&self) {
        let _workers: Vec<Process> = (0..2)
            .map(|number| self.task.start(&format!("last-{number}"), Death::Never, 1))
            .collect();
        let (mut count, mut since) = (0, Instant::now());
        // Starting a process, one idle time and one look: far less than this.
        while count < self.entries() && since.elapsed() < IDLE * 8 {
            let now = applied(&self.ledger()).values().sum();
            if now != count {
                (count, since) = (now, Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What is wrong with the ledger.
    fn faults(&self) -> Vec<String> {
        let applied = applied(&self.ledger());
        let mut faults = Vec::new();
        let lost = (0..self.entries()).filter(|entry| !applied.contains_key(entry)).count();
        if lost > 0 {
            faults.push(format!("lost: {lost} of {}", self.entries()));
        }
        let twice = applied.values().filter(|times| **times > 1).count();
        if twice > 0 {
            faults.push(format!("twice: {twice}"));
        }
        let appended = digest((0..self.entries()).map(|entry| (entry, 1)));
        if appended != digest(applied) && faults.is_empty() {
            faults.push("the digests differ".to_owned());
        }
        faults
    }

    async fn run(self) -> Vec<String> {
        self.append().await;
        self.kill_workers().await;
        self.finish().await;
        let faults = self.faults();
        self.seawall.shutdown().await;
        faults
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_nothing_and_apply_nothing_twice() {
    let trial = Trial::on(Backend::Redis, 50 * soak(), 2).await;
    assert_eq!(trial.run().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_on_the_embedded_engine_lose_nothing() {
    let trial = Trial::on(Backend::Embedded, 10 * soak(), 1).await;
    assert_eq!(trial.run().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_on_a_cluster_lose_nothing() {
    let trial = Trial::on(Backend::Cluster, 10 * soak(), 6).await;
    assert_eq!(trial.run().await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checker_notices_a_handler_that_ignores_the_reference() {
    let mut trial = Trial::on(Backend::Redis, 12, 1).await;
    trial.task.key = Key::Ignored;
    let faults = trial.run().await;
    assert!(faults.iter().any(|fault| fault.starts_with("twice")), "{faults:?}");
}
