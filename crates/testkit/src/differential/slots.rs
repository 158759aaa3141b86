//! The values of `<slot>`: few keys, so that types collide; mostly sensible arguments, sometimes a
//! strange one.

use crate::rng::Rng;

/// Seconds since 1970 in the far future: nothing expires while a test runs.
const FUTURE_S: u64 = 33_000_000_000;

const KEYS: [&str; 19] = [
    "s1", "s2", "s3", "l1", "l2", "l3", "e1", "e2", "e3", "h1", "h2", "z1", "z2", "z3", "x1", "x2",
    "g1", "p1", "p2",
];

/// Separate keys for ranges by name: a sorted set whose scores are all equal, and a string.
const LEX_KEYS: [&str; 2] = ["y1", "y2"];

/// Returns every key that a generated command can name.
pub(super) fn all_keys() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter().chain(LEX_KEYS)
}

/// Returns a key for any command.
pub(super) fn any_key(rng: &mut Rng) -> &'static str {
    rng.pick::<&str>(&KEYS)
}

/// Words that are wrong in most places, and dangerous in none that may be mutated: none is a small
/// positive number, which could become a short lifetime, and none is another word of the lists
/// below followed by a zero byte, which would make the order of a sorted set of both random.
pub(super) const STRANGE: [&[u8]; 16] = [
    b"",
    b"abc",
    b"-1",
    b"0",
    b"1.5",
    b"nan",
    b"inf",
    b"9223372036854775808",
    b"-9223372036854775809",
    b" 1",
    b"1 ",
    b"+1",
    b"0x10",
    b"\xff\x00\r\n",
    b"LIMIT",
    b"COUNT",
];

/// Output of `DUMP` in Redis 7.0 for "hello", the integer 1, and a list.
const PAYLOADS: [&[u8]; 3] = [
    b"\x00\x05hello\x0a\x00\x63\x72\x8a\x76\x65\x34\x20\x0b",
    b"\x00\x05hellO\x0a\x00\x63\x72\x8a\x76\x65\x34\x20\x0b",
    b"\x00",
];

/// Fills one slot; a slot may produce several words.
pub(super) fn fill(slot: &str, rng: &mut Rng, out: &mut Vec<Vec<u8>>) {
    if let Some(kind) = slot.strip_prefix("nkeys:") {
        return numbered_keys(kind, rng, out);
    }
    let word: Vec<u8> = match slot {
        "key" => any_key(rng).as_bytes().to_vec(),
        "lexset" => LEX_KEYS[usize::from(rng.chance(8))].as_bytes().to_vec(),
        "lexstr" => LEX_KEYS[1].as_bytes().to_vec(),
        "str" | "list" | "set" | "hash" | "zset" | "stream" | "geo" | "hll" => key(slot, rng),
        "val" => value(rng),
        "num" => small(rng, -3, 12),
        "int" => integer(rng),
        "float" => float(rng),
        "score" => score(rng),
        "field" => pick(rng, &["f1", "f2", "f3", "f4", "", "12", "\u{fc}"]),
        "member" => pick(rng, &["a", "b", "c", "d", "aa", "bb", "1", "2", "7", ""]),
        "idx" => index(rng),
        "cnt" => count(rng),
        "off" => pick(rng, &["0", "1", "3", "10", "-1", "536870912", "x", "4294967296"]),
        "bitoff" => pick(rng, &["0", "1", "7", "8", "63", "100", "-1", "4294967296", "x"]),
        "bftype" => pick(
            rng,
            &["u1", "u8", "i8", "i5", "u63", "i64", "u16", "i16", "u64", "i65", "x", "u0"],
        ),
        "bfoff" => pick(rng, &["0", "#1", "#3", "7", "100", "-1", "x", "#", "8589934592"]),
        "ttl" => lifetime(rng, 0),
        "pttl" => lifetime(rng, 3),
        "at" => future(rng, FUTURE_S),
        "pat" => future(rng, FUTURE_S * 1000),
        "ahead" => ahead(rng, FUTURE_S),
        "pahead" => ahead(rng, FUTURE_S * 1000),
        "pattern" => {
            pick(rng, &["*", "s*", "?1", "[sl]1", "[^s]*", "x", "h[1-2]", "\\*", "c*", ""])
        }
        "bound" => pick(
            rng,
            &["-inf", "+inf", "0", "1", "2", "(1", "(2", "3.5", "(-inf", "x", "(x", "nan", "1e3"],
        ),
        "lex" => pick(rng, &["-", "+", "[a", "(a", "[b", "(c", "[", "(", "a", "[bb", ""]),
        "sid" => stream_id(rng),
        "newid" => new_stream_id(rng),
        "sidbound" => match rng.below(6) {
            0 | 1 => b"-".to_vec(),
            2 | 3 => b"+".to_vec(),
            4 => [b"(".as_slice(), &stream_id(rng)].concat(),
            _ => stream_id(rng),
        },
        "group" => pick(rng, &["g", "g", "g", "g2", "nogroup"]),
        "consumer" => pick(rng, &["c1", "c2"]),
        "lon" => pick(rng, &["13.361389", "15.087269", "0", "-122.4", "180", "181", "x", "13.5"]),
        "lat" => pick(rng, &["38.115556", "37.502669", "0", "37.7", "85.1", "-85", "x", "38"]),
        "unit" => pick(rng, &["m", "km", "ft", "mi", "KM", "x"]),
        "radius" => pick(rng, &["0", "1", "100", "200", "500", "5000", "-1", "x", "20000"]),
        "chan" => pick(rng, &["c1", "c2", "c3", ""]),
        "db" => pick(rng, &["0", "0", "0", "1", "15", "16", "-1", "x"]),
        "payload" => rng.pick(&PAYLOADS).to_vec(),
        "config" => return config(rng, out),
        "sha" => sha(rng),
        other => panic!("commands.txt: unknown slot {other}"),
    };
    out.push(word);
}

