//! A process that reads and writes through the cache and checks every read against the oracle.
//!
//! It is this very test binary, started once more with `SEAWALL_CACHE_WORKER` set: a process of its
//! own can be stopped and killed.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, CacheError, FileRecoveryLog, Freshness, Invalidation, Loaded, Read, Source},
};

use crate::{
    chance::Chance,
    database::{Client, Phase, Tally},
    process::{Worker, task},
};

const VARIABLE: &str = "SEAWALL_CACHE_WORKER";
/// Reads whose count is reported in one go.
const REPORT_EVERY: u64 = 50;
/// Keys of one batch read.
const BATCH: u64 = 4;

/// What a worker is told.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) url: String,
    pub(crate) prefix: String,
    pub(crate) database: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) keys: u64,
    pub(crate) readers: u64,
    pub(crate) writers: u64,
    pub(crate) local: bool,
    /// The longest time between reading the source and returning what was read.
    pub(crate) load_ms: u64,
    /// The longest pause of a writer.
    pub(crate) pause_ms: u64,
    /// Whether reads are checked while things break.
    pub(crate) strict: bool,
    pub(crate) seed: u64,
}

impl Task {
    pub(crate) fn start(&self, number: u64) -> Worker {
        let words = [
            self.url.clone(),
            self.prefix.clone(),
            self.database.display().to_string(),
            self.folder.display().to_string(),
            self.keys.to_string(),
            self.readers.to_string(),
            self.writers.to_string(),
            self.local.to_string(),
            self.load_ms.to_string(),
            self.pause_ms.to_string(),
            self.strict.to_string(),
            self.seed.to_string(),
            number.to_string(),
        ];
        Worker::start("worker::work", VARIABLE, &words)
    }
}

/// A cache as all workers build it: lives short, so that refreshes and expiry take part.
pub(crate) fn build(seawall: &Seawall, local: bool, log: &Path) -> Cache<u64, u64> {
    let log = Arc::new(FileRecoveryLog::open(log).expect("an own folder"));
    seawall
        .cache("oracle")
        .ttl(Duration::from_secs(3))
        .max_stale(Duration::from_secs(1))
        .lease_ttl(Duration::from_secs(2))
        .loader_timeout(Duration::from_secs(1))
        .read_timeout(Duration::from_secs(3))
        .local_max_bytes(if local { 1 << 20 } else { 0 })
        .recovery_log(log)
        .build()
        .expect("options agree")
}

