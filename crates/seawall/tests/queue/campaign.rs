//! Workers of a delayed queue in processes of their own, behind a proxy that loses replies, with items that
//! fail or abort, killed from outside, with settings drawn at random: everything is done, nobody innocent
//! dies, and nothing is left over.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::Write,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use seawall::{
    Seawall, cmd,
    queue::{Added, Delayed, Job},
    stream::Outcome,
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};
use tempfile::TempDir;

use crate::{
    PATIENCE, campaign_support,
    chance::Chance,
    ended, eventually,
    process::{Worker as Process, task},
};

const VARIABLE: &str = "SEAWALL_QUEUE_CAMPAIGN";

/// What a round is about; the same in all of its processes.
#[derive(Debug, Clone)]
struct Round {
    shards: usize,
    lease: Duration,
    attempts: u64,
    concurrency: usize,
    poll: Duration,
    retry_delay: Duration,
    remember: Duration,
    items: u64,
    workers: usize,
    poison: BTreeSet<u64>,
    /// Kills from outside: fewer than what ends an item that failed once.
    kills: u64,
    /// Replies that are lost, in percent.
    lost: u64,
}

impl Round {
    fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut of = |list: &[u64]| list[chance.below(list.len() as u64) as usize];
        let attempts = of(&[1, 2, 3, 5]);
        let mut round = Round {
            shards: of(&[1, 2, 4, 7]) as usize,
            // A worker that is stopped for so long while it runs an item alone counts as dead, which an
            // innocent item with one attempt does not survive (docs): longer than a busy machine stops it.
            lease: Duration::from_millis(of(if attempts == 1 {
                &[2_000, 4_000]
            } else {
                &[800, 2_000]
            })),
            attempts,
            concurrency: of(&[1, 2, 16, 64]) as usize,
            poll: Duration::from_millis(of(&[5, 50, 300])),
            retry_delay: Duration::from_millis(of(&[0, 5, 50])),
            remember: Duration::from_millis(of(&[0, 1_000, 60_000])),
            items: of(&[10, 30, 60]),
            workers: of(&[1, 2, 3]) as usize,
            poison: BTreeSet::new(),
            kills: of(&[0, 1, 2]).min(attempts.saturating_sub(2)),
            lost: of(&[0, 2, 6]),
        };
        for _ in 0..of(&[0, 1, 1, 2]) {
            round.poison.insert(of(&[0, 3, 4, 7, 9]));
        }
        round
    }

    fn queue(&self, seawall: &Seawall) -> Delayed<u64> {
        let builder = seawall.delayed_queue::<u64>("campaign").shards(self.shards);
        let builder =
            builder.lease_ttl(self.lease).max_attempts(self.attempts).dedup_ttl(self.remember);
        builder.build().expect("valid")
    }

    fn is_guilty(&self, number: u64) -> bool {
        self.poison.contains(&number) || number % 17 == 5
    }

    /// What a handler does with an item, unless it succeeds.
    fn failure(&self, number: u64, attempt: u64) -> Option<Outcome> {
        match (number % 17, number % 5) {
            (5, _) => Some(Outcome::Failed("always".to_owned())),
            (8, _) if self.attempts > 1 && attempt == 1 => Some(Outcome::Retry(Duration::ZERO)),
            (_, 1) if rand::random_range(0..2) == 0 => {
                Some(Outcome::Postpone(Duration::from_millis(2)))
            }
            _ => None,
        }
    }
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, path, seed] = words.split(' ').collect::<Vec<_>>().try_into().expect("three words");
    let round = Arc::new(Round::draw(seed.parse().expect("a number")));
    let file = OpenOptions::new().append(true).create(true).open(path).expect("a file");
    let file = Arc::new(file);
    let mut seawall = None;
    eventually("in", async || {
        let builder = Seawall::builder(url).response_timeout(Duration::from_secs(1));
        seawall = builder.connect().await.ok();
        seawall.is_some()
    })
    .await;
    let seawall = seawall.expect("in");
    let builder = round.queue(&seawall).worker().concurrency(round.concurrency);
    let builder = builder.poll_interval(round.poll).retry_delay(round.retry_delay);
    let worker = builder.spawn(move |job: Job<u64>| {
        let (round, file) = (Arc::clone(&round), Arc::clone(&file));
        async move {
            let number = *job.payload();
            let note = |what: &str| {
                // One write: lines do not mix.
                (&*file).write_all(format!("{what} {number}\n").as_bytes()).expect("written");
            };
            note("begun");
            if round.poison.contains(&number) {
                std::process::abort();
            }
            if let Some(failure) = round.failure(number, job.attempt()) {
                return failure;
            }
            tokio::time::sleep(Duration::from_millis(rand::random_range(0..4))).await;
            note("done");
            Outcome::Done
        }
    });
    let _worker = worker.expect("valid");
    // The parent ends it.
    std::future::pending::<()>().await;
}

