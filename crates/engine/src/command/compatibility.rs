//! docs/compatibility.md, generated from the command table.

use std::fmt::Write;

use super::spec::flag;
use super::table::TABLE;

/// Commands of Redis 7.0 that are not in the table, and why.
const ABSENT: [(&str, &str); 9] = [
    ("`DUMP`, `RESTORE`, `RESTORE-ASKING`, `MIGRATE`", "values in Redis' file format come later"),
    ("`FUNCTION DUMP`, `FUNCTION RESTORE`", "as above"),
    ("`LATENCY`", "comes later"),
    ("`ACL`", "one password is all there is so far"),
    ("`MODULE`", "there is no C interface to load modules into"),
    ("`REPLICAOF`, `SLAVEOF`, `SYNC`, `PSYNC`, `REPLCONF`, `FAILOVER`", "one machine is the scope"),
    ("`ASKING`", "no cluster mode yet; `CLUSTER` answers that it is off"),
    ("`CLUSTER` beyond its questions", "as above"),
    ("`MEMORY MALLOC-STATS`, `MEMORY PURGE`", "answer, but the allocator is the host's"),
];

/// The page that lists every command, as Markdown.
#[must_use]
pub fn compatibility_page() -> String {
    let mut page = String::from(
        "# Commands\n\n\
         Made from the engine's command table by `cargo xtask docs`; do not edit.\n\n\
         Behaviour, replies and error texts follow Redis 7.0.15; every command is compared with a \
         real redis-server by transcripts and by random sequences (`cargo xtask soak`). Differences \
         that are accepted are listed, each with its reason, in \
         `crates/testkit/src/differential/accepted.txt`.\n\n",
    );
    let all = TABLE.iter().flat_map(|(_, commands)| *commands);
    let subs: usize = all.clone().map(|command| command.subs.len()).sum();
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{} commands with {subs} subcommands.\n", all.count());
    for (group, commands) in TABLE {
        let _ = writeln!(page, "## {}\n", group.name());
        page.push_str("| Command | Since | Kind | Subcommands |\n| --- | --- | --- | --- |\n");
        for command in *commands {
            let kind = match command {
                c if c.has(flag::WRITE) => "write",
                c if c.has(flag::READONLY) => "read",
                _ => "",
            };
            let subs: Vec<String> =
                command.subs.iter().map(|sub| sub.name.to_ascii_uppercase()).collect();
            let name = command.name.to_ascii_uppercase();
            let _ = writeln!(page, "| {name} | {} | {kind} | {} |", command.since, subs.join(", "));
        }
        page.push('\n');
    }
    page.push_str("## Not there\n\n| Command | Why |\n| --- | --- |\n");
    for (commands, why) in ABSENT {
        let _ = writeln!(page, "| {commands} | {why} |");
    }
    page
}
