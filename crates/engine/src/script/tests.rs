//! Scripts on a host without an engine: what the interpreter itself promises.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::*;

/// Answers every command with what the test asked for and notes the arguments.
#[derive(Default)]
struct Fake {
    reply: Mutex<Vec<u8>>,
    calls: Mutex<Vec<Vec<Vec<u8>>>>,
    lines: Mutex<Vec<(LogLevel, Vec<u8>)>>,
    kill: AtomicBool,
}

impl ScriptHost for Fake {
    fn call(&self, protocol: u8, args: &[&[u8]], reply: &mut Vec<u8>) {
        let mut call: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
        call.push(vec![b'0' + protocol]);
        self.calls.lock().unwrap().push(call);
        reply.extend_from_slice(&self.reply.lock().unwrap());
    }

    fn may_call(&self, args: &[&[u8]]) -> Option<bool> {
        match args[0] {
            b"get" => Some(true),
            b"set" => Some(false),
            _ => None,
        }
    }

    fn set_repl(&self, _to_log: bool, _to_replicas: bool) {}

    fn log(&self, level: LogLevel, message: &[u8]) {
        self.lines.lock().unwrap().push((level, message.to_vec()));
    }

    fn tick(&self) -> Tick {
        if self.kill.load(Ordering::Relaxed) { Tick::Kill } else { Tick::Continue }
    }
}

struct Bench {
    vm: Vm,
    fake: Arc<Fake>,
    protocol: u8,
}

impl Bench {
    fn new() -> Self {
        Bench { vm: Vm::new(), fake: Arc::default(), protocol: 2 }
    }

    fn answering(reply: &str) -> Self {
        let bench = Bench::new();
        *bench.fake.reply.lock().unwrap() = reply.as_bytes().to_vec();
        bench
    }

    fn host(&self) -> Arc<dyn ScriptHost> {
        self.fake.clone()
    }

    fn eval(&mut self, source: &str) -> String {
        let script = Script::read(source.as_bytes()).unwrap();
        let sha = hex_sha1(source.as_bytes());
        let request = Request::new(&[b"EVAL", b"", b"1", b"k1", b"a1", b"a2"], 1);
        let host = self.host();
        let call = Call { request: &request, protocol: self.protocol, host: &host };
        let reply = self.vm.eval(0, &sha, &script, call);
        String::from_utf8_lossy(&reply.bytes).replace(str::from_utf8(&sha).unwrap(), "SHA")
    }
}

fn eval(source: &str) -> String {
    Bench::new().eval(source)
}

#[test]
fn returns_become_replies() {
    assert_eq!(eval("return 1"), ":1\r\n");
    assert_eq!(eval("return {1, 'two', {3}, nil, 5}"), "*3\r\n:1\r\n$3\r\ntwo\r\n*1\r\n:3\r\n");
    assert_eq!(
        eval("return {KEYS, ARGV}"),
        "*2\r\n*1\r\n$2\r\nk1\r\n*2\r\n$2\r\na1\r\n$2\r\na2\r\n"
    );
    assert_eq!(eval("return -3.99"), ":-3\r\n");
    assert_eq!(eval("return false"), "$-1\r\n");
    assert_eq!(eval("return {ok='a\\r\\nb'}"), "+a  b\r\n");
    assert_eq!(eval("return {err='MY error'}"), "-MY error\r\n");
    assert_eq!(eval("local t = {} for i = 1, 12 do t[i] = 1 end return t"), {
        format!("*12\r\n{}", ":1\r\n".repeat(12))
    });
}

#[test]
fn replies_follow_both_protocols() {
    let mut bench = Bench::new();
    assert_eq!(bench.eval("return {double=3.5}"), "$3\r\n3.5\r\n");
    assert_eq!(bench.eval("return {map={a=1}}"), "*2\r\n$1\r\na\r\n:1\r\n");
    assert_eq!(bench.eval("redis.setresp(3) return {true, false}"), "*2\r\n:1\r\n:0\r\n");
    bench.protocol = 3;
    assert_eq!(bench.eval("return {double=3.5}"), ",3.5\r\n");
    assert_eq!(bench.eval("return {map={a=1}}"), "%1\r\n$1\r\na\r\n:1\r\n");
    assert_eq!(bench.eval("return {set={a=true}}"), "~1\r\n$1\r\na\r\n");
    assert_eq!(bench.eval("return {big_number='12'}"), "(12\r\n");
    assert_eq!(
        bench.eval("return {verbatim_string={format='txt',string='hi'}}"),
        "=6\r\ntxt:hi\r\n"
    );
    assert_eq!(bench.eval("return true"), ":1\r\n");
    assert_eq!(bench.eval("redis.setresp(3) return {true, false}"), "*2\r\n#t\r\n#f\r\n");
    assert_eq!(bench.eval("return nil"), "_\r\n");
}

