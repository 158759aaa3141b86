//! The rewrite protocol against a toy store: random writes between slices, power cuts anywhere.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use super::super::disk::{Disk, DiskFile};
use super::super::sim::{Faults, SimDisk};
use super::super::{Options, Policy, load};
use super::*;

type Keys = BTreeMap<(Cursor, Vec<u8>), Vec<u8>>;

const DATABASES: u32 = 2;
const KEYS: u64 = 24;

/// A store with few places, so that keys share them and operations straddle the cursor.
#[derive(Default, Clone)]
struct Toy {
    keys: Keys,
}

fn place(db: u32, key: &[u8]) -> Cursor {
    let mixed = key.iter().fold(7u64, |hash, &byte| hash.wrapping_mul(31) ^ u64::from(byte));
    Cursor { db, position: mixed % 11 }
}

impl Toy {
    fn slot(db: u32, key: &[u8]) -> (Cursor, Vec<u8>) {
        (place(db, key), key.to_vec())
    }

    fn apply(&mut self, operation: &Operation<'_>) {
        let args: Vec<&[u8]> = operation.args().collect();
        let db = operation.db;
        let other = |arg: &[u8]| u32::from(arg[0] - b'0');
        match *args.as_slice() {
            [b"SET", key, value] => drop(self.keys.insert(Self::slot(db, key), value.to_vec())),
            [b"APPEND", key, more] => {
                self.keys.entry(Self::slot(db, key)).or_default().extend_from_slice(more);
            }
            [b"DEL", key] => drop(self.keys.remove(&Self::slot(db, key))),
            [b"COPY", from, to] => {
                if let Some(value) = self.keys.get(&Self::slot(db, from)).cloned() {
                    self.keys.insert(Self::slot(db, to), value);
                }
            }
            [b"MOVE", key, to] => {
                if let Some(value) = self.keys.remove(&Self::slot(db, key)) {
                    self.keys.insert(Self::slot(other(to), key), value);
                }
            }
            [b"FLUSHALL"] => self.keys.clear(),
            [b"FLUSHDB"] => self.keys.retain(|(place, _), _| place.db != db),
            [b"SWAPDB"] => {
                let keys = std::mem::take(&mut self.keys);
                for ((place, key), value) in keys {
                    self.keys.insert(Self::slot(1 - place.db, &key), value);
                }
            }
            _ => panic!("the toy knows no {args:?}"),
        }
    }
}

/// Longer values are large.
const LARGE: usize = 12;
/// Bytes of a large value that are dumped per slice.
const PART: usize = 5;

impl DumpSource for Toy {
    fn dump_slice(
        &self,
        cursor: Cursor,
        budget: usize,
        out: &mut Effects,
        large: &mut Vec<Part>,
    ) -> Option<Cursor> {
        // The budget of the real one counts bytes; the toy dumps one place a slice.
        assert!(budget > 0);
        let (&(place, _), _) = self.keys.range((cursor, Vec::new())..).next()?;
        let next = Cursor { position: place.position + 1, ..place };
        for ((_, key), value) in self.keys.range((place, Vec::new())..(next, Vec::new())) {
            if value.len() > LARGE {
                large.push(Part::new(place.db, key));
            } else {
                out.push(place.db, &[b"SET", key.as_slice(), value]);
            }
        }
        Some(next)
    }

    fn is_large(&self, db: u32, key: &[u8]) -> bool {
        self.keys.get(&Self::slot(db, key)).is_some_and(|value| value.len() > LARGE)
    }

    fn dump_part(&self, part: &mut Part, _: usize, out: &mut Effects) -> Slice {
        let Some(value) = self.keys.get(&Self::slot(part.db, &part.key)) else {
            return Slice::Done;
        };
        let done = part.done as usize;
        let end = value.len().min(done + PART);
        let name: &[u8] = if done == 0 { b"SET" } else { b"APPEND" };
        out.push(part.db, &[name, &part.key, &value[done..end]]);
        part.done = end as u64;
        if end == value.len() { Slice::Done } else { Slice::More }
    }

    /// Appended bytes come after the dumped ones.
    fn follow(&self, _: &mut Part, operation: &Operation<'_>, _: &mut Effects) -> bool {
        operation.name() == b"APPEND"
    }

    fn catch_up(&self, _: &mut Part, _: &mut Effects) -> bool {
        true
    }

    fn dump_key(&self, db: u32, key: &[u8], out: &mut Effects) {
        out.push(db, &[b"DEL", key]);
        if let Some(value) = self.keys.get(&Self::slot(db, key)) {
            out.push(db, &[b"SET", key, value]);
        }
    }

    fn place(&self, db: u32, key: &[u8]) -> Cursor {
        place(db, key)
    }

