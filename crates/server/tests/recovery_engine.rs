//! Rewrites of the real engine while clients write: what a restart finds is what the engine held.
//!
//! Random commands of every type run between the slices of a rewrite; many touch several keys, so
//! that they straddle the cursor. Seeds are printed; `SEAWALL_SOAK=1` runs twenty times as many.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::effects::{Effects, Operation};
use seawall_engine::{Core, Cursor, Logging, ManualClock, Options, Peer, SessionId, Transport};
use seawall_server::log::sim::SimDisk;
use seawall_server::log::{
    DumpSource, LOG_FILE, Log, Options as LogOptions, Policy, Rewrite, SharedSource, Step, Target,
    load,
};

const NOW_MS: i64 = 1_700_000_000_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn key(&mut self, prefix: &str) -> String {
        format!("{prefix}{}", self.below(40))
    }

    fn command(&mut self) -> String {
        let n = self.below(30);
        let [s, s2] = [self.key("s"), self.key("s")];
        let [l, l2] = [self.key("l"), self.key("l")];
        let [e, e2] = [self.key("e"), self.key("e")];
        let [z, z2] = [self.key("z"), self.key("z")];
        let [h, x] = [self.key("h"), self.key("x")];
        match self.below(36) {
            0..3 => format!("SET {s} {n}"),
            3 => format!("SET {s} {n} EX 5000"),
            4 => format!("INCRBY {s} {n}"),
            5 => format!("APPEND {s} {n}"),
            6 => format!("RENAME {s} {s2}"),
            7 => format!("COPY {s} {s2} REPLACE"),
            8 => format!("COPY {l} {l2} DB {} REPLACE", n % 2),
            9 => format!("MOVE {l} {}", n % 2),
            10 => format!("MSET {s} 1 {s2} 2"),
            11 => format!("DEL {s} {l} {e}"),
            12 => format!("BITOP OR {s} {s2} {s}"),
            13..15 => format!("RPUSH {l} a{n} b{n}"),
            15 => format!("LMOVE {l} {l2} LEFT RIGHT"),
            16 => format!("LMPOP 2 {l} {l2} LEFT COUNT 2"),
            17 => format!("SORT {l} ALPHA STORE {l2}"),
            18..20 => format!("SADD {e} {n} m{n}"),
            20 => format!("SMOVE {e} {e2} {n}"),
            21 => format!("SUNIONSTORE {e} {e} {e2}"),
            22 => format!("SPOP {e}"),
            23..25 => format!("ZADD {z} {n}.5 m{n}"),
            25 => format!("ZUNIONSTORE {z} 2 {z} {z2}"),
            26 => format!("ZRANGESTORE {z} {z2} 0 2"),
            27 => format!("ZMPOP 2 {z} {z2} MIN"),
            28..30 => format!("HSET {h} f{n} {n}"),
            30 => format!("XADD {x} * f {n}"),
            31 => format!("XGROUP CREATE {x} g 0 MKSTREAM"),
            32 => format!("XREADGROUP GROUP g c{n} COUNT 1 STREAMS {x} >"),
            33 => format!(
                "EVAL \"redis.call('INCR', KEYS[1]) redis.call('SET', KEYS[2], redis.call('GET', KEYS[1]))\" 2 {s} {s2}"
            ),
            34 if self.below(8) == 0 => "SWAPDB 0 1".to_owned(),
            35 if self.below(8) == 0 => "FLUSHDB".to_owned(),
            _ => format!("SELECT {}", n % 2),
        }
    }
}

/// An engine with its log on a simulated disk.
struct Host {
    core: Arc<Core>,
    session: SessionId,
    log: Log,
}

impl Host {
    fn new(disk: &SimDisk) -> Host {
        let core = core();
        core.engine().set_logging(Logging::On);
        let transport = Transport::Local;
        let session = core.open(Peer { addr: "a".into(), local_addr: "b".into(), transport });
        let options = LogOptions { policy: Policy::Always, background: false };
        let log = Log::open(Arc::new(disk.clone()), None, options, Arc::new(|| Duration::ZERO));
        Host { core, session, log: log.expect("an empty disk") }
    }

