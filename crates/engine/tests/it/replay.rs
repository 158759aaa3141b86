//! What the log gets is enough: a twin that runs only the effects of random list, set, hash and
//! sorted-set commands, waiting clients included, ends in the same state.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use seawall_engine::{Core, ManualClock, Options, Peer, SessionId, Transport, effects};

const NOW_MS: i64 = 1_700_000_000_000;
/// Sessions of a host: the first one never waits, the others may.
const SESSIONS: usize = 3;

struct Host {
    core: Arc<Core>,
    sessions: Vec<SessionId>,
}

impl Host {
    fn new(seed: u64) -> Self {
        let mut options = Options { logging: true, seed, ..Options::default() };
        options.settings.set("hash-max-listpack-entries", "3").expect("a known setting");
        options.settings.set("set-max-intset-entries", "3").expect("a known setting");
        options.settings.set("list-max-listpack-size", "2").expect("a known setting");
        options.settings.set("zset-max-listpack-entries", "3").expect("a known setting");
        let core = Core::new(options, Arc::new(ManualClock::at_millis(NOW_MS)));
        let peer =
            || Peer { addr: "t".into(), local_addr: "t".into(), transport: Transport::Local };
        let sessions = (0..SESSIONS).map(|_| core.open(peer())).collect();
        Self { core, sessions }
    }

    fn run(&self, session: usize, words: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        let id = self.sessions[session];
        self.core.feed(id, &request);
        self.core.engine().take_output(id).expect("an open session")
    }

    fn run_line(&self, session: usize, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        String::from_utf8(self.run(session, &words)).expect("replies of this test are text")
    }

    /// Runs the effects of `other` since the last call.
    fn follow(&self, other: &Self) {
        let mut log = Vec::new();
        other.core.engine().take_effects(&mut log);
        for operation in effects::operations(&log) {
            let operation = operation.expect("what was just encoded");
            let words: Vec<&[u8]> = operation.args().collect();
            let reply = self.run(0, &words);
            assert_ne!(reply.first(), Some(&b'-'), "{}", String::from_utf8_lossy(&reply));
        }
    }

    /// Every key with its content, in an order that does not depend on hashing.
    fn state(&self) -> BTreeMap<String, Vec<String>> {
        let mut state = BTreeMap::new();
        for (prefix, read, range) in [
            ("l", "LRANGE", " 0 -1"),
            ("s", "SMEMBERS", ""),
            ("h", "HGETALL", ""),
            ("z", "ZRANGE", " 0 -1 WITHSCORES"),
        ] {
            for n in 0..3 {
                let key = format!("{prefix}{n}");
                let reply = self.run_line(0, &format!("{read} {key}{range}"));
                let lines = reply.lines().skip(1).filter(|line| !line.starts_with('$'));
                let mut elements: Vec<String> = lines.map(str::to_owned).collect();
                if prefix == "h" {
                    elements = elements.chunks(2).map(|pair| pair.join("=")).collect();
                }
                if prefix == "s" || prefix == "h" {
                    elements.sort_unstable();
                }
                state.insert(key, elements);
            }
        }
        state
    }
}

