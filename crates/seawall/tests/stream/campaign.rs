//! Workers in processes of their own, behind a proxy that loses replies, with entries that fail, panic or
//! abort, killed from outside, with settings drawn at random: nothing is lost, and nobody innocent is
//! parked.

use std::{
    collections::BTreeSet,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    stream::{Delivery, Outcome, Stream},
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
    ledger::{Key, Ledger, applied},
    process::{Worker as Process, task},
};

const VARIABLE: &str = "SEAWALL_STREAM_CAMPAIGN";

/// What a round is about; the same in all of its processes.
#[derive(Debug, Clone)]
struct Round {
    streams: u64,
    batch: usize,
    concurrency: usize,
    claim_idle: Duration,
    limit: u64,
    retry_delay: Duration,
    batches: bool,
    named: bool,
    entries: u64,
    workers: u64,
    poison: BTreeSet<u64>,
    /// Kills from outside: fewer than what parks an entry that failed once.
    kills: u64,
    /// Replies that are lost, in percent.
    lost: u64,
    /// One worker, one handler, nothing breaks: entries begin in their order.
    calm: bool,
}

impl Round {
    fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let calm = chance.below(4) == 0;
        let mut of = |list: &[u64]| list[chance.below(list.len() as u64) as usize];
        let (entries, limit) = (of(&[10, 30, 60]), of(&[1, 2, 3, 5]));
        let mut round = Round {
            streams: of(&[1, 1, 2, 3]),
            batch: of(&[1, 2, 16, 64]) as usize,
            concurrency: of(&[1, 2, 8, 32]) as usize,
            // A worker that is stopped for so long while it runs an entry alone counts as dead, which an
            // innocent entry with one attempt does not survive (docs): longer than a busy machine stops it.
            claim_idle: Duration::from_millis(of(if limit == 1 {
                &[2_000, 4_000]
            } else {
                &[800, 2_000]
            })),
            limit,
            retry_delay: Duration::from_millis(of(&[0, 5, 50])),
            batches: of(&[0, 0, 1]) == 1,
            named: of(&[0, 1]) == 1,
            entries,
            workers: of(&[1, 2, 3]),
            poison: BTreeSet::new(),
            kills: of(&[0, 1, 2]).min(limit.saturating_sub(2)),
            lost: of(&[0, 2, 6]),
            calm,
        };
        for _ in 0..of(&[0, 1, 1, 2]) {
            round.poison.insert(of(&[0, 3, 4, 7, 9]));
        }
        if calm {
            round.poison.clear();
            (round.streams, round.workers, round.concurrency) = (1, 1, 1);
            (round.kills, round.lost, round.batches) = (0, 0, false);
        }
        round
    }

    /// Whether an entry is to be parked.
    fn is_guilty(&self, number: u64) -> bool {
        let fails = !self.calm && number % 17 == 5;
        self.poison.contains(&number) || fails
    }

    /// What a handler does with an entry, unless it succeeds.
    fn failure(&self, number: u64, attempt: u64) -> Option<Outcome> {
        if self.calm {
            return None;
        }
        match (number % 17, number % 5) {
            (5, _) => Some(Outcome::Failed("always".to_owned())),
            (8, _) if self.limit > 1 && attempt == 1 => Some(Outcome::Retry(Duration::ZERO)),
            (_, 1) if rand::random_range(0..2) == 0 => {
                Some(Outcome::Postpone(Duration::from_millis(2)))
            }
            _ => None,
        }
    }

    fn streams(&self, seawall: &Seawall) -> Vec<Stream<u64>> {
        (0..self.streams).map(|at| seawall.stream(format!("c-{at}")).expect("a name")).collect()
    }
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, folder, seed, name] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("four words");
    let round = Arc::new(Round::draw(seed.parse().expect("a number")));
    let folder = Path::new(folder);
    let ledger = Arc::new(Ledger::open(&folder.join("ledger"), Key::Unique));
    let begun = Arc::new(begun(folder));
    let mut seawall = None;
    eventually("in", async || {
        let builder = Seawall::builder(url).response_timeout(Duration::from_secs(1));
        seawall = builder.connect().await.ok();
        seawall.is_some()
    })
    .await;
    let seawall = seawall.expect("in");
    let mut builder = seawall.stream_worker("g", round.streams(&seawall));
    builder = builder.batch_size(round.batch).concurrency(round.concurrency);
    builder = builder.claim_idle(round.claim_idle).max_attempts(round.limit);
    builder = builder.retry_delay(round.retry_delay);
    if round.named {
        builder = builder.consumer(name);
    }
    let batches = round.batches;
    let handle = Arc::new(async move |deliveries: Vec<Delivery<u64>>| {
        for delivery in &deliveries {
            let number = *delivery.payload();
            // One write: lines do not mix.
            (&*begun).write_all(format!("{number}\n").as_bytes()).expect("written");
            if round.poison.contains(&number) {
                std::process::abort();
            }
            if let Some(failure) = round.failure(number, delivery.attempt()) {
                return failure;
            }
        }
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..4))).await;
        for delivery in deliveries {
            ledger.apply(&delivery.reference(), *delivery.payload());
        }
        Outcome::Done
    });
    let _worker = match batches {
        true => builder.spawn_batches(move |deliveries| {
            let handle = Arc::clone(&handle);
            async move { handle(deliveries).await }
        }),
        false => builder.spawn(move |delivery| {
            let handle = Arc::clone(&handle);
            async move { handle(vec![delivery]).await }
        }),
    }
    .expect("valid");
    // The parent ends it.
    std::future::pending::<()>().await;
}

