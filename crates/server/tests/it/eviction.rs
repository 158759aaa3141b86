//! The eight eviction policies, each beside redis-server: which keys may go, which go first, and what
//! is answered when nothing may go.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    thread,
    time::Duration,
};

use crate::redis_server::Redis;
use crate::support::{client, request, serve};

/// Keys of each kind at the start.
const KEYS: usize = 400;
/// Keys that are written when memory is full.
const MORE: usize = 300;
/// LRU counts in seconds.
const AGE: Duration = Duration::from_millis(2200);

struct Conversation(BufReader<TcpStream>);

impl Conversation {
    /// The replies to many requests, each as its first line or its text.
    fn ask(&mut self, requests: &[Vec<String>]) -> Vec<String> {
        requests
            .chunks(100)
            .flat_map(|some| {
                let bytes: Vec<u8> = some
                    .iter()
                    .flat_map(|words| {
                        request(&words.iter().map(String::as_str).collect::<Vec<_>>())
                    })
                    .collect();
                self.0.get_mut().write_all(&bytes).expect("the server reads");
                some.iter().map(|_| self.reply()).collect::<Vec<_>>()
            })
            .collect()
    }

    fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the server answers");
        let line = line.trim_end().to_owned();
        let Some(length) = line.strip_prefix('$') else { return line };
        let Ok(length) = length.parse::<usize>() else { return "nil".into() };
        let mut body = vec![0; length + 2];
        self.0.read_exact(&mut body).expect("the server answers");
        String::from_utf8_lossy(&body[..length]).into_owned()
    }

    fn one(&mut self, words: &[&str]) -> String {
        self.ask(&[words.iter().map(|word| (*word).to_owned()).collect()]).remove(0)
    }

    fn info(&mut self, field: &str) -> u64 {
        let text = self.one(&["INFO", "all"]);
        let line = text.lines().find(|line| line.split(':').next() == Some(field));
        line.and_then(|line| line.split(':').nth(1)?.parse().ok()).expect("a number")
    }

    fn alive(&mut self, kind: &str) -> usize {
        let asks: Vec<_> = (0..KEYS).map(|n| words(&["EXISTS", &format!("{kind}:{n}")])).collect();
        self.ask(&asks).iter().filter(|reply| *reply == ":1").count()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// What was seen of one policy.
#[derive(Debug)]
struct Seen {
    hot: usize,
    cold: usize,
    permanent: usize,
    refused: usize,
    evicted: u64,
    /// After writing so much more that nothing evictable is left.
    refused_in_the_end: bool,
}

/// Fills memory under a policy, writes on, and looks at what is left.
fn play(stream: TcpStream, policy: &str) -> Seen {
    let mut talk = Conversation(BufReader::new(stream));
    let value = "x".repeat(1000);
    assert_eq!(talk.one(&["CONFIG", "SET", "maxmemory-policy", policy]), "+OK");
    assert_eq!(talk.one(&["CONFIG", "SET", "maxmemory-samples", "10"]), "+OK");
    let volatile = policy.starts_with("volatile");
    let lifetime = |kind: &str| match kind {
        "permanent" => None,
        "cold" if policy == "volatile-ttl" => Some("5000"),
        _ => Some("90000"),
    };
    let mut load = Vec::new();
    for n in 0..KEYS {
        for kind in ["hot", "cold", "permanent"] {
            let key = format!("{kind}:{n}");
            let mut set = words(&["SET", &key, &value]);
            if let Some(seconds) = lifetime(kind) {
                set.extend(words(&["EX", seconds]));
            }
            // What may not go is only there under the policies that tell the two apart.
            if volatile || kind != "permanent" {
                load.push(set);
            }
        }
    }
    assert!(talk.ask(&load).iter().all(|reply| reply == "+OK"));
    let uses = match policy {
        "allkeys-lru" | "volatile-lru" => {
            thread::sleep(AGE);
            1
        }
        "allkeys-lfu" | "volatile-lfu" => 20,
        _ => 0,
    };
    for _ in 0..uses {
        let gets: Vec<_> = (0..KEYS).map(|n| words(&["GET", &format!("hot:{n}")])).collect();
        talk.ask(&gets);
    }
    let bound = talk.info("used_memory") + 20_000;
    assert_eq!(talk.one(&["CONFIG", "SET", "maxmemory", &bound.to_string()]), "+OK");
    let write = |from: usize, count: usize| -> Vec<Vec<String>> {
        (from..from + count).map(|n| words(&["SET", &format!("new:{n}"), &value])).collect()
    };
    let refused =
        talk.ask(&write(0, MORE)).iter().filter(|reply| reply.starts_with("-OOM")).count();
    let (hot, cold) = (talk.alive("hot"), talk.alive("cold"));
    let evicted = talk.info("evicted_keys");
    let more = talk.ask(&write(MORE, 3 * KEYS));
    let permanent = talk.alive("permanent");
    Seen {
        hot,
        cold,
        permanent,
        refused,
        evicted,
        refused_in_the_end: more.last().is_some_and(|reply| reply.starts_with("-OOM")),
    }
}

/// What must hold on both servers.
fn judge(seen: &Seen, policy: &str, who: &str) {
    let shown = format!("{policy} on {who}: {seen:?}");
    if policy == "noeviction" {
        assert!(seen.refused > 0 && seen.evicted == 0, "{shown}");
        assert_eq!((seen.hot, seen.cold), (KEYS, KEYS), "{shown}");
        assert!(seen.refused_in_the_end, "{shown}");
        return;
    }
    let (hot_gone, cold_gone) = (KEYS - seen.hot, KEYS - seen.cold);
    assert!(hot_gone + cold_gone > MORE / 2, "{shown}");
    assert_eq!(seen.refused, 0, "{shown}");
    if policy.ends_with("random") {
        assert!(hot_gone * 4 > cold_gone && cold_gone * 4 > hot_gone, "{shown}");
    } else {
        assert!(cold_gone > 9 * hot_gone, "{shown}");
    }
    if policy.starts_with("volatile") {
        assert_eq!(seen.permanent, KEYS, "{shown}");
        assert!(seen.refused_in_the_end, "{shown}");
    } else {
        assert!(!seen.refused_in_the_end, "{shown}");
    }
}

fn compare(policy: &str) {
    let redis = Redis::start(&[]);
    judge(&play(redis.client(), policy), policy, "redis-server");
    let server = serve();
    judge(&play(client(&server), policy), policy, "seawall");
}

#[test]
fn noeviction_refuses() {
    compare("noeviction");
}

#[test]
fn allkeys_lru_takes_the_longest_unused() {
    compare("allkeys-lru");
}

#[test]
fn allkeys_lfu_takes_the_least_used() {
    compare("allkeys-lfu");
}

#[test]
fn allkeys_random_takes_any() {
    compare("allkeys-random");
}

#[test]
fn volatile_lru_takes_the_longest_unused_with_a_lifetime() {
    compare("volatile-lru");
}

#[test]
fn volatile_lfu_takes_the_least_used_with_a_lifetime() {
    compare("volatile-lfu");
}

#[test]
fn volatile_random_takes_any_with_a_lifetime() {
    compare("volatile-random");
}

#[test]
fn volatile_ttl_takes_what_ends_first() {
    compare("volatile-ttl");
}

/// Candidates that were found under one policy say nothing under another: a key without a lifetime
/// never goes under a volatile policy, although it waits among the candidates of the one before.
#[test]
fn a_change_of_policy_forgets_the_candidates() {
    for (who, stream) in [("redis-server", None), ("seawall", Some(serve()))]
        .map(|(who, server)| (who, server.map_or_else(|| Err(Redis::start(&[])), Ok)))
    {
        let stream = match &stream {
            Ok(server) => client(server),
            Err(redis) => redis.client(),
        };
        let mut talk = Conversation(BufReader::new(stream));
        let value = "x".repeat(1000);
        let all: Vec<_> =
            (0..KEYS).map(|n| words(&["SET", &format!("permanent:{n}"), &value])).collect();
        talk.ask(&all);
        let timed: Vec<_> =
            (0..10).map(|n| words(&["SET", &format!("v:{n}"), "x", "EX", "9000"])).collect();
        talk.ask(&timed);
        talk.one(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
        let bound = talk.info("used_memory") - 2_000;
        talk.one(&["CONFIG", "SET", "maxmemory", &bound.to_string()]);
        talk.ask(&[words(&["SET", "x", "1"])]);
        talk.one(&["CONFIG", "SET", "maxmemory-policy", "volatile-lru"]);
        let left = talk.alive("permanent");
        let bound = talk.info("used_memory") - 30_000;
        talk.one(&["CONFIG", "SET", "maxmemory", &bound.to_string()]);
        talk.ask(&vec![words(&["SET", "y", &value]); 50]);
        assert_eq!(talk.alive("permanent"), left, "{who}");
    }
}