fn pick(rng: &mut Rng, choices: &[&str]) -> Vec<u8> {
    rng.pick(choices).as_bytes().to_vec()
}

/// Returns a key that usually holds the right type.
fn key(kind: &str, rng: &mut Rng) -> Vec<u8> {
    if rng.chance(8) {
        return any_key(rng).as_bytes().to_vec();
    }
    let names: &[&str] = match kind {
        "str" => &["s1", "s2", "s3"],
        "list" => &["l1", "l2", "l3"],
        "set" => &["e1", "e2", "e3"],
        "hash" => &["h1", "h2"],
        "zset" => &["z1", "z2", "z3"],
        "stream" => &["x1", "x2"],
        "geo" => &["g1"],
        _ => &["p1", "p2"],
    };
    pick(rng, names)
}

/// Adds a count of keys and the keys; the count is sometimes wrong.
fn numbered_keys(kind: &str, rng: &mut Rng, out: &mut Vec<Vec<u8>>) {
    let keys = 1 + rng.below(3);
    let shown = match rng.below(20) {
        0 => pick(rng, &["0", "-1", "x", "100", "9223372036854775808"]),
        _ => keys.to_string().into_bytes(),
    };
    out.push(shown);
    for _ in 0..keys {
        fill(kind, rng, out);
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    match rng.below(24) {
        0 => Vec::new(),
        1 => b"\x00\xff\r\n\"'".to_vec(),
        2 => vec![b'x'; 40 + rng.below(8)],
        3 => vec![b'y'; 63 + rng.below(4)],
        4 => integer(rng),
        5 => float(rng),
        6..=9 => small(rng, -3, 30),
        _ => pick(rng, &["a", "b", "c", "hello", "hell", "world", "foobar", "Z"]),
    }
}

fn small(rng: &mut Rng, low: i64, high: i64) -> Vec<u8> {
    let span = usize::try_from(high - low).expect("an ordered range");
    let offset = i64::try_from(rng.below(span)).expect("a small range");
    (low + offset).to_string().into_bytes()
}

fn integer(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(60) {
        return small(rng, -10, 100);
    }
    pick(
        rng,
        &[
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "4611686018427387904",
            "18446744073709551615",
            "2147483648",
            "-2147483649",
            "1.5",
            "abc",
            "",
            " 1",
            "+1",
            "01",
            "1e3",
            "-0",
        ],
    )
}

fn float(rng: &mut Rng) -> Vec<u8> {
    pick(
        rng,
        &[
            "0.1",
            "1.5",
            "-2.25",
            "3",
            "1e5",
            "-1e-5",
            "inf",
            "-inf",
            "nan",
            "x",
            "1e308",
            "0",
            "5.0e3",
            "100000000000000000000",
            "0.30000000000000004",
            "",
            " 1",
            "1.7976931348623157e308",
        ],
    )
}

fn score(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(70) {
        return small(rng, -2, 6);
    }
    float(rng)
}

fn index(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(88) {
        return small(rng, -4, 6);
    }
    pick(rng, &["100", "-100", "x", "", "9223372036854775807", "-9223372036854775808", "1.5"])
}

fn count(rng: &mut Rng) -> Vec<u8> {
    if rng.chance(85) {
        return small(rng, 0, 5);
    }
    pick(rng, &["-1", "-2", "x", "100", "9223372036854775807", "-9223372036854775808", ""])
}

/// Returns a lifetime in seconds, or in a unit smaller by some powers of ten.
///
/// Two lifetimes are hardly ever equal: whether the second of two equal ones is longer (`EXPIRE key
/// 1000 GT`) depends on the millisecond. They also differ by far more than clocks do.
fn lifetime(rng: &mut Rng, powers: u32) -> Vec<u8> {
    const STEP_S: u64 = 200_000;
    const STEPS: usize = 40_000;
    if rng.chance(60) {
        // Whole steps in seconds, half ones in milliseconds.
        let offset_s = if powers == 0 { 0 } else { STEP_S / 2 };
        let seconds = STEP_S * (1 + rng.below(STEPS) as u64) + offset_s;
        return (seconds * 10_u64.pow(powers)).to_string().into_bytes();
    }
    pick(rng, &["0", "-1", "x", "9223372036854775807", "1.5", ""])
}

/// Returns an expiry time, sometimes in the past: such a key is deleted at once.
fn future(rng: &mut Rng, base: u64) -> Vec<u8> {
    if rng.chance(10) { b"1".to_vec() } else { ahead(rng, base) }
}

/// Like [`future`], but never in the past. SET keeps an expired key until a client accesses it, and
/// a server that expires keys actively does so when it has time.
fn ahead(rng: &mut Rng, base: u64) -> Vec<u8> {
    match rng.below(9) {
        0 => b"0".to_vec(),
        1 => b"-1".to_vec(),
        2 => b"x".to_vec(),
        3 => b"9223372036854775807".to_vec(),
        n => (base + n as u64 * 100_000).to_string().into_bytes(),
    }
}

fn stream_id(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0 => b"0".to_vec(),
        1 => b"18446744073709551615-18446744073709551615".to_vec(),
        2 => pick(rng, &["x", "1-x", "-", "1-1-1", "", "18446744073709551616"]),
        3 => format!("{}", rng.below(20)).into_bytes(),
        _ => format!("{}-{}", rng.below(20), rng.below(3)).into_bytes(),
    }
}

/// Returns ids that mostly increase, so that entries are accepted.
fn new_stream_id(rng: &mut Rng) -> Vec<u8> {
    match rng.below(12) {
        0 => b"0-0".to_vec(),
        1 => stream_id(rng),
        2 | 3 => format!("{}-*", rng.below(400)).into_bytes(),
        _ => format!("{}-{}", rng.below(400), rng.below(3)).into_bytes(),
    }
}

/// Adds settings that change how values are encoded; every episode starts with the defaults.
fn config(rng: &mut Rng, out: &mut Vec<Vec<u8>>) {
    let name = pick(
        rng,
        &[
            "hash-max-listpack-entries",
            "hash-max-listpack-value",
            "zset-max-listpack-entries",
            "zset-max-listpack-value",
            "set-max-intset-entries",
            "list-max-listpack-size",
            "nosuch-setting",
        ],
    );
    out.push(name);
    out.push(pick(rng, &["1", "2", "4", "64", "x", "128"]));
}

fn sha(rng: &mut Rng) -> Vec<u8> {
    pick(
        rng,
        &[
            // `return 1`, in both cases, and two that are not a script.
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
            "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB",
            "ffffffffffffffffffffffffffffffffffffffff",
            "short",
        ],
    )
}