fn command() -> impl Strategy<Value = (usize, String)> {
    let key = 0..3usize;
    let item = prop_oneof![(0..6i32).prop_map(|n| n.to_string()), "[a-d]{1,2}"];
    let items = prop::collection::vec(item.clone(), 1..5).prop_map(|items| items.join(" "));
    let end = prop_oneof![Just("LEFT"), Just("RIGHT")];
    let plain = prop_oneof![
        6 => (key.clone(), items.clone()).prop_map(|(k, v)| format!("RPUSH l{k} {v}")),
        2 => (key.clone(), items.clone()).prop_map(|(k, v)| format!("LPUSH l{k} {v}")),
        1 => (key.clone(), items.clone()).prop_map(|(k, v)| format!("LPUSHX l{k} {v}")),
        1 => key.clone().prop_map(|k| format!("LPOP l{k}")),
        1 => (key.clone(), 0..3).prop_map(|(k, n)| format!("RPOP l{k} {n}")),
        1 => (key.clone(), item.clone(), item.clone())
            .prop_map(|(k, p, v)| format!("LINSERT l{k} AFTER {p} {v}")),
        1 => (key.clone(), -3..3, item.clone()).prop_map(|(k, i, v)| format!("LSET l{k} {i} {v}")),
        1 => (key.clone(), -2..3, item.clone()).prop_map(|(k, n, v)| format!("LREM l{k} {n} {v}")),
        1 => (key.clone(), -6..1, -3..6).prop_map(|(k, a, b)| format!("LTRIM l{k} {a} {b}")),
        2 => (key.clone(), key.clone(), end.clone(), end.clone())
            .prop_map(|(a, b, x, y)| format!("LMOVE l{a} l{b} {x} {y}")),
        1 => (key.clone(), end.clone(), 1..3)
            .prop_map(|(k, e, n)| format!("LMPOP 2 l{k} l0 {e} COUNT {n}")),
        6 => (key.clone(), items.clone()).prop_map(|(k, v)| format!("SADD s{k} {v}")),
        2 => (key.clone(), items.clone()).prop_map(|(k, v)| format!("SREM s{k} {v}")),
        2 => (key.clone(), key.clone(), item.clone())
            .prop_map(|(a, b, v)| format!("SMOVE s{a} s{b} {v}")),
        2 => key.clone().prop_map(|k| format!("SPOP s{k}")),
        2 => (key.clone(), 0..9).prop_map(|(k, n)| format!("SPOP s{k} {n}")),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| format!("SINTERSTORE s0 s{a} s{b}")),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| format!("SUNIONSTORE s1 s{a} s{b}")),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| format!("SDIFFSTORE s2 s{a} s{b}")),
        6 => (key.clone(), item.clone(), item.clone())
            .prop_map(|(k, f, v)| format!("HSET h{k} {f} {v}")),
        1 => (key.clone(), item.clone(), item.clone())
            .prop_map(|(k, f, v)| format!("HSETNX h{k} {f} {v}")),
        2 => (key.clone(), items.clone()).prop_map(|(k, v)| format!("HDEL h{k} {v}")),
        2 => (key.clone(), item.clone()).prop_map(|(k, f)| format!("HINCRBY h{k} {f} 3")),
        2 => (key.clone(), item.clone()).prop_map(|(k, f)| format!("HINCRBYFLOAT h{k} {f} 0.1")),
        6 => (key.clone(), -3..9, item.clone()).prop_map(|(k, n, m)| format!("ZADD z{k} {n} {m}")),
        2 => (key.clone(), -3..9, item.clone())
            .prop_map(|(k, n, m)| format!("ZADD z{k} GT CH {n}.7 {m} 1e20 x")),
        2 => (key.clone(), item.clone()).prop_map(|(k, m)| format!("ZINCRBY z{k} 0.1 {m}")),
        1 => (key.clone(), item.clone()).prop_map(|(k, m)| format!("GEOADD z{k} 13.3 38.1 {m}")),
        1 => (key.clone(), items).prop_map(|(k, m)| format!("ZREM z{k} {m}")),
        1 => (key.clone(), -3..3, -3..3)
            .prop_map(|(k, a, b)| format!("ZREMRANGEBYRANK z{k} {a} {b}")),
        1 => (key.clone(), 0..3).prop_map(|(k, n)| format!("ZPOPMAX z{k} {n}")),
        1 => (key.clone(), 1..3).prop_map(|(k, n)| format!("ZMPOP 2 z{k} z0 MIN COUNT {n}")),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| format!("ZUNIONSTORE z0 2 z{a} s{b}")),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| format!("ZDIFFSTORE z1 2 z{a} z{b}")),
        1 => key.clone().prop_map(|a| format!("ZRANGESTORE z2 z{a} 0 1 REV")),
        1 => (key.clone(), item)
            .prop_map(|(k, m)| format!("GEORADIUSBYMEMBER z{k} {m} 9000 km STOREDIST z1")),
    ];
    let waiting = prop_oneof![
        (key.clone(), key.clone()).prop_map(|(a, b)| format!("BLPOP l{a} l{b} 0")),
        (key.clone(), key.clone(), end.clone(), end.clone())
            .prop_map(|(a, b, x, y)| format!("BLMOVE l{a} l{b} {x} {y} 0")),
        (key.clone(), key.clone()).prop_map(|(a, b)| format!("BRPOPLPUSH l{a} l{b} 0")),
        (key.clone(), end, 1..3).prop_map(|(k, e, n)| format!("BLMPOP 0 1 l{k} {e} COUNT {n}")),
        (key.clone(), key.clone()).prop_map(|(a, b)| format!("BZPOPMIN z{a} z{b} 0")),
        (key, 1..3).prop_map(|(k, n)| format!("BZMPOP 0 1 z{k} MAX COUNT {n}")),
    ];
    prop_oneof![
        9 => plain.prop_map(|line| (0, line)),
        1 => (1..SESSIONS, waiting),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_replay_of_the_effects_gives_the_same_collections(
        commands in prop::collection::vec(command(), 1..80),
    ) {
        let (host, twin) = (Host::new(1), Host::new(2));
        for (session, line) in &commands {
            host.run_line(*session, line);
            twin.follow(&host);
            prop_assert_eq!(twin.state(), host.state(), "after {}", line);
        }
    }
}
