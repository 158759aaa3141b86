//! Scripts that mean harm: none ends the process, none is out of SCRIPT KILL's reach, none takes all
//! memory. They run on a thread with the stack of a runtime's worker, because in-process clients run
//! scripts on their own thread.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use seawall_engine::{Clock, Core, Options, Peer, SessionId, Transport};

/// What tokio gives a worker.
const WORKER_STACK: usize = 2 << 20;
/// How long one script may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(120);

struct RealClock(Instant);

impl Clock for RealClock {
    fn unix_micros(&self) -> i64 {
        1_700_000_000_000_000 + i64::try_from(self.0.elapsed().as_micros()).unwrap_or(0)
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

fn core() -> Arc<Core> {
    let mut options = Options::default();
    options.settings.lua_time_limit = 10;
    Core::new(options, Arc::new(RealClock(Instant::now())))
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
    let output = core.engine().take_output(session).expect("the session is open");
    String::from_utf8_lossy(&output).into_owned()
}

/// Runs a script on a worker's stack and gives the reply.
fn eval(core: &Arc<Core>, script: &str) -> String {
    let (core, script) = (Arc::clone(core), script.to_owned());
    thread::Builder::new()
        .stack_size(WORKER_STACK)
        .spawn(move || {
            let session = open(&core);
            let reply = ask(&core, session, &["EVAL", &script, "0"]);
            core.close(session);
            reply
        })
        .expect("a thread starts")
        .join()
        .expect("no panic")
}

/// Each pair is a script and what its reply begins with.
const SURVIVED: [(&str, &str); 63] = [
    ("return unpack({}, 0, 2147483647)", "-ERR too many results to unpack"),
    (
        "local a = unpack({}, 0, 2147483647) return a",
        "-ERR user_script:1: too many results to unpack",
    ),
    (
        "local a = unpack({}, -1, 2147483647) return a",
        "-ERR user_script:1: too many results to unpack",
    ),
    (
        "local a = unpack({}, -2147483648) return a",
        "-ERR user_script:1: too many results to unpack",
    ),
    (
        "local a = unpack({}, '-2147483648', '2147483647') return a",
        "-ERR user_script:1: too many results",
    ),
    ("local a = unpack({}, 0/0, 100) return a", "-ERR user_script:1: too many results to unpack"),
    (
        "local a = unpack({}, 2147483648, 100) return a",
        "-ERR user_script:1: too many results to unpack",
    ),
    (
        "local a = unpack() return a",
        "-ERR user_script:1: bad argument #1 to 'unpack' (table expected, got no value)",
    ),
    (
        "local a = unpack({}, 'x') return a",
        "-ERR user_script:1: bad argument #2 to 'unpack' (number expected, got string)",
    ),
    ("return {unpack({1, 2, 3}, 2)}", "*2\r\n:2\r\n:3\r\n"),
    ("return {unpack({1, 2, 3}, '1', 2.5)}", "*2\r\n:1\r\n:2\r\n"),
    ("return string.find(string.rep('a',40000), string.rep('a?',40000))", ":1"),
    (
        "return {string.find(string.rep('a',160000), string.rep('a?',160000))}",
        "*2\r\n:1\r\n:160000",
    ),
    ("return string.find(string.rep('a',160000), string.rep('a-',160000))", ":1"),
    ("return string.find(string.rep('a',160000), string.rep('a*',160000))", ":1"),
    ("return #string.match(string.rep('a',160000), string.rep('a?',160000))", ":160000"),
    ("return select(2, string.gsub(string.rep('a',160000), string.rep('a?',160000), ''))", ":2"),
    (
        "for a in string.gmatch(string.rep('a',160000), string.rep('a?',160000)) do return #a end",
        ":160000",
    ),
    ("return string.find('aaa', string.rep('(', 33))", "-ERR user_script:1: too many captures"),
    ("return string.find('aaa', string.rep('(', 100000))", "-ERR user_script:1: too many captures"),
    ("return string.find('aaa', string.rep('%', 100001))", "$-1"),
    ("return string.find('a', '[' .. string.rep('a', 100000))", "-ERR user_script:1: malformed"),
    ("return #string.rep('', 2147483647)", ":0"),
    ("return #string.rep('x', -1)", ":0"),
    ("return #string.rep('x', 2147483647)", "-ERR"),
    ("return #string.rep(string.rep('x', 1000000), 1000000)", "-ERR"),
    ("return #string.gsub(string.rep('x', 100000), '.', string.rep('y', 1000000))", "-ERR"),
    ("local s = string.rep('x', 268435456) return #(s..s..s..s..s..s..s..s..s)", "-ERR"),
    ("local function f() return pcall(f) end return tostring(f())", "$"),
    ("local function f() pcall(f) end f() return 1", ":1"),
    ("local function f() return xpcall(f, function(e) return e end) end f() return 1", ":1"),
    ("local function f() f() return 1 end return f()", "-ERR"),
    ("local function f() return f(), 1 end return f()", "-ERR"),
    ("local function f() error(setmetatable({}, {__tostring = f})) end return f()", "-ERR"),
    ("local function f() return coroutine.wrap(f)() end f() return 1", "-ERR"),
    ("local function f() coroutine.resume(coroutine.create(f)) end f() return 1", ":1"),
    (
        "local t = {} setmetatable(t, {__tostring = function(t) return tostring(t) end}) return tostring(t)",
        "-ERR",
    ),
    (
        "local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]",
        "-ERR",
    ),
    (
        "local t = setmetatable({}, {__newindex = function(t, k, v) t[k + 1] = v end}) t[1] = 1",
        "-ERR",
    ),
    (
        "local t = setmetatable({}, {__concat = function(a, b) return a .. b end}) return t .. 1",
        "-ERR",
    ),
    (
        "local m = {__lt = function(a, b) return a < b end} local a, b = setmetatable({}, m), setmetatable({}, m) return a < b",
        "-ERR",
    ),
    (
        "local m = {__eq = function(a, b) return a == b end} local a, b = setmetatable({}, m), setmetatable({}, m) return a == b",
        "-ERR",
    ),
    (
        "local m = {} m.__call = function(t) local x = t() return x end return setmetatable({}, m)() ",
        "-ERR",
    ),
    ("local t = setmetatable({}, {__unm = function(t) return -t end}) return -t", "-ERR"),
    ("local function f(s) return (string.gsub(s, '.', f)) end return f('x')", "-ERR"),
    (
        "local function f(s) for w in string.gmatch('a', '.') do local x = f(w) return x end end return f('x')",
        "-ERR",
    ),
    ("local function r() load(r) return nil end load(r) return 1", ":1"),
    ("return loadstring(string.rep('(', 100000)) == nil", ":1"),
    ("return loadstring('return ' .. string.rep('{', 100000)) == nil", ":1"),
    ("return loadstring('return ' .. string.rep('not ', 100000) .. '1') == nil", ":1"),
    ("return loadstring('return ' .. string.rep('- ', 100000) .. '1') == nil", ":1"),
    ("return loadstring(string.rep('do ', 100000)) == nil", ":1"),
    ("return loadstring(string.rep('a = function() ', 100000)) == nil", ":1"),
    ("return loadstring('return ' .. string.rep('a .. ', 100000) .. 'a') == nil", ":1"),
    ("return loadstring(string.rep('a,', 100000) .. 'a = 1') == nil", ":1"),
    ("return pcall(cjson.decode, string.rep('[', 1000000))", "$-1"),
    ("local t = {} for i = 1, 100000 do t = {t} end return pcall(cjson.encode, t)", "$-1"),
    ("return pcall(cmsgpack.unpack, string.rep('\\145', 1000000))", "$-1"),
    ("local t = {} for i = 1, 100000 do t = {t} end return #cmsgpack.pack(t)", ":"),
    ("local t = {} t[1] = t return #cmsgpack.pack(t)", ":"),
    ("return pcall(struct.pack, 'i2147483647', 1)", "$-1"),
    ("return pcall(string.format, '%99999d', 1)", "$-1"),
    ("local t = {} for i = 1, 100000 do t = {t} end t = nil collectgarbage() return 1", ":1"),
];

#[test]
fn no_script_ends_the_process() {
    let core = core();
    for (script, start) in SURVIVED {
        let begun = Instant::now();
        let reply = eval(&core, script);
        let shown: String = reply.chars().take(200).collect();
        assert!(reply.starts_with(start), "{script}\nanswered {shown:?}");
        assert!(begun.elapsed() < PATIENCE, "{script} took {:?}", begun.elapsed());
    }
    // A table that is nested deeper than a reply can be, and one that contains itself.
    for script in
        ["local t = {} for i = 1, 100000 do t = {t} end return t", "local t = {} t[1] = t return t"]
    {
        assert!(!eval(&core, script).is_empty(), "{script}");
    }
    assert_eq!(eval(&core, "return 7"), ":7\r\n");
}

#[test]
fn a_script_that_ran_out_of_memory_leaves_room_for_others() {
    let core = core();
    let reply =
        eval(&core, "local t = {} while true do t[#t + 1] = string.rep('x', 1000000) .. #t end");
    assert!(reply.contains("not enough memory"), "{reply}");
    assert_eq!(eval(&core, "return 8"), ":8\r\n");
    let tables = "local t = {} for i = 1, 100000 do t[i] = {i} end return #t";
    assert_eq!(eval(&core, tables), ":100000\r\n");
}

/// Scripts that would run for hours.
const ENDLESS: [&str; 18] = [
    "local function f(s) for w in string.gmatch('a', '.') do return f(w) end end return f('x')",
    "local m = {} m.__call = function(t) return t() end return setmetatable({}, m)()",
    "return string.find(string.rep('a',60), string.rep('a?',60) .. string.rep('a',61))",
    "return string.match(string.rep('a',5000), '.-.-.-.-.-.-b')",
    "return string.gsub(string.rep('a',5000), '.*.*.*.*.*.*b', '')",
    "for w in string.gmatch(string.rep('a',5000), '.-.-.-.-.-.-b') do end",
    "while true do pcall(string.find, string.rep('a',60), string.rep('a?',60) .. string.rep('a',61)) end",
    "while true do string.find('aaaaaaaaaaaaaaaaaaaa', string.rep('a?',17) .. string.rep('a',17) .. 'b') end",
    "while true do local s = string.rep('x', 10000000) end",
    "while true do string.rep('', 2147483647) end",
    "table.insert({}, -2147483648, 1)",
    "while true do pcall(error, 'x') end",
    "coroutine.wrap(function() while true do end end)()",
    "while true do coroutine.wrap(function() for i = 1, 9000 do end end)() end",
    "string.gsub('aaa', 'a', function() while true do end end)",
    "return string.gsub('aaa', 'a', setmetatable({}, {__index = function() while true do end end}))",
    "local t = {} for i = 1, 100 do t[i] = i end table.sort(t, function() while true do end end)",
    "while true do local s = string.gsub(string.rep('a', 100000), 'a', 'bb') end",
];

#[test]
fn script_kill_reaches_every_script() {
    for script in ENDLESS {
        let core = core();
        let killer = {
            let core = Arc::clone(&core);
            thread::spawn(move || {
                let session = open(&core);
                let begun = Instant::now();
                while begun.elapsed() < PATIENCE {
                    // Waits in the session's input until the script is past its time.
                    let reply = ask(&core, session, &["SCRIPT", "KILL"]);
                    if reply.contains("+OK") {
                        return true;
                    }
                    thread::sleep(Duration::from_millis(2));
                }
                false
            })
        };
        let reply = eval(&core, script);
        assert!(reply.contains("Script killed by user"), "{script}\nanswered {reply:?}");
        assert!(killer.join().expect("no panic"), "{script} was not killed");
    }
}
