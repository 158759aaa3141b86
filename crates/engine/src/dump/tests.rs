//! A dump rebuilds the state, and so does the log; both are compared by their dumps.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{Core, Logging, ManualClock, Options, Peer, SessionId, Transport};

const NOW_MS: i64 = 1_700_000_000_000;

struct Life {
    core: Arc<Core>,
    clock: Arc<ManualClock>,
    session: SessionId,
    log: Vec<u8>,
}

impl Life {
    fn new() -> Life {
        let clock = Arc::new(ManualClock::at_millis(NOW_MS));
        let options = Options { logging: true, ..Options::default() };
        let core = Core::new(options, Arc::clone(&clock) as Arc<dyn crate::Clock>);
        let transport = Transport::Local;
        let session = core.open(Peer { addr: "a".into(), local_addr: "b".into(), transport });
        Life { core, clock, session, log: Vec::new() }
    }

    fn run(&mut self, line: &str) -> String {
        self.core.feed(self.session, format!("{line}\r\n").as_bytes());
        let mut engine = self.core.engine();
        engine.take_effects(&mut self.log);
        let reply = engine.take_output(self.session).expect("an open session");
        String::from_utf8_lossy(&reply).into_owned()
    }

    fn dump(&self) -> Effects {
        let mut all = Effects::new();
        let mut cursor = Some(Cursor::START);
        while let Some(from) = cursor {
            // A budget of one byte makes a slice of each group of keys.
            cursor = self.core.engine().dump_slice(from, 1, &mut all);
        }
        all
    }

    /// A new life that has run these operations as a start does.
    fn replay(operations: &[u8]) -> Life {
        let life = Life::new();
        life.clock.advance(Duration::from_secs(1000));
        let mut engine = life.core.engine();
        engine.refresh_time();
        let by = engine.begin_replay();
        for operation in crate::effects::operations(operations) {
            let operation = operation.expect("whole");
            engine.replay(&by, &operation).unwrap_or_else(|error| {
                let words: Vec<_> = operation.args().map(String::from_utf8_lossy).collect();
                panic!("{words:?}: {error}")
            });
        }
        engine.end_replay(by, Logging::On);
        drop(engine);
        life
    }

    /// Both ways back give the same state.
    fn assert_recoverable(&self) {
        let dump = self.dump();
        assert_eq!(words(&Life::replay(dump.as_bytes()).dump()), words(&dump), "from a dump");
        assert_eq!(words(&Life::replay(&self.log).dump()), words(&dump), "from the log");
    }
}

/// The operations as text, in an order that does not depend on the layout of small collections.
fn words(effects: &Effects) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for operation in effects {
        let operation = operation.expect("whole");
        let args: Vec<String> =
            operation.args().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
        match args[0].as_str() {
            "SADD" => {
                all.extend(args[2..].iter().map(|member| format!("SADD {} {member}", args[1])));
            }
            "HSET" => {
                all.extend(args[2..].chunks(2).map(|pair| format!("HSET {} {pair:?}", args[1])));
            }
            _ => all.push(format!("{} {args:?}", operation.db)),
        }
    }
    all.sort();
    all
}

