//! What a command on a shared connection must not be, and the key that decides its server.

use redis::{Arg, Cmd};

/// Commands that change the connection for its other users, or end it.
const STATEFUL: &[&str] = &[
    "AUTH",
    "ASKING",
    "DISCARD",
    "EXEC",
    "HELLO",
    "HOST:",
    "MULTI",
    "POST",
    "QUIT",
    "READONLY",
    "READWRITE",
    "RESET",
    "SELECT",
    "UNWATCH",
    "WATCH",
];
/// Commands that have no reply, or replies without end: others would get the wrong ones.
const UNANSWERED: &[&str] = &[
    "MONITOR",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "REPLCONF",
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
/// What `CLIENT` may be asked: everything else is about the connection itself.
const OF_CLIENT: &[&str] = &[
    "GETNAME",
    "GETREDIR",
    "HELP",
    "ID",
    "INFO",
    "KILL",
    "LIST",
    "PAUSE",
    "TRACKINGINFO",
    "UNBLOCK",
    "UNPAUSE",
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
    let second = words.get(1).copied().unwrap_or_default();
    let why = if is_one_of(name, STATEFUL)
        || is_one_of(name, &["CLIENT"]) && !is_one_of(second, OF_CLIENT)
        || is_one_of(name, &["SCRIPT"]) && is_one_of(second, &["DEBUG"])
    {
        "would change the connection for its other users"
    } else if is_one_of(name, UNANSWERED) {
        "has not one reply; for subscriptions see Client::pubsub"
    } else if is_one_of(name, BLOCKING) || blocks(&words) {
        "would block the connection for its other users; see Client::dedicated"
    } else {
        return None;
    };
    Some(format!("{} {why}", String::from_utf8_lossy(name).to_ascii_uppercase()))
}

/// Returns `true` if a read of streams has the option `BLOCK`. Streams, groups and consumers may be
/// called so, too.
fn blocks(words: &[&[u8]]) -> bool {
    let options = match words.first() {
        Some(name) if is_one_of(name, &["XREAD"]) => 1,
        Some(name) if is_one_of(name, &["XREADGROUP"]) => 4,
        _ => return false,
    };
    let options = words.iter().skip(options);
    let mut options = options.take_while(|word| !is_one_of(word, &["STREAMS"]));
    options.any(|word| is_one_of(word, &["BLOCK"]))
}

/// Returns `true` if every server of a Cluster must get a command: scripts are kept by each.
pub(super) fn is_for_all(command: &Cmd) -> bool {
    let words = words(command);
    let is = |at: usize, list: &[&str]| words.get(at).is_some_and(|word| is_one_of(word, list));
    is(0, &["SCRIPT"]) && is(1, &["FLUSH", "LOAD"])
}

/// Returns the first key of a command; empty if it has none.
pub(super) fn key_of(command: &Cmd) -> Vec<u8> {
    let words = words(command);
    let Some(name) = words.first() else { return Vec::new() };
    let position = if is_one_of(name, KEYLESS) {
        None
    } else if is_one_of(name, SECOND) || is_one_of(name, COUNTED) {
        Some(2)
    } else if is_one_of(name, &["MIGRATE"]) {
        Some(3)
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
            "XREADGROUP GROUP g c COUNT 1 block 5 STREAMS k >",
            "CLIENT REPLY OFF",
            "CLIENT SETNAME bob",
            "client no-evict on",
            "CLIENT",
            "REPLCONF ACK 0",
            "replconf GETACK *",
            "SCRIPT DEBUG YES",
            "POST /",
        ] {
            assert!(refusal(&command(text)).is_some(), "{text}");
        }
        for text in [
            "GET SELECT",
            "XREAD STREAMS k 0",
            "XREAD COUNT 1 STREAMS BLOCK 0",
            "XREADGROUP GROUP BLOCK block STREAMS block >",
            "CLIENT LIST",
            "client id",
            "SCRIPT LOAD x",
            "PUBLISH c m",
        ] {
            assert_eq!(refusal(&command(text)), None, "{text}");
        }
    }
}
