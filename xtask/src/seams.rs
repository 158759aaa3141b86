//! Tests that the toolkit takes time, random numbers and orders only from where a simulator can provide
//! them, so that a run can be repeated from its seed.

use std::{
    fs,
    path::{Path, PathBuf},
};

const CRATES: [&str; 9] =
    ["client", "resilience", "cache", "lock", "jobs", "stock", "social", "inspect", "seawall"];
/// Files that provide time and random numbers.
const SOURCES: [&str; 2] = ["resilience/src/clock.rs", "resilience/src/random.rs"];
/// What no other file of production code uses.
const BYPASSES: [&str; 7] = [
    "tokio::time",
    "Instant::now",
    "SystemTime::now",
    "rand::",
    "hash::RandomState",
    "thread_rng",
    "fastrand",
];
/// Files that may read the machine's date, and why.
const DATES: [(&str, &str); 1] = [(
    "client/src/testing/test_server.rs",
    "a test server starts at today's date, and then its manual clock counts",
)];
/// Collections whose order differs from run to run.
const UNORDERED: [&str; 2] = ["HashMap", "HashSet"];
/// Files that may use them, and why no order is seen. Elsewhere use a `BTreeMap` or a `BTreeSet`.
const ORDER_UNSEEN: [(&str, &str); 16] = [
    ("cache/src/audit/work.rs", "looked up; the caller's keys have no order"),
    ("cache/src/cache.rs", "what a loader returns, looked up by key"),
    ("cache/src/hotkey/board.rs", "looked up on every read; listed in the order of keys"),
    ("cache/src/hotkey/fleet.rs", "looked up; a pass treats each window alike"),
    ("cache/src/load/single_flight.rs", "looked up on every load"),
    ("cache/src/loading.rs", "what a loader returns, looked up by key"),
    ("cache/src/read/batch.rs", "looked up; a batch keeps the order of its keys"),
    ("cache/src/tier/breakers.rs", "looked up on every call"),
    ("cache/src/tier/remote_tags.rs", "looked up"),
    ("client/src/client/pubsub.rs", "looked up for every message; walked in the order of names"),
    ("inspect/src/seen.rs", "looked up; its hasher has no seed"),
    ("jobs/src/queue/list_queue/consumer.rs", "looked up"),
    ("jobs/src/stream/in_flight.rs", "looked up; renewed in the order of entries"),
    ("jobs/src/stream/status.rs", "fields of a reply, looked up by name"),
    ("lock/src/line.rs", "looked up"),
    ("seawall/src/limit/local.rs", "looked up on every request; its hasher has no seed"),
];

fn files(below: &Path, kind: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(below).expect("a folder").map(|entry| entry.expect("an entry").path())
    {
        if entry.is_dir() {
            files(&entry, kind, found);
        } else if entry.extension().is_some_and(|extension| extension == kind) {
            found.push(entry);
        }
    }
}

/// Returns the toolkit's files of this kind with their paths below `crates`.
fn toolkit(kind: &str) -> Vec<(String, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut found = Vec::new();
    CRATES.iter().for_each(|name| files(&crates.join(name).join("src"), kind, &mut found));
    found.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).expect("text");
    let name = |path: &PathBuf| path.strip_prefix(&crates).expect("below").display().to_string();
    found.iter().map(|path| (name(path), text(path))).collect()
}

/// Returns the code before the tests of a file, without comments.
fn production(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let tests = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(super) mod tests {"];
    let end = tests.iter().find_map(|tests| text.find(tests)).unwrap_or(text.len());
    (1..).zip(text[..end].lines()).filter(|(_, line)| !line.trim_start().starts_with("//"))
}

/// Returns the lines of production code with one of these words, outside these files.
fn lines_with(words: &[&str], outside: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in toolkit("rs") {
        if outside.contains(&&*name) || name.ends_with("/tests.rs") {
            continue;
        }
        for (number, line) in production(&text) {
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    found
}

/// Fails for a file that is excepted and no longer needs it.
fn check_needed(words: &[&str], files: &[&str]) {
    let used = lines_with(words, &[]);
    for file in files {
        let needs = used.iter().any(|line| line.starts_with(&format!("{file}:")));
        assert!(needs, "{file} uses none of {words:?}: take it off the list");
    }
}

#[test]
fn no_code_takes_time_or_random_numbers_past_the_handle() {
    let dates = DATES.map(|(file, _)| file);
    let found = lines_with(&BYPASSES, &[&SOURCES[..], &dates].concat());
    assert!(found.is_empty(), "use the handle's clock or randomness:\n{}", found.join("\n"));
    check_needed(&["SystemTime::now"], &dates);
}

#[test]
fn no_code_depends_on_the_order_of_a_hash() {
    let excepted = ORDER_UNSEEN.map(|(file, _)| file);
    let found = lines_with(&UNORDERED, &excepted);
    assert!(
        found.is_empty(),
        "use an ordered collection, or say in ORDER_UNSEEN why no order is seen:\n{}",
        found.join("\n")
    );
    check_needed(&UNORDERED, &excepted);
}

#[test]
fn every_select_is_biased() {
    for (name, text) in toolkit("rs") {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (number, pair) in (1..).zip(lines.windows(2)) {
            let is_biased = !pair[0].contains("select! {") || pair[1] == "biased;";
            assert!(is_biased, "{name}:{number}: tokio would draw the order of this select");
        }
    }
}

#[test]
fn scripts_read_the_time_from_one_fragment() {
    for (name, text) in toolkit("lua") {
        let asks = text.contains("'TIME'");
        assert_eq!(asks, name == "client/src/script/time.lua", "{name}: see Script::with_time");
    }
}
