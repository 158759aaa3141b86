//! Large keys in a rewrite: dumped in slices of bounded work, and whatever changes them meanwhile, a
//! restart finds what the engine held. `SEAWALL_SOAK=1` runs twenty times as many lives.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::living::{Host, Random, restart, state};
use seawall_engine::effects::{Effects, Operation};
use seawall_engine::{Cursor, Part, Reach, Slice, Touch};
use seawall_server::aof::sim::SimDisk;
use seawall_server::aof::{DumpSource, Rewrite, SNAPSHOT_FILE, SharedSource, Step, Target};

/// Elements of each large collection, of about 250 bytes.
const ELEMENTS: u64 = 6000;
/// What a rewrite may encode while it holds the engine: its budget, and one command of elements more.
const MOST_BYTES: usize = (64 << 10) + 64 * 300;

fn padded(number: u64) -> String {
    format!("{number:0250}")
}

fn feed(host: &Host, args: &[String]) {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    }
    host.core.feed(host.session, &bytes);
}

/// Makes one key of each type, each more than a mebibyte.
fn fill(host: &Host) {
    let words = |name: &str, key: &str| vec![name.to_owned(), key.to_owned()];
    let [mut hash, mut set] = [words("HSET", "h"), words("SADD", "e")];
    let [mut zset, mut list] = [words("ZADD", "z"), words("RPUSH", "l")];
    for number in 0..ELEMENTS {
        hash.extend([number.to_string(), padded(number)]);
        set.push(padded(number));
        zset.extend([number.to_string(), padded(number)]);
        list.push(padded(number));
        host.run(&format!("XADD x {}-1 f {}", number + 1, padded(number)));
    }
    host.run("XGROUP CREATE x g 0");
    [hash, set, zset, list].iter().for_each(|args| feed(host, args));
    host.run("SETRANGE s 1500000 x");
    host.run("PEXPIRE h 5000000");
    host.run("MSET a 1 b 2 c 3");
}

/// A change of one of the large keys; now and then one that names no elements.
fn command(random: &mut Random) -> String {
    let (number, other) = (random.below(ELEMENTS), random.below(ELEMENTS));
    let (member, rare) = (padded(number), random.below(40) == 0);
    match random.below(38) {
        0 => format!("HSET h {number} changed {other} {member}"),
        1 => format!("HDEL h {number} {other}"),
        2 => format!("HINCRBY h c{} 7", number % 50),
        3 => format!("HSETNX h new{number} 1"),
        4 => format!("SADD e new{number} {member}"),
        5 => format!("SREM e {member}"),
        6 => format!("SPOP e {}", number % 3),
        7 => format!("SMOVE e e2 {member}"),
        8 => format!("SMOVE e2 e {member}"),
        9 => format!("ZADD z {other} {member} {number} new{number}"),
        10 => format!("ZADD z GT CH {other} {member}"),
        11 => format!("ZINCRBY z {other} {member}"),
        12 => format!("ZREM z {member} new{other}"),
        13 => format!("ZPOPMIN z {}", number % 3),
        14 => "ZPOPMAX z".to_owned(),
        15 => format!("ZREMRANGEBYSCORE z {number} {}", number + 3),
        16 => format!("LPUSH l {number} {other}"),
        17 => format!("RPUSH l {number} {other}"),
        18 => format!("LPOP l {}", 1 + number % 5),
        19 => format!("RPOP l {}", 1 + number % 5),
        20 => "LMOVE l m LEFT RIGHT".to_owned(),
        21 => "RPOPLPUSH l m".to_owned(),
        22 => "LMOVE m l LEFT RIGHT".to_owned(),
        23 => format!("APPEND s {member}"),
        24 => format!("SETRANGE s {number} {member}"),
        25 => format!("EXPIRE z {}", 1000 + number),
        26 if rare => ["RENAME z y", "RENAME y z", "DEL h", "COPY l k REPLACE"]
            [number as usize % 4]
            .to_owned(),
        27 if rare => ["LSET l 5 x", "LTRIM l 1 -2", "LMOVE m l LEFT LEFT", "LMOVE l l LEFT RIGHT"]
            [number as usize % 4]
            .to_owned(),
        28 if rare => {
            ["ZREMRANGEBYRANK z 1 2", "ZUNIONSTORE y 1 z", "SUNIONSTORE e e e2", "PERSIST h"]
                [number as usize % 4]
                .to_owned()
        }
        29 if rare && number % 8 == 0 => ["FLUSHDB", "SWAPDB 0 1"][other as usize % 2].to_owned(),
        30 => format!("XADD x * f {member}"),
        31 => format!("XADD x MAXLEN = {} * f {other}", ELEMENTS - 200),
        32 => format!("XDEL x {}-1 {}-1", 1 + number, 1 + other),
        33 => format!("XTRIM x MINID = {}-1", number % 300),
        34 => format!("XREADGROUP GROUP g c{} COUNT {} STREAMS x >", number % 3, 1 + number % 40),
        35 => format!("XACK x g {}-1 {}-1", 1 + number % 500, 1 + other % 500),
        36 => format!("XCLAIM x g c9 0 {}-1 {}-1", 1 + number % 500, 1 + other % 500),
        37 if rare => {
            ["XGROUP CREATE x g2 5-1", "XGROUP DESTROY x g2", "XTRIM x MAXLEN 0", "DEL x"]
                [number as usize % 4]
                .to_owned()
        }
        37 => format!("XADD x NOMKSTREAM * f {member}"),
        _ => format!("SET small{} {other}", number % 20),
    }
}

