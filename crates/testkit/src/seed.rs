//! The seed of a random test that compares with an oracle.

use std::hash::{BuildHasher, RandomState};
use std::process::Command;

/// Returns and prints the seed of this run: `SEAWALL_SEED` if it is set, otherwise one derived from
/// the files of the last commit.
///
/// A new seed for each run would be worse: a run that finds something new would fail the author of
/// an unrelated change, and say nothing about that change. With the seed of the commit, every run
/// of one commit does the same, so CI never shows what the author could not have seen before, while
/// every commit explores new ground. The seed comes from the tree, not from the commit's id: a
/// reworded message or a merge without changes leaves the files, and therefore the run, as they
/// were.
///
/// Without git or a repository, as in an unpacked archive, each run has a new seed.
///
/// # Panics
///
/// If `SEAWALL_SEED` is not a number.
#[must_use]
#[expect(clippy::print_stdout, reason = "the seed repeats a run")]
pub fn seed() -> u64 {
    let given = std::env::var("SEAWALL_SEED").ok();
    let given = given.map(|text| text.parse().expect("SEAWALL_SEED is a number"));
    let seed = given
        .or_else(of_last_commit)
        .unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    println!("SEAWALL_SEED={seed}");
    seed
}

/// Returns the seed of the last commit of the repository around the current folder, which is that
/// of the crate whose test runs.
fn of_last_commit() -> Option<u64> {
    let tree = Command::new("git").args(["rev-parse", "--verify", "HEAD^{tree}"]).output().ok()?;
    tree.status.success().then(|| of_object(&tree.stdout)).flatten()
}

/// Returns the first 64 bits of a git object id: a cryptographic hash, so they are well mixed.
fn of_object(name: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(name.get(..16)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_one_seed() {
        let name = b"00000000000000ff2a89cd8e2e9e5e21bb0e7a83\n";
        assert_eq!(of_object(name), Some(255));
        assert_eq!(of_object(b"HEAD^{tree}"), None);
        assert_eq!(of_object(b"fatal: not a git repository"), None);
        assert_eq!(of_last_commit(), of_last_commit());
    }
}
