//! Rewrites of the real engine while clients write: what a restart finds is what the engine held.
//!
//! Random commands of every type run between the slices of a rewrite; many touch several keys, so
//! that they straddle the cursor. Seeds are printed; `SEAWALL_SOAK=1` runs twenty times as many.

use crate::living::{Host, Random, restart, state};
use seawall_server::aof::sim::SimDisk;
use seawall_server::aof::{Rewrite, Step, Target};

impl Random {
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