/// Sees how much is encoded while the engine is held.
struct Watched<'a> {
    host: &'a Host,
    most: AtomicUsize,
    most_operations: AtomicUsize,
}

impl<'a> Watched<'a> {
    fn new(host: &'a Host) -> Self {
        Self { host, most: AtomicUsize::new(0), most_operations: AtomicUsize::new(0) }
    }
}

struct Seen<'a> {
    engine: &'a dyn DumpSource,
    bytes: Cell<usize>,
    operations: Cell<usize>,
}

impl Seen<'_> {
    fn count<T>(&self, out: &mut Effects, dump: impl FnOnce(&mut Effects) -> T) -> T {
        let before = out.as_bytes().len();
        let result = dump(out);
        self.bytes.set(self.bytes.get() + out.as_bytes().len() - before);
        result
    }
}

impl DumpSource for Seen<'_> {
    fn dump_slice(
        &self,
        cursor: Cursor,
        budget: usize,
        out: &mut Effects,
        large: &mut Vec<Part>,
    ) -> Option<Cursor> {
        self.count(out, |out| self.engine.dump_slice(cursor, budget, out, large))
    }

    fn is_large(&self, db: u32, key: &[u8]) -> bool {
        self.engine.is_large(db, key)
    }

    fn dump_part(&self, part: &mut Part, budget: usize, out: &mut Effects) -> Slice {
        self.count(out, |out| self.engine.dump_part(part, budget, out))
    }

    fn follow(&self, part: &mut Part, operation: &Operation<'_>, out: &mut Effects) -> bool {
        self.engine.follow(part, operation, out)
    }

    fn catch_up(&self, part: &mut Part, out: &mut Effects) -> bool {
        self.count(out, |out| self.engine.catch_up(part, out))
    }

    fn dump_key(&self, db: u32, key: &[u8], out: &mut Effects) {
        self.count(out, |out| self.engine.dump_key(db, key, out));
    }

    fn place(&self, db: u32, key: &[u8]) -> Cursor {
        self.engine.place(db, key)
    }

    fn reach<'a>(&self, operation: &Operation<'a>, touches: &mut Vec<Touch<'a>>) -> Reach {
        self.operations.set(self.operations.get() + 1);
        self.engine.reach(operation, touches)
    }
}

impl SharedSource for Watched<'_> {
    fn visit(&self, look: &mut dyn FnMut(&dyn DumpSource)) -> bool {
        self.host.visit(&mut |engine| {
            let seen = Seen { engine, bytes: Cell::new(0), operations: Cell::new(0) };
            look(&seen);
            self.most.fetch_max(seen.bytes.get(), Ordering::Relaxed);
            self.most_operations.fetch_max(seen.operations.get(), Ordering::Relaxed);
        })
    }
}

