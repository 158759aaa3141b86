//! What the processes of a random campaign do: the whole public interface, some of it given up in the
//! middle, with every answer and every error checked against what is promised.

use std::{
    collections::HashMap,
    future::poll_fn,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use futures_util::future::BoxFuture;
use seawall::{
    Error,
    cache::{
        Cache, CacheError, Freshness, Invalidation, Loaded, OnInvalidate, PutOutcome, Read, Source,
        Version, WhenBusy, WriteError,
    },
};

use crate::{
    chance::Chance,
    draw::{Draw, tag_of, value_tag},
    ledger::{Begun, ByTag, Class, KEYS, Ledger, ROW_TAGS, Row, class_of},
};

const FAILS: &str = "the source says no";
const PANICS: &str = "the loader is broken";
/// Keys of one batch.
const BATCH: u64 = 4;
/// The longest pause between two operations, in milliseconds.
const PAUSE: u64 = 4;

/// What was done, for the report.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) reads: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) queued: AtomicU64,
    pub(crate) left: AtomicU64,
}

/// One process.
#[derive(Clone)]
pub(crate) struct Party {
    pub(crate) number: usize,
    pub(crate) cache: Cache<u64, Row>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) draw: Arc<Draw>,
    /// Held by the one writer of a key that has but one at a time.
    pub(crate) gates: Arc<Vec<tokio::sync::Mutex<()>>>,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) counts: Arc<Counts>,
}

/// Polls so often, then gives up.
async fn leave_after<T>(polls: Option<u64>, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(move |context| match (work.as_mut().poll(context), &mut left) {
        (Poll::Ready(done), _) => Poll::Ready(Some(done)),
        (Poll::Pending, Some(0)) => Poll::Ready(None),
        (Poll::Pending, Some(left)) => {
            *left -= 1;
            Poll::Pending
        }
        (Poll::Pending, None) => Poll::Pending,
    })
    .await
}

/// Ends a load however it ends.
struct Loading(Arc<Ledger>, usize, u64);

impl Drop for Loading {
    fn drop(&mut self) {
        self.0.end_load(self.1, self.2);
    }
}

impl Party {
    pub(crate) async fn work(self, mut chance: Chance) {
        while !self.over.load(Ordering::SeqCst) {
            // Half of everything meets at a third of the keys.
            let among = KEYS / (1 + 2 * chance.below(2));
            let key = chance.below(among);
            match chance.below(21) {
                0..=8 => self.read(key, &mut chance).await,
                9 => self.peek(key, &mut chance).await,
                10 => self.read_many(key, &mut chance).await,
                11 => {
                    let _ = self.cache.explain(&key).await;
                }
                12 => self.invalidate_many(key, &mut chance).await,
                13 => self.clear(&mut chance).await,
                14 => self.clear_rows(&mut chance).await,
                _ => self.change(key, &mut chance).await,
            }
            tokio::time::sleep(Duration::from_millis(chance.below(PAUSE))).await;
        }
    }

    fn polls(&self, chance: &mut Chance) -> Option<u64> {
        (chance.below(self.draw.leaves_one_in) == 0).then(|| chance.below(4))
    }

    fn tell(&self, key: u64, what: &str) {
        self.ledger.event(key, || format!("p{} {what}", self.number));
    }

    fn freshness(&self, key: u64, chance: &mut Chance) -> (Freshness, u64) {
        match chance.below(8) {
            0 | 1 => (Freshness::Strong, 0),
            2 => match self.ledger.token(key, chance.below(u64::MAX)) {
                Some((token, version)) => (Freshness::After(token), version),
                None => (Freshness::Cached, 0),
            },
            3 => (Freshness::Within(Duration::from_millis(chance.below(2) * 300)), 0),
            4 => (Freshness::StaleOk, 0),
            _ => (Freshness::Cached, 0),
        }
    }

