//! Lua's patterns beside redis-server: random subjects, patterns and replacements, byte for byte.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use seawall_testkit::seed;

use crate::redis_server::Redis;
use crate::support::{client, request, serve};

/// Cases of one run.
const CASES: usize = 6_000;
/// Cases that are asked at once.
const BATCH: usize = 200;

/// A small generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    fn text(&mut self, parts: &[&str], most: usize) -> String {
        (0..self.below(most + 1)).map(|_| self.pick(parts)).collect()
    }
}

const SUBJECT: [&str; 16] =
    ["a", "b", "aa", "ab", "1", "%", "(", ")", "[", "]", "^", "$", "-", " ", "\\0", "Z"];
const PATTERN: [&str; 44] = [
    "a", "b", ".", "a*", "b-", ".-", ".*", "a?", "b+", "%a", "%d+", "%s*", "%S", "%w-", "%z", "%%",
    "(", ")", "()", "(a)", "(.)", "(.-)", "%1", "%2", "%0", "[ab]", "[^a]", "[%a-z]", "[a-]",
    "[]]", "[^]]", "[", "]", "%b()", "%b", "%f[a]", "%f", "^", "$", "%", "1", "-", "\\0", "[a-z]*",
];
const REPLACEMENT: [&str; 8] = ["x", "%0", "%1", "%2", "%%", "%", "<%1>", "%9"];

/// A script over one random pattern.
fn script(random: &mut Random) -> String {
    let subject = random.text(&SUBJECT, 8);
    let mut pattern = random.text(&PATTERN, 5);
    if random.below(4) == 0 {
        pattern.insert(0, '^');
    }
    let init = random.pick(&["1", "2", "-1", "-3", "0", "9", "100"]);
    let body = match random.below(7) {
        0 => format!("string.find(s, p, {init})"),
        1 => format!("string.match(s, p, {init})"),
        2 => format!("string.find(s, p, {init}, true)"),
        3 => {
            let most = random.pick(&["", ", 0", ", 1", ", 2", ", -1"]);
            format!("string.gsub(s, p, '{}'{most})", random.text(&REPLACEMENT, 2))
        }
        4 => {
            let by = random.pick(&[
                "function(a, b) return a and b end",
                "function(...) return select('#', ...) end",
                "function(a) return false end",
                "function(a) return {} end",
                "function(a) error('no') end",
                "function(a) error({err = 'MINE no'}) end",
                "{a = 'x', b = 1, ab = false}",
                "setmetatable({}, {__index = function(t, k) return k .. k end})",
                "nil",
                "true",
            ]);
            format!("s:gsub(p, {by})")
        }
        5 => {
            "(function() local all = {} for a, b in s:gmatch(p) do all[#all + 1] = tostring(a) .. \
              '|' .. tostring(b) end return table.concat(all, ',') end)()"
                .to_owned()
        }
        _ => format!("pcall(string.{}, s, p, 'y')", random.pick(&["find", "match", "gsub", "rep"])),
    };
    format!(
        "local s, p = '{subject}', '{pattern}' local r = {{{body}}} for i = 1, 8 do r[i] = tostring(r[i]) end return r"
    )
}

/// Replies to all scripts; the last request is an ECHO that shows where they end.
fn replies(stream: &mut TcpStream, scripts: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for script in scripts {
        bytes.extend_from_slice(&request(&["EVAL", script, "0"]));
        bytes.extend_from_slice(&request(&["ECHO", "--next--"]));
    }
    bytes.extend_from_slice(&request(&["ECHO", "--done--"]));
    stream.write_all(&bytes).expect("the server reads");
    let mut got = Vec::new();
    let mut piece = [0; 65536];
    while !got.ends_with(b"--done--\r\n") {
        let count = stream.read(&mut piece).expect("the server answers");
        assert!(count > 0, "the server closed");
        got.extend_from_slice(&piece[..count]);
    }
    got
}

#[test]
fn patterns_match_as_in_redis_server() {
    let seed = seed();
    let mut random = Random(seed | 1);
    let (server, redis) = (serve(), Redis::start(&[]));
    let (mut ours, mut theirs) = (client(&server), redis.client());
    for _ in 0..CASES / BATCH {
        let scripts: Vec<String> = (0..BATCH).map(|_| script(&mut random)).collect();
        let (ours, theirs) = (replies(&mut ours, &scripts), replies(&mut theirs, &scripts));
        if ours == theirs {
            continue;
        }
        let cut = |bytes: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(bytes).split("--next--").map(str::to_owned).collect()
        };
        for ((ours, theirs), script) in cut(&ours).iter().zip(cut(&theirs)).zip(&scripts) {
            assert_eq!(*ours, theirs, "SEAWALL_SEED={seed}\n{script}");
        }
    }
}
