//! Scripts through the whole engine: replies, the log, being busy, being killed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::{Clock, Core, Options, Peer, SessionId, Transport};

/// A clock that every look moves on by a millisecond.
#[derive(Default)]
struct Restless(AtomicU64);

impl Clock for Restless {
    fn unix_micros(&self) -> i64 {
        1_700_000_000_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

struct Bench {
    core: Arc<Core>,
}

impl Bench {
    fn new() -> Bench {
        let options = Options { logging: true, ..Options::default() };
        Bench { core: Core::new(options, Arc::new(Restless::default())) }
    }

    fn open(&self) -> SessionId {
        open(&self.core)
    }

    fn ask(&self, session: SessionId, args: &[&str]) -> String {
        ask(&self.core, session, args)
    }

    fn logged(&self) -> Vec<String> {
        let mut bytes = Vec::new();
        self.core.engine().take_effects(&mut bytes);
        crate::effects::operations(&bytes)
            .map(|operation| {
                let operation = operation.unwrap();
                let words: Vec<_> = operation.args().map(String::from_utf8_lossy).collect();
                words.join(" ")
            })
            .collect()
    }
}

fn open(core: &Core) -> SessionId {
    let transport = Transport::Local;
    core.open(Peer { addr: "local".into(), local_addr: "local".into(), transport })
}

fn ask(core: &Core, session: SessionId, args: &[&str]) -> String {
    let mut request = format!("*{}\r\n", args.len());
    for arg in args {
        request.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
    }
    core.feed(session, request.as_bytes());
    let output = core.engine().take_output(session).unwrap();
    String::from_utf8(output).unwrap()
}

#[test]
fn a_script_runs_commands_and_logs_their_effects() {
    let bench = Bench::new();
    let session = bench.open();
    let script = "redis.call('set', KEYS[1], ARGV[1]) redis.call('get', KEYS[1]) \
                  return redis.call('incr', 'n')";
    assert_eq!(bench.ask(session, &["EVAL", script, "1", "k", "v"]), ":1\r\n");
    assert_eq!(bench.logged(), ["set k v", "incr n"]);
    assert_eq!(bench.ask(session, &["GET", "k"]), "$1\r\nv\r\n");
    let silent = "redis.set_repl(redis.REPL_NONE) return redis.call('set', 'quiet', '1')";
    assert_eq!(bench.ask(session, &["EVAL", silent, "0"]), "+OK\r\n");
    assert!(bench.logged().is_empty());
}

#[test]
fn a_transaction_goes_on_behind_its_scripts() {
    let bench = Bench::new();
    let session = bench.open();
    bench.ask(session, &["MULTI"]);
    bench.ask(session, &["SET", "a", "1"]);
    bench.ask(session, &["EVAL", "return redis.call('incr', 'a')", "0"]);
    bench.ask(session, &["EVAL", "return redis.call('nosuch')", "0"]);
    bench.ask(session, &["GET", "a"]);
    let reply = bench.ask(session, &["EXEC"]);
    assert!(reply.starts_with("*4\r\n+OK\r\n:2\r\n-ERR Unknown Redis command"), "{reply}");
    assert!(reply.ends_with("$1\r\n2\r\n"), "{reply}");
    assert_eq!(bench.logged(), ["SET a 1", "incr a"]);
}

#[test]
fn a_script_past_its_time_can_be_killed_unless_it_wrote() {
    let bench = Bench::new();
    let (runner, other) = (bench.open(), bench.open());
    bench.ask(other, &["CONFIG", "SET", "lua-time-limit", "10"]);
    let core: Weak<Core> = Arc::downgrade(&bench.core);
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let notes = seen.clone();
    bench.core.set_busy_hook(Box::new(move || {
        let core = core.upgrade().unwrap();
        let mut notes = notes.lock().unwrap();
        notes.push(ask(&core, other, &["GET", "x"]));
        notes.push(ask(&core, other, &["SCRIPT", "KILL"]));
    }));
    let reply = bench.ask(runner, &["EVAL", "while true do end", "0"]);
    assert!(reply.starts_with("-ERR Script killed by user with SCRIPT KILL"), "{reply}");
    let notes = std::mem::take(&mut *seen.lock().unwrap());
    assert!(notes[0].starts_with("-BUSY Redis is busy running a script"), "{notes:?}");
    assert_eq!(notes[1], "+OK\r\n");

    let wrote = "redis.call('set', 'x', '1') for i = 1, 3000000 do end return 'done'";
    assert_eq!(bench.ask(runner, &["EVAL", wrote, "0"]), "$4\r\ndone\r\n");
    let notes = std::mem::take(&mut *seen.lock().unwrap());
    assert!(notes[1].starts_with("-UNKILLABLE"), "{notes:?}");
}

#[test]
fn libraries_are_logged_dumped_and_replayed() {
    let bench = Bench::new();
    let session = bench.open();
    let code = "#!lua name=lib\nredis.register_function('f', function(k, a) return a[1] end)";
    assert_eq!(bench.ask(session, &["FUNCTION", "LOAD", code]), "$3\r\nlib\r\n");
    assert_eq!(bench.ask(session, &["FCALL", "f", "0", "x"]), "$1\r\nx\r\n");
    let mut log = Vec::new();
    bench.core.engine().take_effects(&mut log);
    let mut dump = crate::effects::Effects::new();
    bench.core.engine().dump_slice(crate::Cursor::START, 1 << 20, &mut dump);
    assert_eq!(log, dump.as_bytes());

    let again = Bench::new();
    {
        let mut engine = again.core.engine();
        let by = engine.begin_replay();
        for operation in crate::effects::operations(&log) {
            engine.replay(&by, &operation.unwrap()).unwrap();
        }
        engine.end_replay(by, crate::Logging::On);
    }
    let session = again.open();
    assert_eq!(again.ask(session, &["FCALL", "F", "0", "y"]), "$1\r\ny\r\n");
}