    /// What a reader with such wishes must see at least.
    fn due(&self, begun: &Begun, freshness: Freshness, after: u64, source: Source) -> u64 {
        if source == Source::Filtered {
            return begun.announced;
        }
        let kept = self.draw.on_invalidate == OnInvalidate::KeepForStale;
        match freshness {
            Freshness::After(_) => after,
            Freshness::StaleOk if kept => 0,
            _ if self.asks_redis(freshness) => begun.floor.max(begun.own),
            // What this process did itself is not in its first level either.
            _ => begun.own,
        }
    }

    /// What rows must be at least, by their tags.
    fn due_by_tag(&self, begun: &Begun, freshness: Freshness) -> ByTag {
        if self.asks_redis(freshness) {
            return std::array::from_fn(|tag| begun.tag_floor[tag].max(begun.tag_own[tag]));
        }
        begun.tag_own
    }

    fn asks_redis(&self, freshness: Freshness) -> bool {
        matches!(freshness, Freshness::Strong | Freshness::After(_)) || !self.draw.local()
    }

    fn check(&self, key: u64, begun: &Begun, freshness: Freshness, after: u64, read: &Read<Row>) {
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        let strict = begun.strict && self.ledger.is_strict() && !self.ledger.lags(key);
        let due = if strict { self.due(begun, freshness, after, read.source) } else { 0 };
        let by_tag = if strict { self.due_by_tag(begun, freshness) } else { ByTag::default() };
        let got = read.value.as_deref();
        let saw = got.map(|row| row.version);
        let text =
            format!("reads {freshness:?}: {saw:?} of {:?} ({})", read.source, read.version.0);
        self.tell(key, &text);
        if let Err(why) = self.ledger.suits(key, got, due, by_tag) {
            self.ledger.violation(key, &format!("p{} {text}: {why}", self.number));
        }
    }

    /// An error that the documentation excludes is a violation.
    fn judge(&self, key: u64, what: &str, error: &CacheError) {
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        let text = error.to_string();
        self.tell(key, &format!("{what} fails: {text}"));
        let allowed = match error {
            CacheError::Load(_) => text.contains(FAILS) || text.contains(PANICS),
            CacheError::Shed { .. } => self.draw.sheds(),
            CacheError::Busy => self.draw.when_busy == WhenBusy::Refuse,
            CacheError::ReadTimeout(_) => !self.draw.calm,
            // Whatever Redis does, the loader stands in.
            _ => false,
        };
        if !allowed {
            self.ledger.violation(key, &format!("p{} {what} fails: {text}", self.number));
        }
    }

    /// A loader of this process, with its chances drawn.
    pub(crate) fn loader(
        &self,
        key: u64,
        chance: &mut Chance,
    ) -> impl FnOnce() -> BoxFuture<'static, io::Result<Loaded<Row>>> + Send + 'static + use<> {
        let (ledger, party) = (Arc::clone(&self.ledger), self.number);
        let pause = Duration::from_millis(chance.below(self.draw.load_millis + 1));
        let fails = self.draw.fails_one_in > 0 && chance.below(self.draw.fails_one_in) == 0;
        let panics = self.draw.panics_one_in > 0 && chance.below(self.draw.panics_one_in) == 0;
        let kind = chance.below(10);
        move || {
            Box::pin(async move {
                let version = ledger.begin_load(party, key);
                let _loading = Loading(Arc::clone(&ledger), party, key);
                tokio::time::sleep(pause).await;
                if fails {
                    return Err(io::Error::other(FAILS));
                }
                assert!(!panics, "{PANICS}");
                Ok(match (ledger.row(key, version), kind) {
                    (None, _) => Loaded::Missing,
                    (Some(row), 0) => Loaded::DontCache(row),
                    (Some(row), 1) => Loaded::FoundFor(row, Duration::from_millis(200)),
                    (Some(row), _) => Loaded::Found(row),
                })
            })
        }
    }

