//! A campaign: workers read and write while things break, then heal, then everything is checked.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use crate::{
    chance::Chance,
    database::{Database, Phase, Tally},
    faults::{Ground, strike},
    process::Worker,
    worker::Task,
};

/// Nothing stale is left this long after healing.
const HEALED: Duration = Duration::from_secs(5);
/// How long first levels are watched while messages get lost, and how many of them do.
const CALM: Duration = Duration::from_secs(4);
const LOST_MESSAGES: f64 = 0.3;
/// A campaign that does not get on is a failed one.
const LIMIT: Duration = Duration::from_secs(200);
const SEED_VARIABLE: &str = "SEAWALL_ORACLE_SEED";
/// Ends each campaign of a soak after so many seconds, however many reads there were.
const SECONDS_VARIABLE: &str = "SEAWALL_SOAK_SECONDS";
/// How often a long campaign says how far it is.
const PROGRESS: Duration = Duration::from_secs(30);

/// What a campaign is to do.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) reads: u64,
    pub(crate) workers: u64,
    pub(crate) keys: u64,
    pub(crate) local: bool,
    pub(crate) breaks: bool,
    /// Whether reads must be right while things break, and not only after healing.
    pub(crate) strict: bool,
}

impl Plan {
    pub(crate) fn new(reads: u64, local: bool) -> Self {
        let soak = if std::env::var_os("SEAWALL_SOAK").is_some() { 50 } else { 1 };
        Plan { reads: reads * soak, workers: 3, keys: 24, local, breaks: true, strict: true }
    }
}

/// What came of it.
pub(crate) struct Report {
    name: String,
    seed: u64,
    pub(crate) reads: u64,
    strong: u64,
    errors: u64,
    local: u64,
    stale: u64,
    pub(crate) settled: u64,
    /// Every reader of every worker reads every key at the end.
    expected: u64,
    loads: u64,
    applied: u64,
    queued: u64,
    pub(crate) violations: u64,
    kept: Vec<String>,
    faults: BTreeMap<&'static str, u64>,
    took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} reads ({} strong, {} from L1, {} stale, {} failed), {} settled reads, {} loads, \
             {} invalidations applied, {} queued, {} violations, {:.0} s, SEAWALL_ORACLE_SEED={}",
            self.name,
            self.reads,
            self.strong,
            self.local,
            self.stale,
            self.errors,
            self.settled,
            self.loads,
            self.applied,
            self.queued,
            self.violations,
            self.took.as_secs_f64(),
            self.seed
        )?;
        writeln!(f, "  faults: {:?}", self.faults)?;
        self.kept.iter().try_for_each(|violation| writeln!(f, "  {violation}"))
    }
}

impl Report {
    #[expect(clippy::print_stdout, reason = "figures are there to be quoted")]
    pub(crate) fn assert_clean(&self) {
        println!("{self}");
        assert_eq!(self.violations, 0, "{self}");
        assert_eq!(self.settled, self.expected, "not everything was checked at the end: {self}");
    }
}

/// Runs a campaign; `between` is an event of the test's own in the middle, such as a fail-over.
#[expect(clippy::print_stdout, reason = "a long campaign says how far it is")]
pub(crate) async fn run(
    name: &str,
    ground: &Ground,
    plan: &Plan,
    mut between: impl AsyncFnMut(&Ground),
) -> Report {
    let began = Instant::now();
    let given = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random::<u64>);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let database = Database::start(folder.path(), usize::try_from(plan.keys).expect("few"));
    let task = Task {
        url: ground.url(),
        prefix: format!("{name}-{seed:x}:"),
        database: database.socket().to_owned(),
        folder: folder.path().to_owned(),
        keys: plan.keys,
        readers: 6,
        writers: 2,
        local: plan.local,
        load_ms: 12,
        pause_ms: 40,
        strict: plan.strict,
        seed,
    };
    let mut workers: Vec<Worker> = (0..plan.workers).map(|number| task.start(number)).collect();
    let mut chance = Chance::new(seed);
    let mut faults = BTreeMap::new();
    // Nothing that comes after a violation matters.
    let found = |database: &Database| database.violations() > 0;
    let mut turned = false;
    let seconds = std::env::var(SECONDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let budget = seconds.map_or(Duration::MAX, Duration::from_secs);
    let mut told = began;
    while database.count(Tally::Reads) < plan.reads && !found(&database) && began.elapsed() < budget
    {
        if told.elapsed() > PROGRESS {
            told = Instant::now();
            let (reads, violations) = (database.count(Tally::Reads), database.violations());
            println!("{name}: {reads} reads, {violations} violations, {:?}", began.elapsed());
        }
        assert!(
            began.elapsed() < LIMIT * if plan.reads > 100_000 { 100 } else { 1 },
            "only {} reads",
            database.count(Tally::Reads)
        );
        tokio::time::sleep(Duration::from_millis(20 + chance.below(150))).await;
        if plan.breaks {
            let what = strike(ground, &mut workers, &task, &mut chance).await;
            *faults.entry(what).or_insert(0) += 1;
        }
        let halfway =
            database.count(Tally::Reads) * 2 >= plan.reads || began.elapsed() * 2 > budget;
        if !turned && halfway {
            turned = true;
            between(ground).await;
        }
    }
    ground.heal();
    if !found(&database) {
        tokio::time::sleep(HEALED).await;
        // Messages get lost without a sign, Redis answers: first levels converge within a second.
        for proxy in ground.proxies() {
            proxy.drop_pushes(LOST_MESSAGES);
        }
        database.enter(Phase::Calm);
        let calm = Instant::now();
        while calm.elapsed() < CALM && !found(&database) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        ground.heal();
        // A write that was under way has a second from its own end, not from this moment.
        database.enter(Phase::Quiet);
        let patience = Instant::now();
        while database.count(Tally::WritersDone) < plan.workers * task.writers {
            assert!(patience.elapsed() < LIMIT, "the writers do not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    database.enter(Phase::Settled);
    let expected = plan.workers * task.readers * plan.keys;
    let patience = Instant::now();
    while database.count(Tally::Settled) + database.violations() < expected
        && patience.elapsed() < LIMIT
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    database.enter(Phase::Stop);
    let lost: u64 = ground.proxies().iter().map(|proxy| proxy.lost_pushes()).sum();
    faults.insert("messages lost", lost);
    if found(&database) {
        drop(workers);
    } else {
        tokio::task::spawn_blocking(|| workers.into_iter().for_each(Worker::join))
            .await
            .expect("workers end");
    }
    Report {
        name: name.to_owned(),
        seed,
        reads: database.count(Tally::Reads),
        strong: database.count(Tally::StrongReads),
        errors: database.count(Tally::ReadErrors),
        local: database.count(Tally::FromLocal),
        stale: database.count(Tally::Stale),
        settled: database.count(Tally::Settled),
        expected,
        loads: database.loads(),
        applied: database.applied(),
        queued: database.queued(),
        violations: database.violations(),
        kept: database.kept(),
        faults,
        took: began.elapsed(),
    }
}
