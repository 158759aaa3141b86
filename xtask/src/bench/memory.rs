//! Memory: how much a server grows per element of each type.

use std::path::Path;

use seawall_testkit::{Client, ServerBuilder, ServerProcess};

use super::cpu::resident_bytes;
use super::load::Scale;
use crate::outcome::{Failure, Outcome};
use crate::shell::bar;

/// Bytes per element.
pub(super) struct Row {
    pub(super) kind: &'static str,
    pub(super) redis: f64,
    pub(super) ours: f64,
}

type MakeCommand = fn(u64) -> Vec<String>;

/// What is stored; values are 16 bytes, like a counter, a token or an id.
const KINDS: [(&str, MakeCommand); 7] = [
    ("string", |n| words(&["SET", &format!("key:{n:08}"), &value(n)])),
    ("string with lifetime", |n| words(&["SET", &format!("key:{n:08}"), &value(n), "EX", "86400"])),
    ("hash field", |n| words(&["HSET", "hash", &format!("field:{n:08}"), &value(n)])),
    ("set member", |n| words(&["SADD", "set", &format!("member:{n:08}")])),
    ("sorted-set member", |n| words(&["ZADD", "zset", &n.to_string(), &format!("member:{n:08}")])),
    ("list element", |n| words(&["RPUSH", "list", &value(n)])),
    ("stream entry", |n| words(&["XADD", "stream", &format!("{}-0", n + 1), "field", &value(n)])),
];

/// Commands sent before their replies are read.
const BATCH: u64 = 500;

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn value(n: u64) -> String {
    format!("value-{n:010}")
}

/// Measures every kind on a fresh server of each type.
pub(super) fn measure(binary: &Path, scale: &Scale) -> Outcome<Vec<Row>> {
    let engine = ServerBuilder::seawall(binary).args(["--appendonly", "no"]);
    let progress = bar("memory", KINDS.len() as u64);
    let mut rows = Vec::new();
    for (kind, make) in KINDS {
        progress.set_message(kind);
        let redis = growth(&ServerProcess::redis()?, make, scale.elements)?;
        let ours = growth(&engine.start()?, make, scale.elements)?;
        rows.push(Row { kind, redis, ours });
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(rows)
}

fn growth(server: &ServerProcess, make: MakeCommand, elements: u64) -> Outcome<f64> {
    let mut client = server.connect()?;
    let before = resident_bytes(server.pid())?;
    let mut next = 0;
    while next < elements {
        let end = (next + BATCH).min(elements);
        send_batch(&mut client, make, next, end)?;
        next = end;
    }
    let after = resident_bytes(server.pid())?;
    Ok(after.saturating_sub(before) as f64 / elements as f64)
}

fn send_batch(client: &mut Client, make: MakeCommand, from: u64, to: u64) -> Outcome {
    for n in from..to {
        client.send(&make(n))?;
    }
    for _ in from..to {
        let reply = client.read()?;
        if reply.is_error() {
            return Err(Failure::new(format!("the server refused an element: {reply}")));
        }
    }
    Ok(())
}
