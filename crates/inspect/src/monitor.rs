//! Parses lines of `MONITOR`, and finds the keys that their commands read and write.
//!
//! ```text
//! 1339518083.107412 [0 127.0.0.1:60866] "SET" "caf\xc3\xa9" "a \"b\""
//! ```
//!
//! Arguments are quoted, and every byte that is not plain ASCII is escaped, so a line is text and
//! nothing is lost. The positions of keys come from the server's own `COMMAND`. Commands that a
//! script runs have separate lines, so the line of the script itself is ignored.

use std::collections::BTreeMap;

use redis::{FromRedisValue, Value, cmd};
use seawall_client::{client::DedicatedConnection, error::Result};

use super::place::COMMAND_LIMIT;

/// Most arguments of one line that are read.
const MAX_ARGUMENTS: usize = 1_024;

/// Returns the arguments of a line, or `None` if it is not a `MONITOR` line.
pub(super) fn parse(line: &str) -> Option<Vec<Vec<u8>>> {
    let rest = line.split_once("] ")?.1.as_bytes();
    let mut arguments = Vec::new();
    let mut at = 0;
    while at < rest.len() && arguments.len() < MAX_ARGUMENTS {
        if rest[at] != b'"' {
            return None;
        }
        // The end of a very long line is cut off; the arguments before it count.
        let Some((argument, end)) = quoted(rest, at + 1) else { break };
        arguments.push(argument);
        // Skips the space between two arguments.
        at = end + 1;
    }
    (!arguments.is_empty()).then_some(arguments)
}

/// Reads up to the closing quote; also returns the position after it.
fn quoted(text: &[u8], mut at: usize) -> Option<(Vec<u8>, usize)> {
    let mut out = Vec::new();
    loop {
        match *text.get(at)? {
            b'"' => return Some((out, at + 1)),
            b'\\' => {
                at += 1;
                match *text.get(at)? {
                    b'x' => {
                        let digits = std::str::from_utf8(text.get(at + 1..at + 3)?).ok()?;
                        out.push(u8::from_str_radix(digits, 16).ok()?);
                        at += 2;
                    }
                    b'n' => out.push(b'\n'),
                    b'r' => out.push(b'\r'),
                    b't' => out.push(b'\t'),
                    b'a' => out.push(7),
                    b'b' => out.push(8),
                    other => out.push(other),
                }
            }
            byte => out.push(byte),
        }
        at += 1;
    }
}

/// How a command accesses its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
struct Spec {
    access: Access,
    first: i64,
    last: i64,
    step: i64,
}

/// The key positions of commands.
#[derive(Debug, Default)]
pub(super) struct Commands {
    specs: BTreeMap<String, Spec>,
}

impl Commands {
    /// Queries a server.
    pub(super) async fn ask(connection: &mut DedicatedConnection) -> Result<Self> {
        let entries: Vec<Value> = connection.send(&cmd("COMMAND"), COMMAND_LIMIT).await?;
        Ok(Commands { specs: entries.iter().filter_map(read_spec).collect() })
    }

    /// Returns the keys of a command and how it accesses them; no keys for commands without any.
    pub(super) fn keys<'a>(&self, arguments: &'a [Vec<u8>]) -> (Access, Vec<&'a [u8]>) {
        let Some(name) = arguments.first() else { return (Access::Read, Vec::new()) };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let word = |at: usize| arguments.get(at).map(|word| word.to_ascii_lowercase());
        match name.as_str() {
            "eval" | "evalsha" | "eval_ro" | "evalsha_ro" | "fcall" | "fcall_ro" => {
                return (Access::Read, Vec::new());
            }
            "xread" | "xreadgroup" => {
                // The stream names are followed by the same number of ids.
                let start =
                    (1..arguments.len()).find(|&at| word(at).as_deref() == Some(b"streams"));
                let streams = start.map_or(&[][..], |start| &arguments[start + 1..]);
                let half = streams[..streams.len() / 2].iter().map(Vec::as_slice).collect();
                let access = if name == "xread" { Access::Read } else { Access::Write };
                return (access, half);
            }
            "object" | "memory" | "xinfo" | "xgroup" => {
                let access = if name == "xgroup" { Access::Write } else { Access::Read };
                return (access, arguments.get(2).map(Vec::as_slice).into_iter().collect());
            }
            _ => {}
        }
        let Some(spec) = self.specs.get(&name) else { return (Access::Read, Vec::new()) };
        let count = arguments.len() as i64;
        let last = if spec.last < 0 { count + spec.last } else { spec.last };
        let mut keys = Vec::new();
        let mut at = spec.first;
        while spec.first > 0 && spec.step > 0 && at <= last && at < count {
            keys.push(arguments[at as usize].as_slice());
            at += spec.step;
        }
        (spec.access, keys)
    }
}

