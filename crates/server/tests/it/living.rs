//! A real engine with its log on a simulated disk, for rewrites in single steps.

use std::sync::Arc;
use std::time::Duration;

use seawall_engine::effects::{Effects, Operation};
use seawall_engine::{Core, Cursor, Logging, ManualClock, Options, Peer, SessionId, Transport};
use seawall_server::aof::sim::SimDisk;
use seawall_server::aof::{
    DumpSource, LOG_FILE, Log, Options as LogOptions, Policy, SharedSource, load,
};

const NOW_MS: i64 = 1_700_000_000_000;

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// An engine with its log on a simulated disk.
pub(crate) struct Host {
    pub(crate) core: Arc<Core>,
    pub(crate) session: SessionId,
    pub(crate) log: Log,
}

impl Host {
    pub(crate) fn new(disk: &SimDisk) -> Host {
        let core = core();
        core.engine().set_logging(Logging::On);
        let transport = Transport::Local;
        let session = core.open(Peer { addr: "a".into(), local_addr: "b".into(), transport });
        let options = LogOptions { policy: Policy::Always, background: false };
        let log = Log::open(Arc::new(disk.clone()), None, options, Arc::new(|| Duration::ZERO));
        Host { core, session, log: log.expect("an empty disk") }
    }

    pub(crate) fn run(&self, line: &str) {
        self.core.feed(self.session, format!("{line}\r\n").as_bytes());
    }

    /// Stages what the engine has left behind, as a host does after each batch.
    pub(crate) fn settle(&self) -> u64 {
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

pub(crate) fn core() -> Arc<Core> {
    Core::new(Options::default(), Arc::new(ManualClock::at_millis(NOW_MS)))
}

/// The state as a sorted list, independent of the order inside sets and hashes.
pub(crate) fn state(core: &Core) -> Vec<String> {
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

pub(crate) fn restart(disk: &SimDisk) -> Arc<Core> {
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