pub(crate) async fn connect(url: &str, prefix: &str) -> Seawall {
    // Redis may be away at this very moment.
    for _ in 0..200 {
        let builder = Seawall::builder(url)
            .prefix(prefix)
            .response_timeout(Duration::from_millis(400))
            .connect_timeout(Duration::from_millis(400));
        match builder.connect().await {
            Ok(seawall) => return seawall,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    panic!("no connection to {url} in ten seconds");
}

/// The worker's own side; as a test without the variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Some(words) = task(VARIABLE) else { return };
    let [
        url,
        prefix,
        database,
        folder,
        keys,
        readers,
        writers,
        local,
        load,
        pause,
        strict,
        seed,
        number,
    ] = words.split(' ').collect::<Vec<_>>().try_into().expect("thirteen words");
    let figure = |text: &str| text.parse::<u64>().expect("a number");
    let (local, number) = (local == "true", figure(number));
    let seawall = connect(url, prefix).await;
    let log = Path::new(folder).join(format!("repairs-{number}"));
    let party = Party {
        cache: build(&seawall, local, &log),
        database: Client::new(Path::new(database)),
        keys: figure(keys),
        local,
        strict: strict == "true",
        load_ms: figure(load),
        pause_ms: figure(pause),
        number,
    };
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..figure(readers) {
        let chance = Chance::new(figure(seed) ^ number << 32 ^ index << 8);
        tasks.spawn(party.clone().read_on(chance));
    }
    for index in 0..figure(writers) {
        let chance = Chance::new(figure(seed) ^ number << 32 ^ index << 8 ^ 1);
        tasks.spawn(party.clone().write_on(chance));
    }
    while let Some(ended) = tasks.join_next().await {
        // The database is gone only when the test is over or failed.
        if ended.expect("no panic").is_err() {
            return;
        }
    }
    seawall.shutdown().await;
}

#[derive(Clone)]
struct Party {
    cache: Cache<u64, u64>,
    database: Client,
    keys: u64,
    local: bool,
    strict: bool,
    load_ms: u64,
    pause_ms: u64,
    number: u64,
}

impl Party {
    async fn read_on(self, mut chance: Chance) -> io::Result<()> {
        let mut counts = [0_u64; 6];
        let mut settled = false;
        loop {
            let key = chance.below(self.keys);
            let floor = self.database.floor(key).await?;
            if floor.phase == Phase::Stop {
                return Ok(());
            }
            if floor.phase == Phase::Settled {
                if !settled {
                    settled = true;
                    self.check_all().await?;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
            // A strong read brings the first level up to date: it would hide what this phase looks for.
            let watched = self.local && floor.phase != Phase::Faults;
            let strong = !watched && chance.below(3) == 0;
            let reads = if !strong && chance.below(8) == 0 {
                self.read_many(key, &mut chance).await?
            } else {
                let freshness = if strong { Freshness::Strong } else { Freshness::Cached };
                let load = self.loader(key, chance.below(self.load_ms + 1));
                let answer = self.cache.get_or_load_as(freshness, &key, load).await;
                vec![(key, floor, answer)]
            };
            for (key, floor, answer) in reads {
                counts[Tally::Reads as usize] += 1;
                counts[Tally::StrongReads as usize] += u64::from(strong);
                match answer {
                    Err(_) => counts[Tally::ReadErrors as usize] += 1,
                    Ok(read) => {
                        counts[Tally::FromLocal as usize] +=
                            u64::from(read.source == Source::Local);
                        counts[Tally::Stale as usize] += u64::from(read.source == Source::Stale);
                        let due = match (strong || !self.local, floor.phase) {
                            (_, Phase::Faults) if !self.strict => 0,
                            (true, _) => floor.now,
                            (false, Phase::Faults) => 0,
                            (false, _) => floor.before,
                        };
                        self.check(key, &read, due, u64::from(strong)).await?;
                    }
                }
            }
            if counts[0] >= REPORT_EVERY {
                for tally in [
                    Tally::Reads,
                    Tally::StrongReads,
                    Tally::ReadErrors,
                    Tally::FromLocal,
                    Tally::Stale,
                ] {
                    self.database.count(tally, counts[tally as usize]).await?;
                }
                counts = [0; 6];
            }
        }
    }

    async fn check(&self, key: u64, read: &Read<u64>, due: u64, kind: u64) -> io::Result<()> {
        let got = read.value.as_deref().copied().unwrap_or(0);
        if got < due {
            let source = match read.source {
                Source::Local => 0x10,
                Source::Remote => 0x20,
                Source::Loaded => 0x30,
                _ => 0x40,
            };
            self.database.violation(key, got, due, self.number << 8 | source | kind).await?;
        }
        Ok(())
    }

    async fn read_many(
        &self,
        first: u64,
        chance: &mut Chance,
    ) -> io::Result<Vec<(u64, crate::database::Floor, Result<Read<u64>, CacheError>)>> {
        let keys: Vec<u64> =
            (first..first + BATCH.min(self.keys)).map(|key| key % self.keys).collect();
        let mut floors = Vec::new();
        for key in &keys {
            floors.push(self.database.floor(*key).await?);
        }
        let (database, pause) = (self.database.clone(), chance.below(self.load_ms + 1));
        let load = move |keys: Vec<u64>| {
            let database = database.clone();
            async move {
                let mut found = std::collections::HashMap::new();
                for key in keys {
                    found.insert(key, database.load(key).await?);
                }
                tokio::time::sleep(Duration::from_millis(pause)).await;
                Ok::<_, io::Error>(found)
            }
        };
        let answers = self.cache.get_many(&keys, load).await;
        Ok(keys.into_iter().zip(floors).zip(answers).map(|((k, f), a)| (k, f, a)).collect())
    }

    /// Everything that was promised must be there; first levels included.
    async fn check_all(&self) -> io::Result<()> {
        for key in 0..self.keys {
            let floor = self.database.floor(key).await?;
            if let Ok(read) = self.cache.get_or_load(&key, self.loader(key, 0)).await {
                self.check(key, &read, floor.before, 2).await?;
                self.database.count(Tally::Settled, 1).await?;
            } else {
                self.database.violation(key, 0, floor.before, self.number << 8 | 3).await?;
            }
        }
        Ok(())
    }

    fn loader(
        &self,
        key: u64,
        pause_ms: u64,
    ) -> impl FnOnce() -> futures_util::future::BoxFuture<'static, io::Result<Loaded<u64>>>
    + Send
    + 'static {
        let database = self.database.clone();
        move || {
            Box::pin(async move {
                let version = database.load(key).await?;
                // What is read takes its time to arrive: here writes come between.
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                Ok(Loaded::Found(version))
            })
        }
    }

    async fn write_on(self, mut chance: Chance) -> io::Result<()> {
        loop {
            let key = chance.below(self.keys);
            let phase = self.database.floor(key).await?.phase;
            if phase >= Phase::Quiet {
                return self.database.count(Tally::WritersDone, 1).await;
            }
            // Fewer writes when first levels are looked at: the next write of a key would cover up a
            // copy that should be gone.
            let slower = if phase == Phase::Calm { 15 } else { 1 };
            let pause = chance.below(self.pause_ms * slower) + 1;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let (version, outcome) = if chance.below(2) == 0 {
                let commit = self.database.commit(key);
                self.cache.write(&key, commit).await.map_err(io::Error::other)?
            } else {
                let version = self.database.commit(key).await?;
                (version, self.cache.invalidate(&key).await.map_err(io::Error::other)?)
            };
            match outcome {
                Invalidation::Applied(_) => self.database.applied(key, version).await?,
                Invalidation::Queued => self.database.queued(key, version).await?,
            }
        }
    }
}