    fn reach<'a>(&self, operation: &Operation<'a>, touches: &mut Vec<Touch<'a>>) -> Reach {
        let args: Vec<&[u8]> = operation.args().collect();
        let db = operation.db;
        match *args.as_slice() {
            [b"FLUSHALL"] | [b"FLUSHDB"] => return Reach::Everywhere,
            [b"SWAPDB"] => return Reach::Shuffles,
            [b"COPY", from, to] => {
                touches.push(Touch { db, key: from, written: false });
                touches.push(Touch { db, key: to, written: true });
            }
            [b"MOVE", key, to] => {
                touches.push(Touch { db, key, written: true });
                touches.push(Touch { db: u32::from(to[0] - b'0'), key, written: true });
            }
            _ => touches.push(Touch { db, key: args[1], written: true }),
        }
        Reach::Keys
    }
}

struct Host {
    toy: Mutex<Toy>,
}

impl SharedSource for Host {
    fn visit(&self, look: &mut dyn FnMut(&dyn DumpSource)) -> bool {
        look(&*lock(&self.toy));
        true
    }
}

/// SplitMix64, seeded per run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn operation(&mut self, out: &mut Effects) {
        let db = self.below(u64::from(DATABASES)) as u32;
        let key = format!("k{}", self.below(KEYS));
        let other = format!("k{}", self.below(KEYS));
        let value = format!("{},", self.below(1000));
        match self.below(40) {
            0..10 => out.push(db, &["SET", &key, &value]),
            10..22 => out.push(db, &["APPEND", &key, &value]),
            22..26 => out.push(db, &["DEL", &key]),
            26..32 => out.push(db, &["COPY", &key, &other]),
            32..36 => out.push(db, &["MOVE", &key, if db == 0 { "1" } else { "0" }]),
            36 => out.push(db, &["FLUSHDB"]),
            37 if self.below(4) == 0 => out.push(0, &["FLUSHALL"]),
            38 if self.below(3) == 0 => out.push(0, &["SWAPDB"]),
            _ => out.push(db, &["SET", &key, &value]),
        }
    }
}

fn recover(disk: &SimDisk) -> Keys {
    let mut toy = Toy::default();
    let apply = |operation: Operation<'_>| {
        toy.apply(&operation);
        Ok(())
    };
    load(disk, LOG_FILE, apply, |_, _| {}).expect("a power cut leaves no damage").expect("a log");
    toy.keys
}

fn open(disk: &SimDisk, policy: Policy) -> Log {
    let options = Options { policy, background: false };
    let clock = Arc::new(|| Duration::ZERO);
    Log::open(Arc::new(disk.clone()), None, options, clock).expect("an empty disk")
}

/// Executes operations on the toy and stages them, as a host does under the engine's lock.
fn execute(host: &Host, log: &Log, effects: &Effects) -> u64 {
    let mut toy = lock(&host.toy);
    for operation in effects {
        toy.apply(&operation.expect("whole"));
    }
    log.stage(effects.as_bytes())
}

/// One life of a server: batches of writes, rewrites in slices, a power cut at a random moment.
fn live_and_die(seed: u64) {
    let mut random = Random(seed);
    let disk = SimDisk::new(seed);
    let log = open(&disk, Policy::Always);
    let host = Host { toy: Mutex::default() };
    let mut states = vec![Keys::default()];
    let mut rewrite: Option<Rewrite> = None;
    for _ in 0..random.below(120) {
        match random.below(6) {
            0..2 => {
                let mut effects = Effects::new();
                for _ in 0..=random.below(4) {
                    random.operation(&mut effects);
                }
                let position = execute(&host, &log, &effects);
                assert_eq!(position, states.len() as u64);
                states.push(lock(&host.toy).keys.clone());
                if random.below(4) > 0 {
                    log.commit(position).expect("room");
                }
            }
            2 => log.turn(),
            3 if rewrite.is_none() => {
                let target = if random.below(4) == 0 { Target::Snapshot } else { Target::Log };
                rewrite = Rewrite::begin(&log, target).expect("room");
            }
            _ => {
                if let Some(running) = &mut rewrite
                    && running.step(&host).expect("room") != Step::More
                {
                    rewrite = None;
                    assert!(disk.contents(&Target::Log.new_name()).is_none());
                }
            }
        }
    }
    let acknowledged = log.released() as usize;
    let survived = recover(&disk.power_cut(seed ^ 1));
    let kept = states[acknowledged..].contains(&survived);
    assert!(kept, "seed {seed}: the state is none of those since position {acknowledged}");
}

#[test]
fn a_power_cut_during_rewrites_loses_nothing_acknowledged() {
    let lives = if std::env::var_os("SEAWALL_SOAK").is_some() { 10_000 } else { 500 };
    (0..lives).for_each(live_and_die);
}