#[test]
fn the_engine_is_held_for_a_bounded_piece_of_work() {
    for target in [Target::Log, Target::Snapshot] {
        let disk = SimDisk::new(1);
        let host = Host::new(&disk);
        fill(&host);
        host.log.commit(host.settle()).expect("room");
        let watched = Watched::new(&host);
        let mut rewrite = Rewrite::begin(&host.log, target).expect("room").expect("idle");
        let mut number = 0;
        while rewrite.step(&watched).expect("room") == Step::More {
            // Changes that name their elements do not begin a key anew.
            number += 1;
            host.run(&format!("HSET h {number} changed"));
            host.run(&format!("ZADD z {number} {}", padded(number * 7 % ELEMENTS)));
            host.run(&format!("RPUSH l {number}"));
            host.run("LPOP l");
            host.run("SPOP e");
            host.run("ZPOPMIN z");
            host.run("APPEND s more");
            host.run("XADD x MAXLEN = 5990 * f new");
            host.run(&format!("XDEL x {}-1", number * 3));
            host.run("XREADGROUP GROUP g c COUNT 2 STREAMS x >");
        }
        let most = watched.most.load(Ordering::Relaxed);
        assert!(most <= MOST_BYTES, "{most} bytes were encoded in one slice");
        assert!(number > 60, "it took {number} slices");
        if target == Target::Snapshot {
            let copy = SimDisk::new(2);
            let snapshot = disk.contents(SNAPSHOT_FILE).expect("a snapshot");
            copy.put(seawall_server::aof::LOG_FILE, &snapshot);
            assert!(state(&restart(&copy)) == state(&host.core));
        }
    }
}

#[test]
fn operations_that_pile_up_are_looked_at_in_pieces() {
    let disk = SimDisk::new(4);
    let host = Host::new(&disk);
    fill(&host);
    host.log.commit(host.settle()).expect("room");
    let watched = Watched::new(&host);
    let mut rewrite = Rewrite::begin(&host.log, Target::Log).expect("room").expect("idle");
    let mut rounds = 0;
    // Until the end: also while the last of it is put in place.
    while rewrite.step(&watched).expect("room") == Step::More {
        rounds += 1;
        if rounds % 50 == 10 && rounds < 500 {
            // As if the disk had taken a second.
            for number in 0..5000 {
                host.run(&format!("INCRBY n{} {rounds}", number % 300));
                host.run(&format!("RENAME n{} m{}", number % 300, number % 200));
            }
            host.settle();
        }
    }
    let most = watched.most_operations.load(Ordering::Relaxed);
    assert!(most > 0 && most <= 1000, "{most} operations were looked at in one slice");
    let most = watched.most.load(Ordering::Relaxed);
    assert!(most <= MOST_BYTES, "{most} bytes were encoded in one slice");
    host.log.commit(host.settle()).expect("room");
    host.log.turn();
    assert!(state(&restart(&disk.power_cut(9))) == state(&host.core));
}

fn live(seed: u64) {
    let mut random = Random(seed);
    let disk = SimDisk::new(seed);
    let host = Host::new(&disk);
    fill(&host);
    for _ in 0..random.below(200) {
        host.run(&command(&mut random));
    }
    host.log.commit(host.settle()).expect("room");
    let mut rewrite = Rewrite::begin(&host.log, Target::Log).expect("room").expect("idle");
    let pace = 1 + random.below(30);
    while rewrite.step(&host).expect("room") == Step::More {
        for _ in 0..random.below(pace) {
            host.run(&command(&mut random));
            if random.below(3) == 0 {
                host.log.commit(host.settle()).expect("room");
            }
        }
    }
    for _ in 0..random.below(20) {
        host.run(&command(&mut random));
    }
    host.log.commit(host.settle()).expect("room");
    host.log.turn();
    let (found, expected) = (state(&restart(&disk.power_cut(seed))), state(&host.core));
    let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
    assert!(found == expected, "seed {seed}: {differs:?}");
}

#[test]
fn large_keys_that_change_during_a_rewrite_keep_their_state() {
    let lives = if std::env::var_os("SEAWALL_SOAK").is_some() { 200 } else { 10 };
    (0..lives).for_each(live);
}