fn begun(folder: &Path) -> File {
    let path = folder.join("begun");
    OpenOptions::new().create(true).append(true).open(path).expect("a file")
}

fn begins(folder: &Path) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join("begun")).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Whether everything was delivered and settled.
async fn settled(streams: &[Stream<u64>]) -> bool {
    for stream in streams {
        let status = stream.status("g").await.expect("answered");
        if status.pending > 0 || status.lag != Some(0) {
            return false;
        }
    }
    true
}

/// Keeps workers running, kills some, cuts connections, until everything is settled; how many died.
async fn break_things(
    round: &Round,
    seed: u64,
    proxy: &FaultProxy,
    folder: &Path,
    streams: &[Stream<u64>],
) -> (u64, Vec<Process>) {
    let start = |place: u64, number: u64| {
        let name = format!("w-{place}{}", if number.is_multiple_of(2) { "" } else { "-again" });
        let words = [proxy.url(), folder.display().to_string(), seed.to_string(), name];
        Process::start("campaign::work", VARIABLE, &words)
    };
    let mut workers: Vec<Process> = (0..round.workers).map(|place| start(place, 0)).collect();
    let (mut deaths, mut kills) = (0, 0);
    let deadline = Instant::now() + 5 * PATIENCE;
    while !settled(streams).await {
        for (place, worker) in workers.iter_mut().enumerate() {
            if let Some(by_signal) = ended(worker) {
                assert!(by_signal, "a worker ended by itself");
                deaths += 1;
                *worker = start(place as u64, deaths);
            } else if kills < round.kills && rand::random_range(0..60) == 0 {
                kills += 1;
                worker.child.kill().expect("it runs");
            }
        }
        if round.lost > 0 && rand::random_range(0..100) == 0 {
            proxy.cut_all();
        }
        assert!(Instant::now() < deadline, "not settled after {deaths} deaths: {round:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    (deaths, workers)
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
    let path: PathBuf = folder.path().to_owned();
    let seawall = judge(&server.url()).await;
    let streams = round.streams(&seawall);
    for number in 0..round.entries {
        let stream = &streams[(number % round.streams) as usize];
        stream.append(&number).await.expect("appended");
    }
    // The group exists before the first look.
    for command in ["XREADGROUP", "XACK", "EVALSHA"] {
        proxy.drop_reply(On::command(command).probability(round.lost as f64 / 100.0));
    }
    let (deaths, workers) = break_things(&round, seed, &proxy, &path, &streams).await;
    let done = begins(&path).len();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(begins(&path).len(), done, "what is settled is not begun again: {round:?}");
    drop(workers);
    let mut parked = BTreeSet::new();
    for stream in &streams {
        for one in stream.dead_letters(None).await.expect("answered") {
            let data = std::str::from_utf8(one.fields.get("data").expect("its payload"));
            parked.insert(data.expect("text").parse::<u64>().expect("a number"));
        }
    }
    let of = |guilty: bool| -> BTreeSet<u64> {
        (0..round.entries).filter(|number| round.is_guilty(*number) == guilty).collect()
    };
    assert_eq!(parked, of(true), "{deaths} deaths, {round:?}");
    let applied = applied(&path.join("ledger"));
    assert_eq!(applied.keys().copied().collect::<BTreeSet<_>>(), of(false), "{round:?}");
    assert!(applied.values().all(|times| *times == 1), "{round:?}");
    if round.calm {
        assert_eq!(begins(&path), (0..round.entries).collect::<Vec<_>>(), "{round:?}");
    }
    seawall.shutdown().await;
    [round.entries, parked.len() as u64, deaths, done as u64]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_and_nobody_innocent_is_parked() {
    let counted = ["entries", "parked", "deaths", "begun"];
    campaign_support::run("streams", counted, play).await;
}