#[test]
fn a_table_inside_itself_ends_with_an_error() {
    let reply = eval("local t = {} t[1] = t return t");
    assert!(reply.ends_with("*1\r\n-ERR reached lua stack limit\r\n"));
    assert_eq!(reply.matches('*').count(), 7995);
}

#[test]
fn errors_name_script_and_line() {
    assert_eq!(
        eval("\nerror('oops')"),
        "-ERR user_script:2: oops script: SHA, on @user_script:2.\r\n"
    );
    assert_eq!(
        eval("return x"),
        "-ERR user_script:1: Script attempted to access nonexistent global variable 'x' \
         script: SHA, on @user_script:1.\r\n"
    );
    assert_eq!(
        eval("return ("),
        "-ERR Error compiling script (new function): user_script:1: \
         unexpected symbol near '<eof>'\r\n"
    );
    assert_eq!(eval("error({err='MY x'})"), "-MY x script: SHA, on @user_script:1.\r\n");
}

#[test]
fn globals_and_libraries_are_locked() {
    for write in [
        "x = 1",
        "_G.x = 1",
        "redis.call = nil",
        "string.format = nil",
        "getmetatable(_G).__index = nil",
        "getmetatable('').__index = nil",
    ] {
        assert_eq!(
            eval(write),
            "-ERR user_script:1: Attempt to modify a readonly table \
             script: SHA, on @user_script:1.\r\n",
            "{write}"
        );
    }
    for write in ["rawset(_G, 'x', 1)", "setmetatable(redis, {})", "table.insert(cjson, 1)"] {
        assert_eq!(
            eval(write),
            "-ERR Attempt to modify a readonly table script: SHA, on @user_script:1.\r\n",
            "{write}"
        );
    }
    for name in ["print", "os", "io", "require", "loadfile", "dofile", "debug", "setfenv"] {
        assert!(eval(&format!("return {name}")).contains("nonexistent"), "{name}");
    }
}

#[test]
fn a_new_table_is_never_taken_for_a_locked_one() {
    let mut bench = Bench::new();
    let script = "for i = 1, 20000 do setmetatable({}, {}) end collectgarbage() return 1";
    for _ in 0..3 {
        assert_eq!(bench.eval(script), ":1\r\n");
    }
}

#[test]
fn commands_are_called_and_their_replies_converted() {
    let mut bench = Bench::answering("*2\r\n$1\r\nx\r\n:7\r\n");
    assert_eq!(bench.eval("return redis.call('get', KEYS[1], 3, 0.1)[2]"), ":7\r\n");
    let calls = bench.fake.calls.lock().unwrap();
    let call: Vec<&str> = calls[0].iter().map(|arg| str::from_utf8(arg).unwrap()).collect();
    assert_eq!(call, ["get", "k1", "3", "0.10000000000000001", "2"]);
}

#[test]
fn an_error_of_a_command_ends_the_script_or_is_a_table() {
    let mut bench = Bench::answering("-WRONGTYPE no\r\n");
    assert_eq!(
        bench.eval("return redis.call('get', 'x')"),
        "-WRONGTYPE no script: SHA, on @user_script:1.\r\n"
    );
    assert_eq!(bench.eval("return redis.pcall('get', 'x').err"), "$12\r\nWRONGTYPE no\r\n");
    assert_eq!(
        bench.eval("local ok, e = pcall(redis.call, 'get') return {tostring(ok), e}"),
        "*2\r\n$5\r\nfalse\r\n$12\r\nWRONGTYPE no\r\n"
    );
    assert_eq!(
        bench.eval("return select(2, xpcall(function() redis.call('get') end, type))"),
        "$5\r\ntable\r\n"
    );
}

#[test]
fn resp3_replies_become_typed_tables() {
    let mut bench = Bench::answering("%1\r\n$1\r\na\r\n,1.5\r\n");
    let script = "redis.setresp(3) return tostring(redis.call('x').map.a.double)";
    assert_eq!(bench.eval(script), "$3\r\n1.5\r\n");
    let mut bench = Bench::answering("_\r\n");
    assert_eq!(bench.eval("return tostring(redis.call('x'))"), "$3\r\nnil\r\n");
}