    /// A loader that finds what there is and takes a while.
    pub(crate) fn plain_loader(
        &self,
        key: u64,
    ) -> impl FnOnce() -> BoxFuture<'static, io::Result<Loaded<Row>>> + Send + 'static + use<> {
        let (ledger, party) = (Arc::clone(&self.ledger), self.number);
        move || {
            Box::pin(async move {
                let version = ledger.begin_load(party, key);
                let _loading = Loading(Arc::clone(&ledger), party, key);
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Loaded::from(ledger.row(key, version)))
            })
        }
    }

    async fn read(&self, key: u64, chance: &mut Chance) {
        let (freshness, after) = self.freshness(key, chance);
        let (load, polls) = (self.loader(key, chance), self.polls(chance));
        let begun = self.ledger.begin(self.number, key);
        match leave_after(polls, self.cache.get_or_load_as(freshness, &key, load)).await {
            Some(Ok(read)) => self.check(key, &begun, freshness, after, &read),
            Some(Err(error)) => self.judge(key, &format!("reads {freshness:?},"), &error),
            None => self.left(),
        }
    }

    fn left(&self) {
        self.counts.left.fetch_add(1, Ordering::Relaxed);
    }

    async fn peek(&self, key: u64, chance: &mut Chance) {
        let (freshness, after) = self.freshness(key, chance);
        let begun = self.ledger.begin(self.number, key);
        match self.cache.get_as(freshness, &key).await {
            Ok(Some(read)) => self.check(key, &begun, freshness, after, &read),
            Ok(None) => {}
            // Nothing stands in for Redis here.
            Err(CacheError::Redis(_)) if !self.draw.calm => {}
            Err(error) => self.judge(key, &format!("peeks {freshness:?},"), &error),
        }
    }

    async fn read_many(&self, first: u64, chance: &mut Chance) {
        let keys: Vec<u64> = (first..first + BATCH).map(|key| key % KEYS).collect();
        let begun: Vec<Begun> =
            keys.iter().map(|key| self.ledger.begin(self.number, *key)).collect();
        let (ledger, party) = (Arc::clone(&self.ledger), self.number);
        let pause = Duration::from_millis(chance.below(self.draw.load_millis + 1));
        let fails = self.draw.fails_one_in > 0 && chance.below(self.draw.fails_one_in) == 0;
        let load = move |keys: Vec<u64>| {
            let ledger = Arc::clone(&ledger);
            async move {
                let mut found = HashMap::new();
                let mut loading = Vec::new();
                for key in keys {
                    let version = ledger.begin_load(party, key);
                    loading.push(Loading(Arc::clone(&ledger), party, key));
                    found.extend(ledger.row(key, version).map(|row| (key, row)));
                }
                tokio::time::sleep(pause).await;
                if fails { Err(io::Error::other(FAILS)) } else { Ok(found) }
            }
        };
        let polls = self.polls(chance);
        let Some(answers) = leave_after(polls, self.cache.get_many(&keys, load)).await else {
            return self.left();
        };
        for ((key, begun), answer) in keys.into_iter().zip(begun).zip(answers) {
            match answer {
                Ok(read) => self.check(key, &begun, Freshness::Cached, 0, &read),
                Err(error) => self.judge(key, "reads many,", &error),
            }
        }
    }

    /// Changes a row, and the cache as it is done for such keys.
    async fn change(&self, key: u64, chance: &mut Chance) {
        self.counts.writes.fetch_add(1, Ordering::Relaxed);
        let polls = self.polls(chance);
        if class_of(key) == Class::Free {
            return self.invalidate(key, chance.below(2) == 0, polls).await;
        }
        let gate = &self.gates[usize::try_from(key).expect("a key")];
        let _gate = gate.lock().await;
        match (class_of(key), chance.below(3)) {
            (Class::Versioned, _) => self.put_if_newer(key, polls).await,
            (_, 0) => self.invalidate(key, chance.below(2) == 0, polls).await,
            _ => self.put(key, polls).await,
        }
    }

    async fn invalidate(&self, key: u64, with_work: bool, polls: Option<u64>) {
        let era = self.ledger.begin(self.number, key).era;
        let committed = AtomicU64::new(0);
        let work = async {
            let version = self.ledger.commit(key);
            committed.store(version, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Ok::<_, Error>(version)
        };
        let done = if with_work {
            let done = leave_after(polls, self.cache.write(&key, work)).await;
            let why = |error| match error {
                WriteError::Work(error)
                | WriteError::NotRun(error)
                | WriteError::NotInvalidated(error) => error,
                error => panic!("{error}"),
            };
            done.map(|done| done.map(|(_, applied)| applied).map_err(why))
        } else {
            let _ = work.await;
            leave_after(polls, self.cache.invalidate(&key)).await
        };
        let version = committed.load(Ordering::SeqCst);
        self.record(key, version, done, era);
    }

    /// Notes what an invalidation promised.
    fn record(
        &self,
        key: u64,
        version: u64,
        done: Option<seawall::Result<Invalidation>>,
        era: u64,
    ) {
        match done {
            _ if version == 0 => {}
            Some(Ok(Invalidation::Applied(token))) => {
                self.ledger.applied(self.number, key, version, Some(token), era);
                self.tell(key, &format!("invalidates before {version}, applied {}", token.0));
            }
            Some(Ok(Invalidation::Queued)) => {
                self.counts.queued.fetch_add(1, Ordering::Relaxed);
                self.ledger.queued(self.number, key, version);
                self.tell(key, &format!("invalidates before {version}, queued"));
                if self.draw.calm {
                    self.ledger.violation(key, "queued though nothing is wrong");
                }
            }
            Some(Err(error)) => {
                self.ledger.violation(key, &format!("an invalidation fails: {error}"));
            }
            None => {
                self.left();
                self.ledger.queued(self.number, key, version);
                self.tell(key, &format!("invalidates before {version}, left"));
            }
        }
    }

    async fn invalidate_many(&self, first: u64, chance: &mut Chance) {
        let keys: Vec<u64> = (first..first + BATCH)
            .map(|key| key % KEYS)
            .filter(|key| class_of(*key) == Class::Free)
            .collect();
        let era = self.ledger.begin(self.number, first).era;
        let versions: Vec<u64> = keys.iter().map(|key| self.ledger.commit(*key)).collect();
        let done = leave_after(self.polls(chance), self.cache.invalidate_many(&keys)).await;
        for (key, version) in keys.into_iter().zip(versions) {
            self.record(key, version, done.clone(), era);
        }
    }

    /// Clears everything or a tag; new rows are not announced that way.
    async fn clear(&self, chance: &mut Chance) {
        let all = chance.below(2) == 0;
        if self.ledger.lags(0) || !(if all { self.draw.clearable } else { self.draw.tags }) {
            return;
        }
        let tag = tag_of(chance.below(3));
        let concerned = |key: &u64| {
            class_of(*key) == Class::Free
                && (all || tag_of(*key) == tag)
                && (!self.draw.filter || self.ledger.exists(*key))
        };
        let keys: Vec<u64> = (0..KEYS).filter(concerned).collect();
        let versions: Vec<u64> = keys.iter().map(|key| self.ledger.commit(*key)).collect();
        let work =
            async { if all { self.cache.clear().await } else { self.cache.clear_tag(&tag).await } };
        let done = leave_after(self.polls(chance), work).await;
        for (key, version) in keys.into_iter().zip(versions) {
            self.tell(
                key,
                &format!("clears {} before {version}: {done:?}", if all { "all" } else { &tag }),
            );
            match &done {
                Some(Ok(())) => self.ledger.applied(self.number, key, version, None, 0),
                // Not known to be done: it will be, and this process is not promised anything yet.
                Some(Err(error)) if error.is_indeterminate() => self.ledger.promised(key, version),
                Some(Err(error)) if self.draw.calm => {
                    self.ledger.violation(key, &format!("a clearing fails: {error}"));
                }
                Some(Err(_)) => {}
                None => self.ledger.promised(key, version),
            }
        }
    }

    /// Clears a tag that rows carry.
    async fn clear_rows(&self, chance: &mut Chance) {
        if self.ledger.lags(0) || !self.draw.value_tags {
            return;
        }
        let tag = usize::try_from(chance.below(ROW_TAGS as u64)).expect("a tag");
        let keys: Vec<u64> = (0..KEYS).filter(|key| class_of(*key) == Class::Free).collect();
        let versions: Vec<u64> = keys.iter().map(|key| self.ledger.commit(*key)).collect();
        let name = value_tag(tag);
        let done = leave_after(self.polls(chance), self.cache.clear_tag(&name)).await;
        for (key, version) in keys.into_iter().zip(versions) {
            self.tell(key, &format!("clears {name} before {version}: {done:?}"));
            match &done {
                Some(Ok(())) => self.ledger.cleared(Some(self.number), key, tag, version),
                // Not known to be done: it will be.
                None => self.ledger.cleared(None, key, tag, version),
                Some(Err(error)) if error.is_indeterminate() => {
                    self.ledger.cleared(None, key, tag, version);
                }
                Some(Err(error)) if self.draw.calm => {
                    self.ledger.violation(key, &format!("a clearing fails: {error}"));
                }
                Some(Err(_)) => {}
            }
        }
    }

    async fn put(&self, key: u64, polls: Option<u64>) {
        let era = self.ledger.begin(self.number, key).era;
        let version = self.ledger.commit(key);
        let Some(row) = self.ledger.row(key, version) else {
            let done = leave_after(polls, self.cache.invalidate(&key)).await;
            return self.record(key, version, done, era);
        };
        let done = leave_after(polls, self.cache.put(&key, &row)).await;
        self.tell(key, &format!("puts {version}: {done:?}"));
        match done {
            Some(Ok(token)) => self.ledger.applied(self.number, key, version, Some(token), era),
            Some(Err(error)) => self.refused(key, "a put", &error),
            None => self.left(),
        }
    }

    /// A put may fail for its size, or with Redis.
    fn refused(&self, key: u64, what: &str, error: &Error) {
        let too_large = matches!(error, Error::Invalid(text) if text.contains("max_value_bytes"));
        if self.draw.calm && !too_large {
            self.ledger.violation(key, &format!("{what} fails: {error}"));
        }
    }

    async fn put_if_newer(&self, key: u64, polls: Option<u64>) {
        let era = self.ledger.begin(self.number, key).era;
        let version = self.ledger.commit(key);
        let row = self.ledger.row(key, version);
        let done = leave_after(polls, self.cache.put_if_newer(&key, version, row.as_ref())).await;
        self.tell(key, &format!("puts version {version}: {done:?}"));
        match done {
            Some(Ok(PutOutcome::Stored(token))) => {
                self.ledger.applied(self.number, key, version, Some(token), era);
            }
            Some(Ok(outcome)) => {
                let text = format!("p{} puts version {version}: {outcome:?}", self.number);
                self.ledger.violation(key, &text);
            }
            Some(Err(error)) => self.refused(key, "a versioned put", &error),
            None => self.left(),
        }
    }

    /// What keeps this process from using Redis for every key, as far as it says.
    pub(crate) async fn recovers(&self) -> Option<String> {
        for key in 0..KEYS {
            let state = match self.cache.explain(&key).await {
                Ok(state) => state,
                Err(error) => return Some(error.to_string()),
            };
            if state.breaker != "closed" {
                // Only a read asks whether the server is back.
                let _ = self.cache.get_as(Freshness::Strong, &key).await;
                return Some(format!("p{}: the breaker of key {key} is open", self.number));
            }
            if state.recovery_queue > 0 {
                return Some(format!("p{}: {} wait", self.number, state.recovery_queue));
            }
        }
        None
    }

    /// A default read at the end; what is wrong with it.
    pub(crate) async fn settled(&self, key: u64, chance: &mut Chance) -> Result<(), String> {
        let load = self.loader(key, chance);
        let begun = self.ledger.begin(self.number, key);
        match self.cache.get_or_load(&key, load).await {
            Ok(read) => {
                let (got, due) = (read.value.as_deref(), begun.promised);
                self.ledger.suits(key, got, due, begun.tag_promised).map_err(|why| {
                    let Version(version) = read.version;
                    format!("p{} reads {:?} ({version}): {why}", self.number, read.source)
                })
            }
            Err(error) => Err(format!("p{} reads: {error}", self.number)),
        }
    }
}