#[test]
fn every_type_comes_back() {
    let mut life = Life::new();
    for line in [
        "SET s hello",
        "SET n 42 EX 5000",
        "APPEND s \" world\"",
        "SET gone 1 PX 1",
        "RPUSH l a b c 7 -1",
        "EXPIRE l 4000",
        "SADD ints 1 2 3",
        "SADD words a b 3",
        "HSET h f v g 12 \"\" \"\"",
        "ZADD z 1.5 a -inf b +inf c 3 d 0.1 e 123456789012345678 f",
        "PFADD hll a b c",
        "SETBIT bits 1000 1",
        "SELECT 3",
        "SET other db",
        "MOVE other 4",
        "SET copied 1 EX 100",
        "COPY copied there DB 5",
        "RENAME copied moved",
        "SELECT 0",
        "SORT l ALPHA STORE sorted",
        "LMOVE l l2 LEFT RIGHT",
        "INCRBYFLOAT n 0.5",
        "GETEX n PERSIST",
        "SPOP ints",
        "ZPOPMIN z",
        "ZRANGESTORE z2 z 0 -1",
        "GEOADD geo 13.36 38.11 Palermo",
    ] {
        let reply = life.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    for number in 0..1000 {
        life.run(&format!("RPUSH long item-{number}"));
        life.run(&format!("SADD many member-{number}"));
        life.run(&format!("HSET wide field-{number} {number}"));
        life.run(&format!("ZADD ranked {number}.25 member-{number}"));
        life.run(&format!("SET key:{number} {number}"));
    }
    life.assert_recoverable();
}

#[test]
fn streams_come_back_with_groups_and_pending_entries() {
    let mut life = Life::new();
    for line in [
        "XADD s 1-1 a 1 b 2",
        "XADD s 1-2 a 1",
        "XADD s 2-1 c \"\"",
        "XADD s 3-1 d 4",
        "XADD s * e 5",
        "XGROUP CREATE s g 0",
        "XGROUP CREATE s late $ ENTRIESREAD 2",
        "XGROUP CREATE s unknown 2-1",
        "XGROUP CREATECONSUMER s g idle",
        "XREADGROUP GROUP g one COUNT 3 STREAMS s >",
        "XREADGROUP GROUP g two COUNT 1 STREAMS s >",
        "XREADGROUP GROUP g two STREAMS s 0",
        "XACK s g 1-2",
        "XDEL s 2-1",
        "XTRIM s MINID 1-2",
        "XCLAIM s g two 0 3-1",
        "XADD empty MAXLEN 0 9-9 x y",
        "XGROUP CREATE made $ $ MKSTREAM",
        "XGROUP CREATE fresh g $ MKSTREAM",
        "XADD trimmed 1-1 a b",
        "XGROUP CREATE trimmed g 0",
        "XREADGROUP GROUP g c STREAMS trimmed >",
        "XTRIM trimmed MAXLEN 0",
        "XSETID trimmed 7-7 ENTRIESADDED 90",
    ] {
        let reply = life.run(line);
        assert!(
            !reply.starts_with('-') || line.starts_with("XGROUP CREATE made"),
            "{line}: {reply}"
        );
    }
    life.assert_recoverable();
    let pending = life.run("XPENDING s g - + 10");
    let mut other = Life::replay(life.dump().as_bytes());
    let again = other.run("XPENDING s g - + 10");
    assert_eq!(pending.matches("2-1").count(), 1, "deleted and still pending: {pending}");
    let lines = |text: &str| text.lines().filter(|line| !line.starts_with(':')).count();
    assert_eq!(lines(&again), lines(&pending));
}

#[test]
fn scripts_and_function_libraries_come_back() {
    let mut life = Life::new();
    let library = "#!lua name=mine\\nredis.register_function('f', function(k, a) \
                   redis.call('INCR', k[1]) \
                   return redis.call('RPUSH', k[2], a[1], redis.call('TIME')[1]) end)";
    let old = "#!lua name=old\\nredis.register_function('g', function() return 1 end)";
    let set = "redis.call('SET', KEYS[1], math.random()) return redis.call('EXPIRE', KEYS[1], 9)";
    let pop = "redis.call('SADD', KEYS[1], 'a', 'b', 'c') return redis.call('SPOP', KEYS[1])";
    for line in [
        &format!("FUNCTION LOAD \"{library}\""),
        &format!("FUNCTION LOAD \"{old}\""),
        "FUNCTION DELETE old",
        "FCALL f 2 n l x",
        &format!("EVAL \"{set}\" 1 r"),
        &format!("EVAL \"{pop}\" 1 e"),
    ] {
        let reply = life.run(line);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
    life.assert_recoverable();
    for mut again in [Life::replay(life.dump().as_bytes()), Life::replay(&life.log)] {
        assert_eq!(again.run("FCALL f 2 n l y"), ":4\r\n");
        assert!(again.run("FCALL g 0").starts_with('-'));
    }
}

#[test]
fn operations_name_the_keys_they_touch() {
    let life = Life::new();
    let engine = life.core.engine();
    let reach = |words: &[&str]| {
        let mut effects = Effects::new();
        effects.push(2, words);
        let operation = effects.iter().next().expect("one").expect("whole");
        let mut touches = Vec::new();
        let reach = engine.reach(&operation, &mut touches);
        let touches = touches.iter().map(|touch| {
            let mark = if touch.written { "w" } else { "r" };
            format!("{}:{}:{mark}", touch.db, String::from_utf8_lossy(touch.key))
        });
        (reach, touches.collect::<Vec<_>>().join(" "))
    };
    let keys = |words: &[&str]| {
        let (reach, touches) = reach(words);
        assert_eq!(reach, Reach::Keys, "{words:?}");
        touches
    };
    assert_eq!(keys(&["SET", "k", "v"]), "2:k:w");
    assert_eq!(keys(&["DEL", "a", "b"]), "2:a:w 2:b:w");
    assert_eq!(keys(&["MSET", "a", "1", "b", "2"]), "2:a:w 2:b:w");
    assert_eq!(keys(&["COPY", "a", "b"]), "2:a:r 2:b:w");
    assert_eq!(keys(&["COPY", "a", "b", "REPLACE", "DB", "7"]), "2:a:r 7:b:w");
    assert_eq!(keys(&["MOVE", "a", "7"]), "2:a:w 7:a:w");
    assert_eq!(keys(&["ZUNIONSTORE", "d", "2", "a", "b"]), "2:d:w 2:a:r 2:b:r");
    assert_eq!(keys(&["LMOVE", "a", "b", "LEFT", "LEFT"]), "2:a:w 2:b:w");
    assert_eq!(keys(&["XGROUP", "SETID", "s", "g", "0"]), "2:s:w");
    assert_eq!(keys(&["BITOP", "AND", "d", "a", "b"]), "2:d:w 2:a:r 2:b:r");
    assert_eq!(keys(&["GEORADIUS", "g", "0", "0", "1", "m", "STORE", "d"]), "2:g:r 2:d:w");
    assert_eq!(reach(&["FLUSHALL"]), (Reach::Everywhere, String::new()));
    assert_eq!(reach(&["FLUSHDB"]), (Reach::Everywhere, String::new()));
    assert_eq!(reach(&["SWAPDB", "0", "1"]), (Reach::Shuffles, String::new()));
}

/// A command on few keys of one or two types each, so that most of them do something.
fn command() -> impl Strategy<Value = String> {
    let key = |prefix: &'static str| (0..3u8).prop_map(move |n| format!("{prefix}{n}"));
    let item = (0..6u8).prop_map(|n| format!("m{n}"));
    let number = -3i64..20;
    let two = |prefix| (key(prefix), key(prefix));
    prop_oneof![
        (key("s"), number.clone()).prop_map(|(k, n)| format!("SET {k} {n}")),
        (key("s"), 1..3000i64).prop_map(|(k, n)| format!("SET {k} v PX {n}")),
        (key("s"), number.clone()).prop_map(|(k, n)| format!("INCRBY {k} {n}")),
        (key("s"), 0..30i64).prop_map(|(k, n)| format!("EXPIRE {k} {n}")),
        (key("s"), 0..30i64).prop_map(|(k, n)| format!("GETEX {k} EX {n}")),
        key("s").prop_map(|k| format!("GETDEL {k}")),
        key("s").prop_map(|k| format!("INCRBYFLOAT {k} 0.1")),
        two("s").prop_map(|(a, b)| format!("RENAME {a} {b}")),
        two("s").prop_map(|(a, b)| format!("COPY {a} {b} DB 1 REPLACE")),
        (key("l"), item.clone()).prop_map(|(k, m)| format!("RPUSH {k} {m} {m}x")),
        two("l").prop_map(|(a, b)| format!("LMOVE {a} {b} LEFT RIGHT")),
        (key("l"), number.clone()).prop_map(|(k, n)| format!("LTRIM {k} 0 {n}")),
        two("l").prop_map(|(a, b)| format!("BLMPOP 1 2 {a} {b} LEFT COUNT 2")),
        (key("e"), item.clone()).prop_map(|(k, m)| format!("SADD {k} {m} 1 2 3")),
        (key("e"), 0..3i64).prop_map(|(k, n)| format!("SPOP {k} {n}")),
        two("e").prop_map(|(a, b)| format!("SMOVE {a} {b} m1")),
        two("e").prop_map(|(a, b)| format!("SINTERSTORE {a} {a} {b}")),
        (key("h"), item.clone(), number.clone()).prop_map(|(k, m, n)| format!("HSET {k} {m} {n}")),
        (key("h"), item.clone()).prop_map(|(k, m)| format!("HINCRBYFLOAT {k} {m} 1.5")),
        (key("h"), item.clone()).prop_map(|(k, m)| format!("HDEL {k} {m}")),
        (key("z"), number.clone(), item.clone())
            .prop_map(|(k, n, m)| format!("ZADD {k} {n}.5 {m}")),
        (key("z"), item.clone()).prop_map(|(k, m)| format!("ZINCRBY {k} 0.3 {m}")),
        two("z").prop_map(|(a, b)| format!("ZMPOP 2 {a} {b} MIN COUNT 2")),
        two("z").prop_map(|(a, b)| format!("ZUNIONSTORE {a} 2 {a} {b} WEIGHTS 2 1")),
        (key("x"), item.clone()).prop_map(|(k, m)| format!("XADD {k} * {m} 1")),
        (key("x"), item.clone()).prop_map(|(k, m)| format!("XADD {k} MAXLEN 3 * {m} 1")),
        key("x").prop_map(|k| format!("XGROUP CREATE {k} g 0 MKSTREAM")),
        (key("x"), item.clone())
            .prop_map(|(k, m)| format!("XREADGROUP GROUP g {m} COUNT 2 STREAMS {k} >")),
        (key("x"), item.clone()).prop_map(|(k, m)| format!("XAUTOCLAIM {k} g {m} 0 0 COUNT 1")),
        key("x").prop_map(|k| format!("XTRIM {k} MAXLEN 1")),
        two("l").prop_map(|(a, b)| format!("SORT {a} ALPHA STORE {b}")),
        Just("SWAPDB 0 1".to_owned()),
        Just("FLUSHDB".to_owned()),
        Just("SELECT 1".to_owned()),
        Just("SELECT 0".to_owned()),
        Just("MULTI".to_owned()),
        Just("EXEC".to_owned()),
        Just("tick".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        if std::env::var_os("SEAWALL_SOAK").is_some() { 20_000 } else { 300 }
    ))]

    #[test]
    fn any_history_comes_back(lines in prop::collection::vec(command(), 1..80)) {
        let mut life = Life::new();
        for line in lines {
            if line == "tick" {
                life.clock.advance(Duration::from_millis(1500));
                life.core.tick();
            } else {
                life.run(&line);
            }
        }
        life.run("DISCARD");
        life.assert_recoverable();
    }
}