#[test]
fn a_killed_script_cannot_go_on() {
    let mut bench = Bench::new();
    bench.fake.kill.store(true, Ordering::Relaxed);
    let killed = "-ERR Script killed by user with SCRIPT KILL... \
                  script: SHA, on @user_script:1.\r\n";
    assert_eq!(bench.eval("while true do end"), killed);
    for stubborn in [
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ] {
        assert!(bench.eval(stubborn).starts_with("-ERR Script killed by user"), "{stubborn}");
    }
    bench.fake.kill.store(false, Ordering::Relaxed);
    assert_eq!(bench.eval("return 1"), ":1\r\n");
}

#[test]
fn endless_recursion_ends() {
    assert_eq!(
        eval("local function f() return pcall(f) end return type(f())"),
        "$7\r\nboolean\r\n"
    );
    assert!(eval("local function f() return 1 + f() end return f()").contains("stack overflow"));
}

#[test]
fn libraries_register_and_run() {
    let mut bench = Bench::answering("+OK\r\n");
    let code = "local n = 0\n\
        redis.register_function('count', function(keys, args) n = n + 1 return {n, keys, args} end)\n\
        redis.register_function{function_name='ro', callback=function() return 1 end,\n\
          flags={'no-writes'}, description='d'}";
    let host = bench.host();
    let functions = bench.vm.load_library(0, 1, code.as_bytes(), &host).unwrap();
    assert_eq!(functions.len(), 2);
    assert_eq!(functions[1].description.as_deref(), Some(&b"d"[..]));
    assert!(functions[1].flags.contains(shebang::ScriptFlags::NO_WRITES));
    let request = Request::new(&[b"FCALL", b"count", b"1", b"k"], 1);
    let call = Call { request: &request, protocol: 2, host: &host };
    for count in 1..3 {
        let reply = bench.vm.call(0, 1, code.as_bytes(), b"count", call);
        let expected = format!("*3\r\n:{count}\r\n*1\r\n$1\r\nk\r\n*0\r\n");
        assert_eq!(String::from_utf8(reply.bytes).unwrap(), expected);
    }
    // Another interpreter loads the library by itself.
    let reply = Vm::new().call(0, 1, code.as_bytes(), b"count", call);
    assert!(reply.bytes.starts_with(b"*3\r\n:1\r\n"));
}

#[test]
fn loading_is_restricted() {
    let mut bench = Bench::new();
    let host = bench.host();
    let mut load = |code: &str| {
        let result = bench.vm.load_library(0, 1, code.as_bytes(), &host);
        String::from_utf8(result.unwrap_err()).unwrap()
    };
    assert_eq!(load("return 1"), "No functions registered");
    assert!(load("redis.call('ping')").contains("nonexistent global variable 'call'"));
    assert!(load("math.random()").contains("nonexistent global variable 'math'"));
    assert!(load("x = 1").contains("Attempt to modify a readonly table"));
    assert_eq!(
        load("redis.register_function('a')"),
        "Error registering functions: ERR calling redis.register_function with a single argument \
         is only applicable to Lua table (representing named arguments)."
    );
    assert!(load("return (").starts_with("Error compiling function: user_function:1: "));
}

#[test]
fn headers_are_read() {
    let header = shebang::script_header(b"#!lua flags=no-writes,allow-oom\nreturn 1").unwrap();
    let flags: Vec<&str> = header.flags.unwrap().names().collect();
    assert_eq!(flags, ["no-writes", "allow-oom"]);
    assert_eq!(
        shebang::script_header(b"#!lua flags=x\n").unwrap_err(),
        b"Unexpected flag in script shebang: x"
    );
    assert_eq!(shebang::library_header(b"#!lua name=lib\ncode").unwrap().name, b"lib");
    assert_eq!(shebang::library_header(b"code").unwrap_err(), b"Missing library metadata");
    assert_eq!(
        shebang::library_header(b"#!foo name=lib\ncode").unwrap_err(),
        b"Engine 'foo' not found"
    );
}

#[test]
fn bundled_libraries_answer() {
    assert_eq!(eval("return cjson.encode({1, 'a/b', {x=true}})"), {
        "$21\r\n[1,\"a\\/b\",{\"x\":true}]\r\n"
    });
    assert_eq!(eval("return cjson.decode('[1,{\"a\":[null,\"\\\\u00e9\"]}]')[2].a[2]"), {
        "$2\r\n\u{e9}\r\n"
    });
    assert_eq!(eval("return cmsgpack.unpack(cmsgpack.pack({1,2,'x'}))[3]"), "$1\r\nx\r\n");
    assert_eq!(eval("return struct.pack('>I2', 258)"), "$2\r\n\u{1}\u{2}\r\n");
    assert_eq!(eval("return bit.tohex(bit.bor(1, 16))"), "$8\r\n00000011\r\n");
    assert!(
        eval("return cjson.decode('[1')")
            .contains("Expected comma or array end but found T_END at character 3")
    );
}