    fn run(&self, line: &str) {
        self.core.feed(self.session, format!("{line}\r\n").as_bytes());
    }

    /// Stages what the engine has left behind, as a host does after each batch.
    fn settle(&self) -> u64 {
        let mut engine = self.core.engine();
        let mut effects = Vec::new();
        engine.take_effects(&mut effects);
        engine.drop_output(self.session);
        self.log.stage(&effects)
    }
}

impl SharedSource for Host {
    fn visit(&self, look: &mut dyn FnMut(&dyn DumpSource)) -> bool {
        self.settle();
        look(&*self.core.engine());
        true
    }
}

fn core() -> Arc<Core> {
    Core::new(Options::default(), Arc::new(ManualClock::at_millis(NOW_MS)))
}

/// The state as a sorted list, independent of the order inside sets and hashes.
fn state(core: &Core) -> Vec<String> {
    let mut all = Effects::new();
    let mut cursor = Some(Cursor::START);
    while let Some(from) = cursor {
        cursor = core.engine().dump_slice(from, 1 << 16, &mut all);
    }
    let mut words = Vec::new();
    for operation in &all {
        let operation = operation.expect("whole");
        let args: Vec<_> = operation.args().map(String::from_utf8_lossy).collect();
        let (db, key) = (operation.db, &args[1]);
        match &*args[0] {
            "SADD" => words.extend(args[2..].iter().map(|member| format!("{db} {key} {member}"))),
            "HSET" => words.extend(args[2..].chunks(2).map(|pair| format!("{db} {key} {pair:?}"))),
            _ => words.push(format!("{db} {args:?}")),
        }
    }
    words.sort();
    words
}

fn restart(disk: &SimDisk) -> Arc<Core> {
    let core = core();
    let mut engine = core.engine();
    let replay = engine.begin_replay();
    let apply = |operation: Operation<'_>| {
        let words = || operation.args().map(String::from_utf8_lossy).collect::<Vec<_>>().join(" ");
        engine.replay(&replay, &operation).map_err(|error| format!("{}: {error}", words()))
    };
    load(disk, LOG_FILE, apply, |_, _| {}).expect("a whole log").expect("a log");
    engine.end_replay(replay, Logging::Off);
    drop(engine);
    core
}

fn live(seed: u64) {
    let mut random = Random(seed);
    let disk = SimDisk::new(seed);
    let host = Host::new(&disk);
    for _ in 0..random.below(300) {
        host.run(&random.command());
    }
    // Values large enough that a walk takes several slices.
    for number in 0..40 {
        host.run(&format!("SETRANGE s{number} {} x", 4000 + random.below(4000)));
    }
    host.log.commit(host.settle()).expect("room");
    let mut rewrite = Rewrite::begin(&host.log, Target::Log).expect("room").expect("idle");
    let mut steps = 0;
    while rewrite.step(&host).expect("room") == Step::More {
        steps += 1;
        for _ in 0..random.below(60) {
            host.run(&random.command());
            if random.below(3) == 0 {
                host.log.commit(host.settle()).expect("room");
            }
        }
    }
    assert!(steps > 2, "seed {seed}: the walk was not cut into slices");
    for _ in 0..random.below(20) {
        host.run(&random.command());
    }
    host.log.commit(host.settle()).expect("room");
    host.log.turn();
    let found = state(&restart(&disk.power_cut(seed)));
    assert_eq!(found, state(&host.core), "seed {seed}");
}

#[test]
fn a_rewrite_under_writes_keeps_the_state() {
    let lives = if std::env::var_os("SEAWALL_SOAK").is_some() { 2000 } else { 100 };
    (0..lives).for_each(live);
}
