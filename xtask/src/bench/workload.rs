//! The workloads: one command each, as redis-benchmark sends it.

use std::process::Command;

/// A command under load.
pub(super) struct Workload {
    pub(super) name: &'static str,
    kind: Kind,
    /// Command to run first, without measuring, so that there is data to work on.
    pub(super) fill: Option<&'static str>,
}

enum Kind {
    /// One of redis-benchmark's own tests.
    BuiltIn(&'static str),
    /// A custom command; `__rand_int__` becomes a number.
    Custom(&'static [&'static str]),
    /// `EVALSHA` of [`SCRIPT`].
    Script,
}

/// The script of the script workload.
pub(super) const SCRIPT: &str = "return redis.call('GET', KEYS[1])";

/// All workloads, in the order of the page.
pub(super) const WORKLOADS: [Workload; 14] = [
    built_in("ping", "ping_mbulk", None),
    built_in("set", "set", None),
    built_in("get", "get", Some("set")),
    built_in("incr", "incr", None),
    built_in("lpush", "lpush", None),
    built_in("rpush", "rpush", None),
    built_in("lpop", "lpop", Some("lpush")),
    built_in("sadd", "sadd", None),
    built_in("hset", "hset", None),
    built_in("zadd", "zadd", None),
    built_in("lrange_100", "lrange_100", Some("lpush")),
    built_in("mset", "mset", None),
    Workload {
        name: "xadd",
        kind: Kind::Custom(&[
            "XADD",
            "events",
            "MAXLEN",
            "~",
            "100000",
            "*",
            "field",
            "__rand_int__",
        ]),
        fill: None,
    },
    Workload { name: "evalsha", kind: Kind::Script, fill: Some("set") },
];

const fn built_in(name: &'static str, test: &'static str, fill: Option<&'static str>) -> Workload {
    Workload { name, kind: Kind::BuiltIn(test), fill }
}

/// Arguments of redis-benchmark; they are shown on the page.
pub(super) const COMMON: [&str; 6] = ["-c", "50", "-r", "100000", "-d", "100"];

impl Workload {
    /// The command line for this workload.
    pub(super) fn command(&self, port: u16, count: u64, pipeline: u32, sha: &str) -> Command {
        let mut command = base(port, count, pipeline);
        match self.kind {
            Kind::BuiltIn(test) => command.args(["-t", test]),
            Kind::Custom(words) => command.args(words),
            Kind::Script => command.args(["EVALSHA", sha, "1", "key:__rand_int__"]),
        };
        command
    }

    /// The command line that fills the server beforehand.
    pub(super) fn fill_command(&self, port: u16, count: u64) -> Option<Command> {
        let test = self.fill?;
        let mut command = base(port, count, 16);
        command.args(["-t", test]);
        Some(command)
    }
}

fn base(port: u16, count: u64, pipeline: u32) -> Command {
    let mut command = Command::new("redis-benchmark");
    command.args(["-p", &port.to_string(), "-n", &count.to_string(), "-P", &pipeline.to_string()]);
    command.args(COMMON).arg("--csv");
    command
}