/// Numbers that were noted so.
fn noted(path: &Path, what: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.filter(|(word, _)| *word == what).map(|(_, n)| n.parse().expect("a number")).collect()
}

/// Keeps workers running, kills some, cuts connections, until nothing is left; how many died.
async fn break_things(
    round: &Round,
    seed: u64,
    proxy: &FaultProxy,
    path: &Path,
    queue: &Delayed<u64>,
) -> (u64, Vec<Process>) {
    let start = || {
        let words = [proxy.url(), path.display().to_string(), seed.to_string()];
        Process::start("campaign::work", VARIABLE, &words)
    };
    let mut workers: Vec<Process> = (0..round.workers).map(|_| start()).collect();
    let (mut deaths, mut kills) = (0, 0);
    let deadline = Instant::now() + 5 * PATIENCE;
    loop {
        let status = queue.status().await.expect("answered");
        if status.waiting + status.leased == 0 {
            return (deaths, workers);
        }
        for worker in &mut workers {
            if let Some(by_signal) = ended(worker) {
                assert!(by_signal, "a worker ended by itself");
                deaths += 1;
                *worker = start();
            } else if kills < round.kills && rand::random_range(0..60) == 0 {
                kills += 1;
                worker.child.kill().expect("it runs");
            }
        }
        if round.lost > 0 && rand::random_range(0..100) == 0 {
            proxy.cut_all();
        }
        assert!(Instant::now() < deadline, "{status:?} after {deaths} deaths: {round:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Who looks on is not part of the trial, and waits for a busy machine.
async fn judge(url: &str) -> Seawall {
    let builder = Seawall::builder(url).response_timeout(Duration::from_secs(30));
    builder.connect().await.expect("in")
}

async fn play(seed: u64) -> [u64; 4] {
    let round = Round::draw(seed);
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy").seeded(seed);
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("noted");
    let seawall = judge(&server.url()).await;
    let queue = round.queue(&seawall);
    for number in 0..round.items {
        let after = Duration::from_millis(rand::random_range(0..200));
        let added = queue.add(format!("c-{number}"), &number, after).await.expect("answered");
        assert_eq!(added, Added::Now);
    }
    proxy.drop_reply(On::command("EVALSHA").probability(round.lost as f64 / 100.0));
    let (deaths, workers) = break_things(&round, seed, &proxy, &path, &queue).await;
    let begun = noted(&path, "begun").len();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(noted(&path, "begun").len(), begun, "what is settled is not begun again");
    drop(workers);
    let dead = queue.dead(1_000).await.expect("answered").items;
    let number = |text: &[u8]| std::str::from_utf8(text).expect("text").parse().expect("a number");
    let dead: BTreeSet<u64> = dead.iter().map(|dead| number(&dead.payload)).collect();
    let of = |guilty: bool| -> BTreeSet<u64> {
        (0..round.items).filter(|number| round.is_guilty(*number) == guilty).collect()
    };
    assert_eq!(dead, of(true), "{deaths} deaths, {round:?}");
    assert_eq!(noted(&path, "done").into_iter().collect::<BTreeSet<_>>(), of(false), "{round:?}");
    // Nothing is left but what the dead need.
    for part in ["payloads", "tokens", "notes"] {
        let mut left = 0;
        for shard in 0..round.shards {
            let key = match round.shards {
                1 => format!("delayed:{{campaign}}:{part}"),
                _ => format!("delayed:{{campaign:{shard}}}:{part}"),
            };
            let length: u64 = seawall
                .client()
                .query(key.as_bytes(), cmd("HLEN").arg(&key))
                .await
                .expect("answered");
            left += length;
        }
        assert_eq!(left, dead.len() as u64, "{part}: {round:?}");
    }
    seawall.shutdown().await;
    [round.items, dead.len() as u64, deaths, begun as u64]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_done_and_nobody_innocent_dies() {
    campaign_support::run("delayed queue", ["items", "dead", "deaths", "begun"], play).await;
}