#[test]
fn a_snapshot_is_the_state_of_the_moment_it_finished() {
    for seed in 0..200 {
        let mut random = Random(seed);
        let disk = SimDisk::new(seed);
        let options = Options { background: false, ..Options::default() };
        let log = Log::without_file(Arc::new(disk.clone()), options, Arc::new(|| Duration::ZERO));
        let host = Host { toy: Mutex::default() };
        let write = |random: &mut Random| {
            let mut effects = Effects::new();
            random.operation(&mut effects);
            execute(&host, &log, &effects);
        };
        (0..50).for_each(|_| write(&mut random));
        let mut rewrite = Rewrite::begin(&log, Target::Snapshot).expect("room").expect("idle");
        assert!(Rewrite::begin(&log, Target::Log).expect("room").is_none(), "one at a time");
        while rewrite.step(&host).expect("room") == Step::More {
            (0..random.below(4)).for_each(|_| write(&mut random));
        }
        let copy = SimDisk::new(0);
        copy.put(LOG_FILE, &disk.contents(SNAPSHOT_FILE).expect("a snapshot"));
        assert_eq!(recover(&copy), lock(&host.toy).keys, "seed {seed}");
        save_now(&log, &*lock(&host.toy)).expect("room");
        copy.put(LOG_FILE, &disk.contents(SNAPSHOT_FILE).expect("a snapshot"));
        assert_eq!(recover(&copy), lock(&host.toy).keys, "seed {seed}");
    }
}

#[test]
fn a_rewrite_heals_a_log_whose_sync_failed() {
    let disk = SimDisk::new(5);
    let log = open(&disk, Policy::Always);
    let host = Host { toy: Mutex::default() };
    let mut effects = Effects::new();
    effects.push(0, &["SET", "k1", "v"]);
    let (_, syncs) = disk.counts();
    disk.set_faults(Faults { failing_syncs: vec![syncs + 1], ..Faults::default() });
    let position = execute(&host, &log, &effects);
    log.commit(position).expect("room");
    log.turn();
    log.turn();
    assert!(log.needs_rewrite() && log.failure().is_some());
    assert_eq!(log.released(), 0, "a failed sync is never retried as success");
    let mut rewrite = Rewrite::begin(&log, Target::Log).expect("room").expect("idle");
    while rewrite.step(&host).expect("room") == Step::More {}
    assert!(log.failure().is_none());
    assert_eq!(log.released(), position);
    assert_eq!(recover(&disk.power_cut(9)), lock(&host.toy).keys);
}

#[test]
fn a_rewrite_that_meets_a_full_disk_leaves_the_log_alone() {
    let disk = SimDisk::new(6);
    let log = open(&disk, Policy::Always);
    let host = Host { toy: Mutex::default() };
    for number in 0..50 {
        let mut effects = Effects::new();
        effects.push(0, &["SET", &format!("k{number}"), "some value"]);
        log.commit(execute(&host, &log, &effects)).expect("room");
    }
    log.turn();
    let used = disk.contents(LOG_FILE).expect("a log").len() as u64;
    disk.set_faults(Faults { capacity_bytes: Some(used + 200), ..Faults::default() });
    let mut rewrite = Rewrite::begin(&log, Target::Log).expect("room").expect("idle");
    let failed = loop {
        match rewrite.step(&host) {
            Ok(Step::More) => {}
            other => break other,
        }
    };
    assert!(failed.is_err());
    drop(rewrite);
    assert!(disk.open(&Target::Log.new_name()).expect("readable").is_none());
    assert!(log.failure().is_none());
    assert_eq!(recover(&disk), lock(&host.toy).keys);
}

#[test]
fn what_depends_on_a_key_dumped_again_is_dumped_again() {
    let find = |wanted: std::ops::Range<u64>, skip: usize| {
        let mut names = (0..100).map(|number| format!("k{number}"));
        let mut found =
            names.by_ref().filter(|key| wanted.contains(&place(0, key.as_bytes()).position));
        found.nth(skip).expect("a key of each half")
    };
    let (dumped, dependent, later) = (find(0..5, 0), find(0..5, 1), find(5..11, 0));
    let mut toy = Toy::default();
    let mut before = Effects::new();
    for key in [&dumped, &dependent, &later] {
        before.push(0, &["SET", key.as_str(), key]);
    }
    // The first copy looks harmless until the second one makes its source a key to dump again.
    let mut live = Effects::new();
    live.push(0, &["COPY", &dumped, &dependent]);
    live.push(0, &["COPY", &later, &dumped]);
    for operation in before.iter().chain(&live) {
        toy.apply(&operation.expect("whole"));
    }
    let mut out = Effects::new();
    for operation in &before {
        let operation = operation.expect("whole");
        let key = operation.args().nth(1).expect("a key");
        if place(0, key).position < 5 {
            out.copy(&operation);
        }
    }
    let mut held = Held::nothing();
    held.cursor = Some(Cursor { db: 0, position: 5 });
    for operation in &live {
        assert!(held.route(&operation.expect("whole"), &toy, &mut out));
    }
    while let Some(part) = held.next_aside() {
        while let Slice::More = toy.dump_part(part, 1, &mut out) {}
        held.take_back();
    }
    let mut rebuilt = Toy::default();
    for operation in &out {
        rebuilt.apply(&operation.expect("whole"));
    }
    toy.keys.retain(|(place, _), _| place.position < 5);
    assert_eq!(rebuilt.keys, toy.keys);
}

