//! What a command on a shared connection must not be, and the key that decides its server.

use redis::{Arg, Cmd};

/// Commands that change the connection for its other users.
const STATEFUL: &[&str] = &[
    "AUTH",
    "ASKING",
    "DISCARD",
    "EXEC",
    "HELLO",
    "MULTI",
    "QUIT",
    "READONLY",
    "READWRITE",
    "RESET",
    "SELECT",
    "UNWATCH",
    "WATCH",
];
/// Commands whose replies never end.
const ENDLESS: &[&str] = &[
    "MONITOR",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
];
/// Commands that wait for something.
const BLOCKING: &[&str] = &[
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "WAIT",
    "WAITAOF",
];
/// Commands without a key, which any server may answer.
const KEYLESS: &[&str] = &[
    "ACL",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "DBSIZE",
    "ECHO",
    "FLUSHALL",
    "FLUSHDB",
    "FUNCTION",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "LOLWUT",
    "MODULE",
    "PING",
    "PUBLISH",
    "PUBSUB",
    "RANDOMKEY",
    "ROLE",
    "SAVE",
    "SCAN",
    "SCRIPT",
    "SHUTDOWN",
    "SLOWLOG",
    "SWAPDB",
    "TIME",
];
/// Commands whose first key is their second argument.
const SECOND: &[&str] = &["BITOP", "DEBUG", "MEMORY", "OBJECT", "XGROUP", "XINFO"];
/// Commands whose first argument is the number of keys.
const COUNTED: &[&str] =
    &["LMPOP", "SINTERCARD", "ZDIFF", "ZINTER", "ZINTERCARD", "ZMPOP", "ZUNION"];
/// Scripts: the second argument is the number of keys.
const SCRIPTS: &[&str] = &["EVAL", "EVALSHA", "EVALSHA_RO", "EVAL_RO", "FCALL", "FCALL_RO"];

fn words(command: &Cmd) -> Vec<&[u8]> {
    let word = |arg| match arg {
        Arg::Simple(bytes) => bytes,
        Arg::Cursor => &b"0"[..],
        _ => &[],
    };
    command.args_iter().map(word).collect()
}

fn is_one_of(name: &[u8], list: &[&str]) -> bool {
    list.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Returns why a command cannot be sent on a shared connection.
pub(super) fn refusal(command: &Cmd) -> Option<String> {
    let words = words(command);
    let name = words.first()?;
    let says = |word: &str| words.iter().any(|arg| arg.eq_ignore_ascii_case(word.as_bytes()));
    let reads_streams = is_one_of(name, &["XREAD", "XREADGROUP"]);
    let why = if is_one_of(name, STATEFUL) {
        "would change the connection for its other users"
    } else if is_one_of(name, ENDLESS) {
        "would turn the connection into a subscription; see Client::pubsub"
    } else if is_one_of(name, BLOCKING) || reads_streams && says("BLOCK") {
        "would block the connection for its other users; see Client::dedicated"
    } else if is_one_of(name, &["CLIENT"]) && (says("REPLY") || says("TRACKING") || says("CACHING"))
    {
        "would change the connection for its other users"
    } else {
        return None;
    };
    Some(format!("{} {why}", String::from_utf8_lossy(name).to_ascii_uppercase()))
}

/// Returns the first key of a command; empty if it has none.
pub(super) fn key_of(command: &Cmd) -> Vec<u8> {
    let words = words(command);
    let Some(name) = words.first() else { return Vec::new() };
    let position = if is_one_of(name, KEYLESS) {
        None
    } else if is_one_of(name, SECOND) || is_one_of(name, COUNTED) {
        Some(2)
    } else if is_one_of(name, SCRIPTS) {
        words.get(2).is_some_and(|count| *count != b"0").then_some(3)
    } else if is_one_of(name, &["XREAD", "XREADGROUP"]) {
        words.iter().position(|arg| arg.eq_ignore_ascii_case(b"STREAMS")).map(|at| at + 1)
    } else {
        Some(1)
    };
    position.and_then(|at| words.get(at)).map(|key| key.to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(text: &str) -> Cmd {
        let mut words = text.split(' ');
        let mut command = redis::cmd(words.next().expect("a name"));
        for word in words {
            command.arg(word);
        }
        command
    }

    #[test]
    fn the_key_is_where_the_command_has_it() {
        for (text, key) in [
            ("GET k", "k"),
            ("get k", "k"),
            ("MSET k 1 l 2", "k"),
            ("PING", ""),
            ("SCRIPT LOAD x", ""),
            ("EVAL code 1 k a", "k"),
            ("EVALSHA digest 0 a", ""),
            ("OBJECT ENCODING k", "k"),
            ("ZUNION 2 k l", "k"),
            ("BITOP AND k l m", "k"),
            ("XREAD COUNT 2 STREAMS k 0", "k"),
            ("XREADGROUP GROUP g c STREAMS k >", "k"),
            ("GET", ""),
        ] {
            assert_eq!(key_of(&command(text)), key.as_bytes(), "{text}");
        }
    }

    #[test]
    fn what_others_would_notice_is_refused() {
        for text in [
            "SELECT 1",
            "blpop k 0",
            "SUBSCRIBE c",
            "XREAD BLOCK 0 STREAMS k 0",
            "CLIENT REPLY OFF",
        ] {
            assert!(refusal(&command(text)).is_some(), "{text}");
        }
        for text in ["GET SELECT", "XREAD STREAMS k 0", "CLIENT LIST", "PUBLISH c m"] {
            assert_eq!(refusal(&command(text)), None, "{text}");
        }
    }
}
