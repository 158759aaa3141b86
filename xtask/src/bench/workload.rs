//! What is measured: one command each, as redis-benchmark sends it.

use std::process::Command;

/// A command under load.
pub(super) struct Workload {
    pub(super) name: &'static str,
    kind: Kind,
    /// What to run before, without measuring, so that there is something to work on.
    pub(super) fill: Option<&'static str>,
}

enum Kind {
    /// One of redis-benchmark's own tests.
    BuiltIn(&'static str),
    /// A command of our own; `__rand_int__` becomes a number.
    Custom(&'static [&'static str]),
    /// `EVALSHA` of [`SCRIPT`].
    Script,
}

/// What the script workload runs.
pub(super) const SCRIPT: &str = "return redis.call('GET', KEYS[1])";

/// Everything that is measured, in the order of the page.
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

/// How redis-benchmark is called; these words are shown on the page.
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