fn read_spec(entry: &Value) -> Option<(String, Spec)> {
    let Value::Array(entry) = entry else { return None };
    let [name, _, flags, first, last, step, ..] = entry.as_slice() else { return None };
    let number = |value: &Value| i64::from_redis_value_ref(value).ok();
    let flags: Vec<String> = Vec::from_redis_value_ref(flags).ok()?;
    let access =
        if flags.iter().any(|flag| flag == "write") { Access::Write } else { Access::Read };
    let spec = Spec { access, first: number(first)?, last: number(last)?, step: number(step)? };
    Some((String::from_redis_value_ref(name).ok()?.to_ascii_lowercase(), spec))
}

/// Finds heavy keys in a stream of accesses that is too long to count in full.
///
/// A key with more than one part in [`Counts::LIMIT`] of all accesses is always found (Misra and
/// Gries).
#[derive(Debug, Default)]
pub(super) struct Counts {
    held: BTreeMap<Box<[u8]>, Count>,
}

/// Number of uses of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Remaining weight after other keys were evicted.
    weight: u64,
}

impl Counts {
    /// Keys that are counted at a time.
    pub(super) const LIMIT: usize = 20_000;

    pub(super) fn add(&mut self, key: &[u8], access: Access) {
        if !self.held.contains_key(key) {
            if self.held.len() >= Self::LIMIT {
                self.held.retain(|_, count| {
                    count.weight -= 1;
                    count.weight > 0
                });
                return;
            }
            self.held.insert(key.into(), Count::default());
        }
        if let Some(count) = self.held.get_mut(key) {
            count.weight += 1;
            match access {
                Access::Read => count.reads += 1,
                Access::Write => count.writes += 1,
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Count)> {
        self.held.iter().map(|(key, count)| (&**key, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands() -> Commands {
        let spec = |access, first, last, step| Spec { access, first, last, step };
        let specs = [
            ("get", spec(Access::Read, 1, 1, 1)),
            ("mset", spec(Access::Write, 1, -1, 2)),
            ("ping", spec(Access::Read, 0, 0, 0)),
        ];
        Commands { specs: specs.map(|(name, spec)| (name.to_owned(), spec)).into() }
    }

    #[test]
    fn lines_are_read_byte_for_byte() {
        let line = r#"1339518083.107412 [0 127.0.0.1:60866] "SET" "a \"b\"\\\n\x00\xff" """#;
        let parsed = parse(line).expect("it is a line");
        assert_eq!(parsed, [b"SET".to_vec(), b"a \"b\"\\\n\x00\xff".to_vec(), b"".to_vec()]);
        for wrong in ["OK", "1 [0 lua] ", "1 [0 x] \"open", "1 [0 x] \"\\x4\"", "1 [0 x] bare"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn keys_are_where_the_server_says() {
        let commands = commands();
        let keys = |text: &str| {
            let line = parse(&format!("1.0 [0 x] {text}")).expect("a line");
            let (access, keys) = commands.keys(&line);
            (
                access,
                keys.into_iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect(),
            )
        };
        let is = |access, keys: &[&str]| -> (Access, Vec<String>) {
            (access, keys.iter().map(|&key| key.to_owned()).collect())
        };
        assert_eq!(keys(r#""get" "a""#), is(Access::Read, &["a"]));
        assert_eq!(keys(r#""MSET" "a" "1" "b" "2""#), is(Access::Write, &["a", "b"]));
        assert_eq!(keys(r#""PING""#), is(Access::Read, &[]));
        assert_eq!(keys(r#""xread" "STREAMS" "s" "t" "0" "0""#), is(Access::Read, &["s", "t"]));
        assert_eq!(keys(r#""object" "freq" "a""#), is(Access::Read, &["a"]));
        assert_eq!(keys(r#""unknown" "a""#), is(Access::Read, &[]));
    }

    #[test]
    fn a_heavy_key_is_never_forgotten_however_many_others_there_are() {
        let mut counts = Counts::default();
        for step in 0..(Counts::LIMIT * 10) {
            counts.add(format!("once:{step}").as_bytes(), Access::Read);
            if step % 100 == 0 {
                counts.add(b"hot", Access::Write);
            }
        }
        assert!(counts.held.len() <= Counts::LIMIT);
        let heaviest = counts.iter().max_by_key(|(_, count)| count.reads + count.writes);
        assert_eq!(heaviest.map(|(key, _)| key), Some(&b"hot"[..]));
    }
}
