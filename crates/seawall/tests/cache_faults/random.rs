//! The cache as anybody might configure and use it: options, operations, cancellations and faults
//! drawn at random, checked against everything that docs/cache.md promises.
//!
//! A campaign is a row of short episodes. Each draws a configuration, lets the processes work while
//! things break, heals, and then looks: at what default reads converge to, at how many loads a flood of
//! readers causes, at what is left after the shutdown. `SEAWALL_ORACLE_SEED` repeats the first episode
//! with the chances of an earlier one, which a failure names.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{CacheError, Freshness, RemoteState, WhenBusy},
    cmd,
};

use crate::{
    chance::Chance,
    deeds::{Counts, Party},
    draw::{Draw, Guarded},
    faults::Ground,
    ledger::{Class, KEYS, Ledger, PARTIES, class_of},
    shakes::{come_back_older, remember, shake},
};

/// On each backend; in the soak the three of them take more than ten minutes.
const BUDGET: Duration = Duration::from_secs(6);
const SOAK: Duration = Duration::from_secs(220);
/// How long processes work in one episode.
const WORK: Duration = Duration::from_millis(1_200);
/// Tasks of each process.
const TASKS: u64 = 4;
/// Default reads are right this long after healing: the repair queue tries once a second, breakers
/// probe once a second, first levels follow within one; the rest is for a busy machine.
const CONVERGENCE: Duration = Duration::from_secs(15);
/// What is left after a shutdown is gone by then.
const LEFTOVERS: Duration = Duration::from_secs(10);
/// Configurations that are drawn before one is accepted.
const MAX_DRAWS: u32 = 200;
/// Callers of each process in a flood.
const FLOOD: usize = 40;
/// Keys that nothing but an invalidation ends.
const LASTING: [&str; 5] =
    ["cache-messages:", "cache-generation:", "cache-tag:", "cache-clears:", "cache-cleared:"];
const SEED_VARIABLE: &str = "SEAWALL_ORACLE_SEED";
const SECONDS_VARIABLE: &str = "SEAWALL_SOAK_SECONDS";

/// What all episodes did.
#[derive(Default)]
struct Total {
    episodes: u64,
    reads: u64,
    failed: u64,
    writes: u64,
    queued: u64,
    left: u64,
    worst: Duration,
    shakes: BTreeMap<&'static str, u64>,
}

