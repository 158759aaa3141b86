//! RDB files: what a real server wrote, against the server itself; and files that are damaged.

use std::{collections::HashMap, fs, ops::ControlFlow};

use seawall::{
    cmd,
    survey::{Kind, RdbEnd, RdbError, RdbSurvey, Report},
};
use seawall_testkit::backend::Backend;

use crate::ground::Ground;

/// Bytes are estimates: within this part of what the server says.
const TOLERANCE: f64 = 0.15;
/// What a running server may keep spare in a stream's last piece.
const LAST_PIECE: u64 = 4096;
/// And this many bytes, which a server may keep spare behind a string that it changed.
const SPARE: f64 = 64.0;

fn read(file: &[u8]) -> (Report, RdbEnd) {
    RdbSurvey::new().top(1_000).read("test", file, |_| ControlFlow::Continue(()))
}

/// Every type in every encoding that redis-server 7.0 has.
const FILL: &str = r#"
local function each(count, command, key, make)
  for i = 1, count do redis.call(command, key, unpack(make(i))) end
end
local long = string.rep('x', 100)
redis.call('SET', 'str:embedded', 'hello')
redis.call('SET', 'str:int', '12345')
redis.call('SET', 'str:negative', '-70000')
redis.call('SET', 'str:wide', '123456789012')
redis.call('SET', 'str:raw', string.rep('abc', 50000))
redis.call('SET', 'str:lifetime', 'x', 'EX', 5000)
redis.call('SETBIT', 'str:bits', 100000, 1)
redis.call('PFADD', 'str:hll', 'a', 'b', 'c')
each(100, 'RPUSH', 'list:small', function(i) return {'e' .. i} end)
each(5000, 'RPUSH', 'list:large', function(i) return {long .. i} end)
redis.call('RPUSH', 'list:plain', string.rep('p', 20000), 'short')
each(100, 'SADD', 'set:ints', function(i) return {i} end)
each(5000, 'SADD', 'set:manyints', function(i) return {i * 100000} end)
each(3000, 'SADD', 'set:table', function(i) return {long .. i} end)
each(100, 'ZADD', 'zset:small', function(i) return {i, 'm' .. i} end)
each(3000, 'ZADD', 'zset:large', function(i) return {i * 1.5, 'm' .. i} end)
redis.call('ZADD', 'zset:infinite', 'inf', 'a', '-inf', 'b')
each(100, 'HSET', 'hash:small', function(i) return {'f' .. i, 'v' .. i} end)
each(3000, 'HSET', 'hash:large', function(i) return {'f' .. i, long .. i} end)
each(2000, 'XADD', 'stream:plain', function(i) return {i .. '-1', 'a', i, 'b', long} end)
each(500, 'XADD', 'stream:groups', function(i) return {i .. '-1', 'a', i} end)
redis.call('XDEL', 'stream:groups', '7-1', '8-1')
redis.call('XGROUP', 'CREATE', 'stream:groups', 'g1', '0')
redis.call('XREADGROUP', 'GROUP', 'g1', 'c1', 'COUNT', 50, 'STREAMS', 'stream:groups', '>')
redis.call('XREADGROUP', 'GROUP', 'g1', 'c2', 'COUNT', 20, 'STREAMS', 'stream:groups', '>')
redis.call('XGROUP', 'CREATE', 'stream:empty', 'g', '$', 'MKSTREAM')
"#;

/// A file of a server with all of that, and what the server says of each key.
async fn dump(compress: &str) -> (Vec<u8>, HashMap<String, (Kind, u64, u64)>) {
    dump_of(FILL, compress).await
}