/// A disk on which the first sync of the log's first file waits, and fails when it is told to.
#[derive(Debug, Clone)]
struct Stalling {
    disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    stage: Mutex<Stage>,
    changed: std::sync::Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Stage {
    #[default]
    Idle,
    /// A sync of the old file waits.
    Waiting,
    /// The rewrite has taken everything and is about to switch.
    Switching,
    /// A client has written something more: the sync fails now.
    Written,
    /// It has failed and the log knows.
    Failed,
}

impl Gate {
    fn reach(&self, stage: Stage) {
        *lock(&self.stage) = stage;
        self.changed.notify_all();
    }

    fn wait(&self, stage: Stage) {
        let mut current = lock(&self.stage);
        while *current < stage {
            current = self.changed.wait(current).expect("no test panics under the gate");
        }
    }
}

impl Disk for Stalling {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.create(name)?;
        let gate = Arc::clone(&self.gate);
        Ok(Arc::new(StallingFile { file, gate, syncs: Mutex::new(0) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if *lock(&self.gate.stage) == Stage::Waiting {
            self.gate.reach(Stage::Switching);
            self.gate.wait(Stage::Failed);
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn fresh_id(&self) -> u128 {
        self.disk.fresh_id()
    }

    fn display(&self, name: &str) -> String {
        self.disk.display(name)
    }
}

#[derive(Debug)]
struct StallingFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
    syncs: Mutex<u32>,
}

impl DiskFile for StallingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        let mut syncs = lock(&self.syncs);
        *syncs += 1;
        // The first sync of the first file makes its header durable; the second one stalls.
        if *syncs == 2 && *lock(&self.gate.stage) == Stage::Idle {
            self.gate.reach(Stage::Waiting);
            self.gate.wait(Stage::Written);
            return Err(io::Error::other("injected sync failure"));
        }
        self.file.sync()
    }
}

#[test]
fn a_sync_that_fails_during_the_switch_drops_nothing() {
    let sim = SimDisk::new(12);
    let gate = Arc::new(Gate::default());
    let disk = Stalling { disk: sim.clone(), gate: Arc::clone(&gate) };
    let options = Options { policy: Policy::Always, background: true };
    let log = Log::open(Arc::new(disk), None, options, Arc::new(|| Duration::ZERO));
    let log = log.expect("an empty disk");
    let failing = Arc::clone(&gate);
    let host = Host { toy: Mutex::default() };
    let write = |number: u32| {
        let mut effects = Effects::new();
        effects.push(0, &["SET", &format!("k{number}"), "v"]);
        execute(&host, &log, &effects)
    };
    log.commit(write(0)).expect("room");
    gate.wait(Stage::Waiting);
    // The log reports its failure through the listener, which lets the switch go on.
    log.listen(Arc::new(move || {
        let mut stage = lock(&failing.stage);
        if *stage == Stage::Written {
            *stage = Stage::Failed;
            failing.changed.notify_all();
        }
    }));
    let mut rewrite = Rewrite::begin(&log, Target::Log).expect("room").expect("idle");
    let mut last = 0;
    thread::scope(|scope| {
        // A client writes between the moment at which the rewrite has taken everything and the
        // moment at which the new file is in place.
        let staged = scope.spawn(|| {
            gate.wait(Stage::Switching);
            let position = write(1);
            gate.reach(Stage::Written);
            position
        });
        while rewrite.step(&host).expect("room") == Step::More {}
        last = staged.join().expect("no panic");
    });
    // Whatever the log reports now: once it acknowledges, the write is in the file.
    while log.failure().is_some() {
        drop(log.commit(last));
        let mut again = Rewrite::begin(&log, Target::Log).expect("room").expect("idle");
        while again.step(&host).expect("room") == Step::More {}
    }
    log.commit(last).expect("a healthy log");
    log.close().expect("a healthy disk");
    assert!(log.released() >= last);
    assert_eq!(recover(&sim.power_cut(3)), lock(&host.toy).keys);
}
