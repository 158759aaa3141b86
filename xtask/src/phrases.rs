//! Finds phrases that make documentation hard to read.
//!
//! Documentation here is plain technical English: a verb first, a real subject, the field's own words. The
//! list holds what crept in before and reads like a riddle to an engineer who is new here. It covers pages
//! and comments; code, strings and names of tests are not looked at.

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::{Failure, Outcome};
use crate::shell::root;

/// Phrases that are not used, in lower case, as whole words.
const BANNED: [&str; 11] = [
    "somebody",
    "whoever",
    "nobody",
    "everybody",
    "what it came to",
    "of one's own",
    "so many of them",
    "another life",
    "is thought to",
    "how manieth",
    "boarding card",
];

/// Where pages and comments are looked at.
const PAGES: [&str; 6] =
    ["README.md", "CONTRIBUTING.md", "SECURITY.md", "UPGRADING.md", "ARCHITECTURE.md", "docs"];

/// Fails with every place that uses a banned phrase.
pub(crate) fn check() -> Outcome {
    let found = find(&root())?;
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} places are not plain technical English; say who does what:\n  {}",
        found.len(),
        found.join("\n  ")
    )))
}

/// `FILE:LINE: PHRASE` for every use.
fn find(root: &Path) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for page in PAGES {
        visit(&root.join(page), &mut |path, text| {
            if path.extension().is_some_and(|kind| kind == "md") {
                note(root, path, text.lines().map(prose), &mut found);
            }
        })?;
    }
    for entry in fs::read_dir(root.join("crates"))? {
        visit(&entry?.path().join("src"), &mut |path, text| {
            if path.extension().is_some_and(|kind| kind == "rs") {
                note(root, path, text.lines().map(comment), &mut found);
            }
        })?;
    }
    found.sort();
    Ok(found)
}

fn note(root: &Path, path: &Path, lines: impl Iterator<Item = String>, found: &mut Vec<String>) {
    let path = path.strip_prefix(root).unwrap_or(path).display();
    for (number, line) in (1..).zip(lines) {
        found.extend(phrases(&line).map(|phrase| format!("{path}:{number}: {phrase}")));
    }
}

/// The banned phrases of a line.
fn phrases(line: &str) -> impl Iterator<Item = &'static str> {
    let line = line.to_lowercase();
    BANNED.into_iter().filter(move |phrase| {
        line.match_indices(phrase).any(|(at, _)| {
            let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let before = line[..at].chars().next_back();
            let after = line[at + phrase.len()..].chars().next();
            !word(before) && !word(after)
        })
    })
}

/// A line of a page without what stands between backticks.
fn prose(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The comment that a line of Rust consists of; nothing for a line of code.
fn comment(line: &str) -> String {
    let line = line.trim_start();
    if line.starts_with("//") { prose(line) } else { String::new() }
}

/// Calls `look` with every file below a path, or with the path itself.
fn visit(path: &Path, look: &mut dyn FnMut(&Path, &str)) -> Outcome {
    if path.is_file() {
        if let Ok(text) = fs::read_to_string(path) {
            look(path, &text);
        }
        return Ok(());
    }
    let Ok(entries) = fs::read_dir(path) else { return Ok(()) };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in entries {
        paths.push(entry?.path());
    }
    paths.iter().try_for_each(|path| visit(path, look))
}

#[cfg(test)]
mod tests {
    use super::{comment, phrases};

    #[test]
    fn phrases_are_found_in_comments_and_not_in_code() {
        let found = |line: &str| phrases(&comment(line)).count();
        assert_eq!(found("    /// Whoever waits is woken by somebody."), 2);
        assert_eq!(found("    let nobody = \"whoever\";"), 0);
        assert_eq!(found("/// See `nobody`."), 0);
    }

    #[test]
    fn the_documentation_is_plain() {
        if let Err(found) = super::check() {
            panic!("{found}");
        }
    }
}
