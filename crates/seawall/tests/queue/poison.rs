//! An item that aborts its process dies alone, and lost replies are no attempts.

use std::{
    collections::BTreeSet,
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use seawall::{
    Seawall, cmd,
    queue::{Delayed, Job},
    stream::Outcome,
};
use seawall_testkit::{
    ServerProcess,
    backend::{Backend, TestBackend},
    proxy::{FaultProxy, On},
};
use tempfile::TempDir;

use crate::{
    PATIENCE, ended, eventually,
    process::{Worker as Process, task},
};

const VARIABLE: &str = "SEAWALL_QUEUE_POISON";
const ITEMS: u64 = 40;
/// Of a worker that is alive none ends, however busy the machine is.
const LEASE: Duration = Duration::from_secs(4);

/// What a trial is about.
#[derive(Debug, Clone)]
struct Trial {
    url: String,
    prefix: String,
    done: PathBuf,
    shards: usize,
    attempts: u64,
    /// Every so manieth item aborts the process.
    poison: u64,
    /// Whether items are claimed by hand, so many at a time.
    by_hand: bool,
}

impl Trial {
    fn start(&self) -> Process {
        let words = [
            self.url.clone(),
            self.prefix.clone(),
            self.done.display().to_string(),
            self.shards.to_string(),
            self.attempts.to_string(),
            self.poison.to_string(),
            self.by_hand.to_string(),
        ];
        Process::start("poison::work", VARIABLE, &words)
    }

    fn queue(&self, seawall: &Seawall) -> Delayed<u64> {
        let builder = seawall.delayed_queue::<u64>("poison").shards(self.shards);
        builder.lease_ttl(LEASE).max_attempts(self.attempts).build().expect("valid")
    }

    fn is_poison(&self, number: u64) -> bool {
        number % self.poison == self.poison / 2
    }
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(words) = task(VARIABLE) else { return };
    let [url, prefix, done, shards, attempts, poison, by_hand] =
        words.split(' ').collect::<Vec<_>>().try_into().expect("seven words");
    let trial = Arc::new(Trial {
        url: url.to_owned(),
        prefix: prefix.to_owned(),
        done: done.into(),
        shards: shards.parse().expect("a number"),
        attempts: attempts.parse().expect("a number"),
        poison: poison.parse().expect("a number"),
        by_hand: by_hand == "true",
    });
    let seawall = Seawall::builder(url).prefix(prefix).connect().await.expect("in");
    let file = OpenOptions::new().append(true).create(true).open(done).expect("a file");
    let file = Arc::new(Mutex::new(file));
    let queue = trial.queue(&seawall);
    let by_hand = trial.by_hand;
    let handle = Arc::new(async move |job: Job<u64>| {
        if trial.is_poison(*job.payload()) {
            std::process::abort();
        }
        // Neighbours are at work when the poison is begun.
        tokio::time::sleep(Duration::from_millis(5)).await;
        writeln!(file.lock().expect("no panic"), "{}", job.payload()).expect("written");
        Outcome::Done
    });
    if !by_hand {
        let builder = queue.worker().concurrency(16).poll_interval(Duration::from_millis(50));
        let handle = Arc::clone(&handle);
        let _worker = builder.spawn(move |job: Job<u64>| {
            let handle = Arc::clone(&handle);
            async move { handle(job).await }
        });
        // The parent ends it.
        std::future::pending::<()>().await;
    }
    loop {
        let claim = queue.claim(16).await.expect("answered");
        let begun: Vec<_> = claim.jobs.iter().map(|job| handle(job.clone())).collect();
        for (job, outcome) in claim.jobs.iter().zip(futures_util::future::join_all(begun).await) {
            assert_eq!(outcome, Outcome::Done);
            let _ = queue.ack(job).await.expect("answered");
        }
        if claim.jobs.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn done(path: &Path) -> BTreeSet<u64> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| line.parse().expect("a number")).collect()
}

/// Runs a trial and judges it.
async fn run(backend: Backend, shards: usize, attempts: u64, poison: u64, by_hand: bool) {
    let stand = TestBackend::shared(backend).expect("the backend starts");
    let folder = TempDir::new().expect("a folder");
    let prefix = format!("poison-{:08x}:", rand::random::<u32>());
    let socket = folder.path().join("engine.sock");
    let builder = Seawall::builder(stand.url()).prefix(&prefix);
    let (builder, url) = match backend {
        Backend::Embedded => (builder.engine_socket(&socket), format!("unix:{}", socket.display())),
        _ => (builder, stand.url().to_owned()),
    };
    let seawall = builder.connect().await.expect("in");
    let path = folder.path().join("done");
    let trial = Trial { url, prefix, done: path.clone(), shards, attempts, poison, by_hand };
    let queue = trial.queue(&seawall);
    for number in 0..ITEMS {
        let _ = queue.add(format!("p-{number}"), &number, Duration::ZERO).await.expect("answered");
    }
    let (mut deaths, mut worker) = (0, trial.start());
    let deadline = Instant::now() + 4 * PATIENCE;
    loop {
        if let Some(by_signal) = ended(&mut worker) {
            assert!(by_signal, "a worker ended by itself");
            deaths += 1;
            worker = trial.start();
        }
        let status = queue.status().await.expect("answered");
        if status.waiting + status.leased == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{status:?} after {deaths} deaths");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let dead = queue.dead(100).await.expect("answered").items;
    assert!(dead.iter().all(|dead| dead.reason.contains("its lease ended")), "{dead:?}");
    let number = |text: &[u8]| std::str::from_utf8(text).expect("text").parse().expect("a number");
    let dead: BTreeSet<u64> = dead.iter().map(|dead| number(&dead.payload)).collect();
    let guilty: BTreeSet<u64> = (0..ITEMS).filter(|number| trial.is_poison(*number)).collect();
    let innocent: BTreeSet<u64> = (0..ITEMS).filter(|n| !trial.is_poison(*n)).collect();
    assert_eq!(dead, guilty, "after {deaths} deaths");
    assert_eq!(done(&path), innocent);
    let most = guilty.len() as u64 * (attempts + 1);
    assert!((attempts..=most).contains(&deaths), "{deaths} deaths, at most {most}");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_aborts_its_process_dies_alone_on_redis() {
    run(Backend::Redis, 1, 3, ITEMS, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_abort_their_process_die_alone_on_the_embedded_engine() {
    run(Backend::Embedded, 2, 1, 20, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_abort_their_process_die_alone_on_a_cluster() {
    run(Backend::Cluster, 4, 2, 20, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_that_are_claimed_by_hand_and_abort_their_process_die_alone() {
    run(Backend::Redis, 2, 2, 20, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_replies_of_claims_are_no_attempts() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(PATIENCE);
    let seawall = builder.connect().await.expect("in");
    let builder = seawall.delayed_queue::<u64>("lost").lease_ttl(LEASE);
    let queue = builder.max_attempts(1).build().expect("valid");
    // From here on the server knows the script: no reply that is lost says only that it does not.
    assert!(queue.claim(1).await.expect("answered").jobs.is_empty());
    for number in 0..ITEMS {
        let _ = queue.add(format!("l-{number}"), &number, Duration::ZERO).await.expect("answered");
    }
    let script = |command: &[Vec<u8>]| command[0].to_ascii_uppercase().starts_with(b"EVAL");
    // Claims name the counter of tokens.
    let counter = "delayed:{lost}:last";
    let lost = proxy.drop_reply(On::any().when(script).key_prefix(counter));
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let noted = Arc::clone(&seen);
    let worker =
        queue.worker().poll_interval(Duration::from_millis(50)).spawn(move |job: Job<u64>| {
            noted.lock().expect("no panic").insert(*job.payload());
            async { Outcome::Done }
        });
    let worker = worker.expect("valid");
    let direct = Seawall::connect(&server.url()).await.expect("in");
    eventually("an item was taken more often than it may be tried", async || {
        // Its lease has ended before, says the half in its note, and there is another one.
        let ask = "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
                     local note = redis.call('HGET', KEYS[2], id) \
                     if note and note:sub(-2) == '.5' then return 1 end \
                   end \
                   return 0";
        let mut eval = cmd("EVAL");
        eval.arg(ask).arg(2).arg("delayed:{lost}:leased").arg("delayed:{lost}:notes");
        direct.client().query::<u64>(counter.as_bytes(), &eval).await.expect("answered") == 1
    })
    .await;
    assert!(seen.lock().expect("no panic").is_empty(), "nobody learnt of them");
    proxy.remove(lost);
    eventually("all are done", async || {
        let status = queue.status().await;
        status.is_ok_and(|status| status.waiting + status.leased == 0)
    })
    .await;
    assert_eq!(queue.status().await.expect("answered").dead, 0);
    assert_eq!(seen.lock().expect("no panic").len() as u64, ITEMS);
    worker.shutdown().await;
    direct.shutdown().await;
    seawall.shutdown().await;
}

/// A worker that was held up until the lease of its item had ended, and then begins it: the attempt
/// has a lease of its own, and the item is not blamed for the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_is_begun_late_has_a_whole_lease() {
    const LEASE: Duration = Duration::from_secs(2);
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let direct = Seawall::connect(&server.url()).await.expect("in");
    let builder = Seawall::builder(&proxy.url()).response_timeout(PATIENCE);
    let seawall = builder.connect().await.expect("in");
    let queue = |seawall: &Seawall| {
        let builder = seawall.delayed_queue::<u64>("late").lease_ttl(LEASE);
        builder.max_attempts(1).build().expect("valid")
    };
    let (ours, theirs) = (queue(&seawall), queue(&direct));
    let _ = theirs.add("a", &1, Duration::ZERO).await.expect("answered");
    // A consumer that dies with it: the next one begins it alone.
    assert_eq!(theirs.claim(1).await.expect("answered").jobs.len(), 1);
    // The script that begins an item has three keys, the one that extends leases two.
    let with_keys = |keys: &'static [u8]| {
        let is_it = move |command: &[Vec<u8>]| {
            command[0].to_ascii_uppercase().starts_with(b"EVAL") && command[2] == keys
        };
        On::any().when(is_it).key_prefix("delayed:{late}:leased")
    };
    proxy.fail_with(with_keys(b"2"), "ERR not extended");
    let held = proxy.hold_request(with_keys(b"3"));
    let (say, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let goes_on = Arc::new(tokio::sync::Semaphore::new(0));
    let (poll, may_end) = (Duration::from_millis(50), Arc::clone(&goes_on));
    let worker = ours.worker().poll_interval(poll).spawn(move |_: Job<u64>| {
        let (say, may_end) = (say.clone(), Arc::clone(&may_end));
        async move {
            say.send(()).expect("somebody listens");
            let _ = may_end.acquire().await.expect("open");
            Outcome::Done
        }
    });
    let worker = worker.expect("valid");
    eventually("its begin is held", async || proxy.held() == 1).await;
    eventually("its lease has ended", async || {
        let ask = "local time = redis.call('TIME') \
                   return redis.call('ZCOUNT', KEYS[1], '-inf', time[1] * 1000)";
        let key = "delayed:{late}:leased";
        let mut eval = cmd("EVAL");
        eval.arg(ask).arg(1).arg(key);
        direct.client().query::<u64>(key.as_bytes(), &eval).await.expect("answered") == 1
    })
    .await;
    proxy.remove(held);
    begun.recv().await.expect("it is begun");
    assert!(theirs.claim(1).await.expect("answered").jobs.is_empty(), "it has its lease");
    assert_eq!(theirs.status().await.expect("answered").dead, 0, "it is not to blame");
    goes_on.add_permits(1);
    eventually("it is done", async || theirs.status().await.expect("answered").leased == 0).await;
    assert_eq!(theirs.status().await.expect("answered").dead, 0);
    worker.shutdown().await;
    direct.shutdown().await;
    seawall.shutdown().await;
}