async fn dump_of(fill: &str, compress: &str) -> (Vec<u8>, HashMap<String, (Kind, u64, u64)>) {
    let ground = Ground::open(Backend::Redis).await;
    let client = ground.seawall.client();
    let send = async |words: &[&str]| {
        let mut command = cmd(words[0]);
        words[1..].iter().for_each(|word| {
            command.arg(word);
        });
        client.send(b"", &command).await.expect("it is carried out")
    };
    send(&["CONFIG", "SET", "rdbcompression", compress]).await;
    send(&["EVAL", fill, "0"]).await;
    send(&[
        "FUNCTION",
        "LOAD",
        "#!lua name=lib\nredis.register_function('f', function() return 1 end)",
    ])
    .await;
    send(&["SAVE"]).await;
    let survey = ground.seawall.survey().samples(0).rate(0).top(1_000);
    let truth = ground.survey(&survey).await;
    let known = |found: &seawall::survey::Finding| {
        (found.key_text(), (found.kind, found.members, found.bytes))
    };
    let truth = truth.largest.iter().map(known).collect();
    let server = ground.stand.server().expect("it is private");
    let file = fs::read(server.dir().join("dump.rdb")).expect("it was saved");
    ground.seawall.shutdown().await;
    (file, truth)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_and_encoding_equals_the_live_server() {
    for compress in ["yes", "no"] {
        let (file, truth) = dump(compress).await;
        let (report, end) = read(&file);
        assert!(matches!(end, RdbEnd::Complete), "{end:?}");
        assert_eq!(report.totals.keys, truth.len() as u64);
        for found in &report.largest {
            let name = found.key_text();
            let (kind, members, bytes) = truth[&name];
            assert_eq!((found.kind, found.members), (kind, members), "{name}");
            let off = found.bytes.abs_diff(bytes) as f64;
            let allowed = match kind {
                Kind::Stream => LAST_PIECE as f64,
                _ => bytes as f64 * TOLERANCE + SPARE,
            };
            assert!(off <= allowed, "{name}: {} instead of {bytes}", found.bytes);
            assert_eq!(found.lifetime.is_some(), name == "str:lifetime", "{name}");
        }
    }
}

/// What a server says of a stream depends on how its pending entries lie in its trees: groups that
/// share entries, consumers that took them in turn, ids of one millisecond and of far apart days.
const PENDING: &str = r#"
local function stream(key, entries, id)
  for i = 1, entries do redis.call('XADD', key, id(i), 'a', i, 'b', string.rep('x', 40)) end
end
local function take(key, group, consumers, each, rounds)
  redis.call('XGROUP', 'CREATE', key, group, '0')
  for round = 1, rounds do
    for consumer = 1, consumers do
      redis.call('XREADGROUP', 'GROUP', group, 'worker-' .. consumer, 'COUNT', each, 'STREAMS', key, '>')
    end
  end
end
local now = 1700000000000
local function dense(i) return now .. '-' .. i end
local function steady(i) return (now + i * 37) .. '-0' end
local function sparse(i) return (now + i * 86400123) .. '-' .. (i % 3) end
for name, id in pairs({dense = dense, steady = steady, sparse = sparse}) do
  for _, pending in ipairs({0, 1, 10, 500, 3000}) do
    local key = name .. ':one:' .. pending
    stream(key, 3000, id)
    take(key, 'workers', 1, math.max(pending, 1), pending > 0 and 1 or 0)
  end
  local key = name .. ':turns'
  stream(key, 3000, id)
  take(key, 'workers', 20, 10, 10)
  take(key, 'others', 3, 400, 1)
  key = name .. ':acked'
  stream(key, 3000, id)
  take(key, 'workers', 2, 1000, 1)
  for i = 1, 2000 do
    if i % 10 > 0 then redis.call('XACK', key, 'workers', id(i)) end
  end
end
"#;

/// The server's own figure is known to the byte: its nodes are counted as ours are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_with_pending_entries_equal_the_live_server() {
    let (file, truth) = dump_of(PENDING, "yes").await;
    let (report, end) = read(&file);
    assert!(matches!(end, RdbEnd::Complete), "{end:?}");
    assert_eq!((report.largest.len(), truth.len()), (21, 21));
    for found in &report.largest {
        let name = found.key_text();
        let (_, members, bytes) = truth[&name];
        assert_eq!((found.kind, found.members), (Kind::Stream, members), "{name}");
        let spare = bytes.checked_sub(found.bytes);
        assert!(
            spare.is_some_and(|spare| spare <= LAST_PIECE),
            "{name}: {} of {bytes}",
            found.bytes
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_are_told_from_whole_ones_wherever_they_are_damaged() {
    let (file, truth) = dump("yes").await;
    // Cut anywhere: what came before is there.
    for part in 1..40 {
        let length = file.len() * part / 40;
        let (report, end) = read(&file[..length]);
        match end {
            RdbEnd::Failed(RdbError::Truncated { offset }) => assert_eq!(offset, length as u64),
            other => panic!("cut at {length}: {other:?}"),
        }
        assert!(report.totals.keys < truth.len() as u64 + 1);
    }
    // A flipped bit anywhere: an error, at the latest from the checksum.
    for part in 0..200 {
        let mut broken = file.clone();
        let at = 9 + (broken.len() - 9 - 9) * part / 200;
        broken[at] ^= 1 << (part % 8);
        let (_, end) = read(&broken);
        assert!(matches!(end, RdbEnd::Failed(_)), "a flipped bit at {at} goes unnoticed");
    }
    let mut last = file.clone();
    *last.last_mut().expect("it is not empty") ^= 1;
    let (report, end) = read(&last);
    assert!(matches!(end, RdbEnd::Failed(RdbError::Checksum { .. })), "{end:?}");
    assert_eq!(report.totals.keys, truth.len() as u64);
}

#[test]
fn other_files_and_newer_versions_are_refused_by_name() {
    let refuse = |file: &[u8]| match read(file).1 {
        RdbEnd::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refuse(b"REDIS0099rest").contains("version 99 of Redis"));
    assert!(refuse(b"VALKEY081rest").contains("version 81 of Valkey"));
    for file in [&b""[..], b"REDIS", b"PK\x03\x04 no dump", b"REDISabcd", b"REDIS0000"] {
        assert!(refuse(file).contains("no RDB file"));
    }
    // A length that claims more than there is takes no memory.
    let huge = b"REDIS0010\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xffabc";
    assert!(refuse(huge).contains("cut off"));
    assert!(refuse(b"REDIS0010\x63\x01k\x01v").contains("unknown type 99"));
}

/// A hash with lifetimes of fields as Redis 7.4 writes it, and one as Valkey 9 does.
#[test]
fn hashes_with_lifetimes_of_fields_are_read() {
    let mut redis = b"REDIS0012\x18\x01h".to_vec();
    redis.extend([0; 8]);
    redis.extend(b"\x02\x00\x01a\x01b\x05\x01c\x01d\xff\0\0\0\0\0\0\0\0");
    let (report, end) = read(&redis);
    assert!(matches!(end, RdbEnd::Complete), "{end:?}");
    assert_eq!((report.largest[0].kind, report.largest[0].members), (Kind::Hash, 2));
    let mut valkey = b"VALKEY080\x16\x01h\x01\x01a\x01b".to_vec();
    valkey.extend([0; 8]);
    valkey.extend(b"\xff\0\0\0\0\0\0\0\0");
    let (report, end) = read(&valkey);
    assert!(matches!(end, RdbEnd::Complete), "{end:?}");
    assert_eq!(report.largest[0].members, 1);
}

#[test]
fn a_module_and_its_data_are_passed_over() {
    let mut file = b"REDIS0010".to_vec();
    // Auxiliary data: module, moment (2 is an unsigned number), then a string and the end.
    file.extend(b"\xf7\x81\0\0\0\0\0\0\0\x07\x02\x01\x05\x03abc\x00");
    // A value: a number, a double, a string.
    file.extend(b"\x07\x01m\x81\0\0\0\0\0\0\0\x07\x02\x2a\x04\0\0\0\0\0\0\0\0\x05\x02hi\x00");
    file.extend(b"\x00\x01s\x01v\xff\0\0\0\0\0\0\0\0");
    let (report, end) = read(&file);
    assert!(matches!(end, RdbEnd::Complete), "{end:?}");
    let kinds: Vec<_> = report.by_kind.iter().map(|(kind, sum)| (*kind, sum.keys)).collect();
    assert_eq!(kinds, [(Kind::String, 1), (Kind::Other, 1)]);
}

#[test]
fn filters_and_interrupts_work_on_files() {
    let mut file = b"REDIS0010".to_vec();
    for number in 0..5_000 {
        let key = format!("k:{number:04}");
        file.extend([0, key.len() as u8]);
        file.extend(key.as_bytes());
        file.extend(b"\x01v");
    }
    file.extend(b"\xff\0\0\0\0\0\0\0\0");
    let survey = RdbSurvey::new().matching("k:00*");
    let (report, end) = survey.read("test", &file[..], |_| ControlFlow::Continue(()));
    assert!(matches!(end, RdbEnd::Complete), "{end:?}");
    assert_eq!(report.totals.keys, 100);
    let (report, end) = RdbSurvey::new().read("test", &file[..], |_| ControlFlow::Break(()));
    assert!(matches!(end, RdbEnd::Interrupted), "{end:?}");
    assert_eq!(report.totals.keys, 1_024);
}
