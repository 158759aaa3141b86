//! Tests that the toolkit takes time and random numbers only from where a simulator can provide them.

use std::{
    fs,
    path::{Path, PathBuf},
};

const CRATES: [&str; 9] =
    ["client", "resilience", "cache", "lock", "jobs", "stock", "social", "inspect", "seawall"];
/// Files that provide time and random numbers.
const SOURCES: [&str; 2] = ["resilience/src/clock.rs", "resilience/src/random.rs"];
/// What no other file of production code uses.
const BYPASSES: [&str; 5] =
    ["tokio::time", "rand::", "hash::RandomState", "thread_rng", "fastrand"];

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

#[test]
fn no_code_takes_time_or_random_numbers_past_the_handle() {
    let mut found = Vec::new();
    for (name, text) in toolkit("rs") {
        if SOURCES.contains(&&*name) || name.ends_with("/tests.rs") {
            continue;
        }
        for (number, line) in production(&text) {
            if BYPASSES.iter().any(|bypass| line.contains(bypass)) {
                found.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(found.is_empty(), "use the handle's clock or randomness:\n{}", found.join("\n"));
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