#[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
async fn campaign(name: &str, mut ground: Ground) {
    let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
    let mut seed = given.unwrap_or_else(rand::random::<u64>);
    let seconds = std::env::var(SECONDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let soak = std::env::var_os("SEAWALL_SOAK").is_some();
    let budget = seconds.map_or(if soak { SOAK } else { BUDGET }, Duration::from_secs);
    println!("{name}: {SEED_VARIABLE}={seed}");
    let (began, mut total) = (Instant::now(), Total::default());
    while total.episodes == 0 || began.elapsed() < budget {
        total.episodes += 1;
        episode(name, &mut ground, seed, &mut total).await;
        seed = Chance::new(seed).below(u64::MAX);
    }
    let Total { episodes, reads, failed, writes, queued, left, worst, shakes } = total;
    println!(
        "{name}: {episodes} episodes, {reads} reads, {failed} failed, {writes} writes, {queued} queued, \
         {left} given up, converged within {worst:?}, {:.0} s\n  faults: {shakes:?}",
        began.elapsed().as_secs_f64()
    );
}

async fn connect(ground: &Ground, prefix: &str, calm: bool) -> Seawall {
    let patience = if calm { Duration::from_secs(20) } else { Duration::from_millis(400) };
    let deadline = Instant::now() + CONVERGENCE;
    loop {
        let builder = Seawall::builder(&ground.url()).prefix(prefix);
        let builder = builder.response_timeout(patience).connect_timeout(patience);
        match builder.connect().await {
            Ok(seawall) => return seawall,
            Err(error) => assert!(Instant::now() < deadline, "no connection: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The processes of one episode.
struct Scene {
    handles: Vec<Seawall>,
    parties: Vec<Party>,
    draw: Arc<Draw>,
    ledger: Arc<Ledger>,
    prefix: String,
}

impl Scene {
    async fn set(ground: &Ground, seed: u64, chance: &mut Chance, folder: &Path) -> Self {
        let prefix = format!("r{seed:x}:");
        for _ in 0..MAX_DRAWS {
            let draw = Arc::new(Draw::new(chance));
            let ledger = Arc::new(Ledger::new(draw.padding, draw.lag));
            let gates: Vec<_> = (0..KEYS).map(|_| tokio::sync::Mutex::new(())).collect();
            let (gates, over) = (Arc::new(gates), Arc::new(AtomicBool::new(false)));
            let counts = Arc::new(Counts::default());
            let (mut handles, mut parties) = (Vec::new(), Vec::new());
            for number in 0..PARTIES {
                let handle = connect(ground, &prefix, draw.calm).await;
                let log = folder.join(format!("repairs-{number}"));
                // A refusal is as good as any other answer to settings that contradict each other.
                if let Ok(cache) = draw.build(&handle, &ledger, &log) {
                    let (ledger, draw) = (Arc::clone(&ledger), Arc::clone(&draw));
                    let (gates, over) = (Arc::clone(&gates), Arc::clone(&over));
                    let counts = Arc::clone(&counts);
                    parties.push(Party { number, cache, ledger, draw, gates, over, counts });
                }
                handles.push(handle);
                if parties.len() < handles.len() {
                    break;
                }
            }
            if parties.len() == PARTIES {
                return Scene { handles, parties, draw, ledger, prefix };
            }
            for handle in handles {
                handle.shutdown().await;
            }
        }
        panic!("none of {MAX_DRAWS} configurations was accepted, SEAWALL_ORACLE_SEED={seed}");
    }

    /// Lets everybody work while things break, then heals.
    async fn play(&self, ground: &mut Ground, chance: &mut Chance, total: &mut Total) {
        let mut tasks = tokio::task::JoinSet::new();
        for party in &self.parties {
            for _ in 0..TASKS {
                tasks.spawn(party.clone().work(Chance::new(chance.below(u64::MAX))));
            }
        }
        let began = Instant::now();
        // What everybody was told last is what the server forgets at the end.
        let (forgets, mut kept) = (!self.draw.calm && chance.below(2) == 0, false);
        while began.elapsed() < WORK {
            tokio::time::sleep(Duration::from_millis(20 + chance.below(200))).await;
            if forgets && !kept && began.elapsed() > WORK / 4 {
                kept = remember(ground);
            }
            if !self.draw.calm {
                *total.shakes.entry(shake(ground, &self.ledger, chance).await).or_insert(0) += 1;
            }
        }
        ground.heal();
        self.parties.iter().for_each(|party| party.over.store(true, Ordering::SeqCst));
        while let Some(task) = tasks.join_next().await {
            task.expect("no panic");
        }
        if kept {
            come_back_older(ground, &self.ledger);
            *total.shakes.entry("older data at the end").or_insert(0) += 1;
        }
    }

    /// Default reads converge in every process. How long it took.
    async fn converge(&self, chance: &mut Chance) -> Duration {
        let began = Instant::now();
        // What the second invalidation is for needs it.
        let limit = CONVERGENCE + self.draw.second_after.unwrap_or_default();
        for party in &self.parties {
            while let Some(why) = party.recovers().await {
                if began.elapsed() > limit {
                    self.ledger.violation(0, &format!("{why} {limit:?} after healing"));
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for key in 0..KEYS {
                while let Err(why) = party.settled(key, chance).await {
                    if began.elapsed() > limit {
                        let state = party.cache.explain(&key).await.map(|state| state.to_string());
                        let text = format!("not right {limit:?} after healing: {why}\n{state:?}");
                        self.ledger.violation(key, &text);
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
        began.elapsed()
    }

    /// However many callers in all processes: one load of an absent key.
    async fn flood(&self) {
        let (draw, key) = (&self.draw, KEYS);
        let alone = draw.when_busy == WhenBusy::Load;
        let kept = draw.max_bytes > 1_000_000 && draw.ttl >= Duration::from_secs(60);
        let plain =
            draw.fails_one_in + draw.panics_one_in == 0 && draw.pipeline != Guarded::Tightly;
        if alone
            || !kept
            || !plain
            || draw.lease_ttl.is_none()
            || draw.filter
            || draw.lag > Duration::ZERO
        {
            return;
        }
        self.rush(key, Freshness::Cached, FLOOD).await;
        let loads = self.ledger.loads(key);
        if loads != 1 {
            self.ledger.violation(key, &format!("{loads} loads in a flood"));
        }
    }

    /// Many callers of one key at once, in all processes.
    async fn rush(&self, key: u64, freshness: Freshness, callers: usize) {
        // A version that has a row.
        while self.ledger.commit(key) == 0 || !self.ledger.exists(key) {}
        let mut tasks = tokio::task::JoinSet::new();
        for party in self.parties.iter().cycle().take(callers * PARTIES) {
            let (cache, load) = (party.cache.clone(), party.plain_loader(key));
            tasks.spawn(async move { cache.get_or_load_as(freshness, &key, load).await.map(drop) });
        }
        while let Some(answer) = tasks.join_next().await {
            match answer.expect("no panic") {
                Err(CacheError::Busy) if self.draw.when_busy == WhenBusy::Refuse => {}
                Err(CacheError::Shed { .. }) if self.draw.sheds() => {}
                Err(error) => self.ledger.violation(key, &format!("in a flood: {error}")),
                Ok(()) => {}
            }
        }
    }

    /// Redis is away: a process loads a key once for all who ask, or once more for strong readers who
    /// came after that load began.
    async fn flood_alone(&self, ground: &Ground) {
        if ground.proxies().is_empty() || self.draw.calm {
            return;
        }
        ground.proxies().iter().for_each(|proxy| proxy.down());
        for (key, freshness, each) in
            [(KEYS + 1, Freshness::Cached, 1), (KEYS + 2, Freshness::Strong, 2)]
        {
            self.rush(key, freshness, FLOOD).await;
            let (loads, most) = (self.ledger.loads(key), self.ledger.most_loading(key));
            if most > 1 {
                self.ledger.violation(key, &format!("{most} loads at once without Redis"));
            }
            // Callers come one after the other: with nothing kept, the next may load again.
            let kept = self.draw.local()
                && !self.draw.hot_only
                && self.draw.outage_ttl >= Duration::from_secs(1);
            if (kept || each > 1) && loads > each * PARTIES as u64 {
                let text = format!("{loads} loads for {freshness:?} readers without Redis");
                self.ledger.violation(key, &text);
            }
        }
        ground.heal();
    }

    /// What is left in Redis that should not be: keys that live for ever, leases that nobody holds.
    async fn leftovers(&self, ground: &Ground) -> Vec<String> {
        let handle = connect(ground, &self.prefix, true).await;
        let mut found = Vec::new();
        for key in ground.keys(&format!("{}*", self.prefix)).await {
            let ttl = handle.client().query(key.as_bytes(), cmd("PTTL").arg(&key)).await;
            let name = key.trim_start_matches(&self.prefix);
            match ttl {
                Ok(-1_i64) if !LASTING.iter().any(|lasting| name.starts_with(lasting)) => {
                    found.push(format!("{key} has no ttl"));
                }
                Ok(_) => {}
                Err(error) => found.push(format!("{key}: {error}")),
            }
        }
        // Where nothing broke, leases were given back; a put that was given up may leave one.
        let spare = tempfile::tempdir().expect("a temporary folder");
        let cache = self.draw.build(&handle, &self.ledger, spare.path()).expect("as before");
        for key in (0..KEYS).filter(|key| self.draw.calm && class_of(*key) != Class::Put) {
            let state = cache.explain(&key).await.expect("a good key");
            if let RemoteState::Entry(entry) = state.remote
                && let Some(left) = entry.lease_millis
            {
                found.push(format!("a lease of key {key} for {left} ms"));
            }
        }
        handle.shutdown().await;
        found
    }
}

async fn episode(name: &str, ground: &mut Ground, seed: u64, total: &mut Total) {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let (folder, before) = (tempfile::tempdir().expect("a temporary folder"), tasks());
    let mut chance = Chance::new(seed);
    let scene = Scene::set(ground, seed, &mut chance, folder.path()).await;
    scene.play(ground, &mut chance, total).await;
    let took = scene.converge(&mut chance).await;
    scene.flood().await;
    scene.flood_alone(ground).await;
    for handle in &scene.handles {
        handle.shutdown().await;
    }
    let mut wrong = String::new();
    for left in scene.leftovers(ground).await {
        let _ = writeln!(wrong, "  left over: {left}");
    }
    let counts = Arc::clone(&scene.parties[0].counts);
    let (draw, ledger) = (Arc::clone(&scene.draw), Arc::clone(&scene.ledger));
    drop(scene);
    let patience = Instant::now();
    while tasks() > before && patience.elapsed() < LEFTOVERS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    if tasks() > before {
        let _ = writeln!(wrong, "  left over: {} tasks, {before} before", tasks());
    }
    assert!(
        wrong.is_empty() && ledger.violations() == 0,
        "{name}: {} violations, {SEED_VARIABLE}={seed}\n  {draw:?}\n{wrong}  {}",
        ledger.violations(),
        ledger.kept()
    );
    let count = |what: &std::sync::atomic::AtomicU64| what.load(Ordering::Relaxed);
    total.reads += count(&counts.reads);
    total.failed += count(&counts.failed);
    total.writes += count(&counts.writes);
    total.queued += count(&counts.queued);
    total.left += count(&counts.left);
    total.worst = total.worst.max(took);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anything_goes_on_the_engine() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    campaign("random-engine", Ground::embedded(folder.path()).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anything_goes_on_redis() {
    campaign("random-redis", Ground::redis()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn anything_goes_on_a_cluster() {
    campaign("random-cluster", Ground::cluster()).await;
}
