//! Measures the time from sending a command to its reply, for a sample of the commands.
//!
//! Reading the clock twice and recording costs about as much as encoding a small command, so only one
//! of [`SAMPLE`] commands of a thread is measured. The number is prime: a caller that repeats the same
//! few commands is measured at each of them.

use std::time::Duration;

use metrics::Histogram;
use redis::{Arg, Cmd};

/// One of this many commands of a thread is measured.
pub(super) const SAMPLE: u64 = 31;
/// Longest name of a command that has a family.
const LONGEST_NAME: usize = 16;

/// Families of commands, by the order of [`Family`].
const FAMILIES: [&str; 9] =
    ["string", "hash", "list", "set", "sorted_set", "stream", "script", "pipeline", "other"];

#[derive(Clone, Copy)]
enum Family {
    String,
    Hash,
    List,
    Set,
    SortedSet,
    Stream,
    Script,
    Pipeline,
    Other,
}

/// The histograms of one client.
pub(super) struct Latency {
    by_family: [Histogram; FAMILIES.len()],
}

impl Latency {
    pub(super) fn new() -> Self {
        let histogram = |family| metrics::histogram!("seawall_command_seconds", "family" => family);
        Latency { by_family: FAMILIES.map(histogram) }
    }

    /// Records a command whose reply took this long.
    #[cold]
    pub(super) fn note(&self, command: &Cmd, took: Duration) {
        self.by_family[family(command) as usize].record(took);
    }

    /// Records a pipeline whose replies took this long.
    #[cold]
    pub(super) fn note_pipeline(&self, took: Duration) {
        self.by_family[Family::Pipeline as usize].record(took);
    }
}

fn family(command: &Cmd) -> Family {
    let Some(Arg::Simple(name)) = command.args_iter().next() else { return Family::Other };
    let mut upper = [0; LONGEST_NAME];
    let Some(upper) = upper.get_mut(..name.len()) else { return Family::Other };
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    match &*upper {
        b"EVAL" | b"EVALSHA" | b"EVAL_RO" | b"EVALSHA_RO" | b"FCALL" | b"FCALL_RO" => {
            Family::Script
        }
        b"GET" | b"SET" | b"MGET" | b"MSET" | b"GETEX" | b"GETDEL" | b"GETRANGE" | b"SETRANGE"
        | b"STRLEN" | b"APPEND" | b"INCR" | b"INCRBY" | b"DECR" | b"DECRBY" | b"SETNX"
        | b"SETEX" | b"PSETEX" | b"GETBIT" | b"SETBIT" | b"BITCOUNT" | b"BITFIELD" => {
            Family::String
        }
        [b'H', ..] if !upper.starts_with(b"HELLO") => Family::Hash,
        [b'X', ..] => Family::Stream,
        [b'Z', ..] | [b'G', b'E', b'O', ..] | [b'B', b'Z', ..] => Family::SortedSet,
        [b'L' | b'R', b'P', b'U' | b'O', ..]
        | b"LRANGE"
        | b"LLEN"
        | b"LINDEX"
        | b"LREM"
        | b"LSET"
        | b"LTRIM"
        | b"LMOVE"
        | b"LINSERT" => Family::List,
        b"SADD" | b"SREM" | b"SCARD" | b"SISMEMBER" | b"SMISMEMBER" | b"SMEMBERS" | b"SPOP"
        | b"SRANDMEMBER" | b"SSCAN" | b"SINTER" | b"SUNION" | b"SDIFF" | b"SMOVE" => Family::Set,
        _ => Family::Other,
    }
}

#[cfg(test)]
mod tests {
    use redis::cmd;

    use super::*;

    #[test]
    fn commands_have_families() {
        let names = [
            ("GET", "string"),
            ("hmget", "hash"),
            ("HELLO", "other"),
            ("LPUSH", "list"),
            ("RPOPLPUSH", "list"),
            ("SADD", "set"),
            ("ZADD", "sorted_set"),
            ("GEOSEARCH", "sorted_set"),
            ("XADD", "stream"),
            ("EVALSHA", "script"),
            ("UNLINK", "other"),
            ("A-NAME-LONGER-THAN-ANY", "other"),
        ];
        for (name, of) in names {
            assert_eq!(FAMILIES[family(&cmd(name)) as usize], of, "{name}");
        }
        assert_eq!(FAMILIES[Family::Pipeline as usize], "pipeline");
    }
}
