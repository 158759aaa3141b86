//! One file of `mutants/`: a planted bug as a patch, and the test that must fail with it.
//!
//! ```text
//! bug: A renewal creates the key again when it has expired.
//! promise: docs/locks.md: Lost is told, early and for ever
//! checker: seawall lock trials::one_holder_while_holders_are_stopped
//! says: two at once
//! ---
//! diff --git a/crates/… b/crates/…
//! ```
//!
//! `says` is text that the failing test prints, so that a test that fails for another reason does
//! not count.

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::{Context, Failure, Outcome};

/// The line between the header and the diff.
const END_OF_HEADER: &str = "---";

/// A planted bug.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) bug: String,
    pub(crate) promise: String,
    pub(crate) checker: Checker,
    pub(crate) says: String,
}

/// The test that must fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Checker {
    pub(crate) package: String,
    /// An integration test's name, or `lib`.
    pub(crate) target: String,
    pub(crate) test: String,
}

impl Mutant {
    /// Reads all patches of a folder, by name.
    pub(crate) fn all(folder: &Path) -> Outcome<Vec<Self>> {
        let mut mutants = Vec::new();
        let entries = fs::read_dir(folder).context(format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "patch") {
                let text = fs::read_to_string(&path)?;
                mutants.push(
                    Self::parse(path.clone(), &text)
                        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?,
                );
            }
        }
        mutants.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(mutants)
    }

    fn parse(path: PathBuf, text: &str) -> Outcome<Self> {
        let header: Vec<&str> = text.lines().take_while(|line| *line != END_OF_HEADER).collect();
        let field = |name: &str| {
            header
                .iter()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
                .ok_or_else(|| Failure::new(format!("no line `{name}: …` before `---`")))
        };
        let words = field("checker")?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let [package, target, test] = words[..] else {
            return Err(Failure::new(
                "`checker:` takes a package, a test target and a test's name",
            ));
        };
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Mutant {
            name,
            path,
            bug: field("bug")?,
            promise: field("promise")?,
            checker: Checker {
                package: package.to_owned(),
                target: target.to_owned(),
                test: test.to_owned(),
            },
            says: field("says")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "bug: It forgets.\npromise: docs/cache.md: Strong reads\n\
        checker: seawall cache reading::strong\nsays: an old value\n---\ndiff --git a/x b/x\n";

    #[test]
    fn a_header_is_read() {
        let mutant =
            Mutant::parse("mutants/cache-forgets.patch".into(), TEXT).expect("it is whole");
        assert_eq!(mutant.name, "cache-forgets");
        assert_eq!(mutant.checker.target, "cache");
        assert_eq!(mutant.says, "an old value");
    }

    #[test]
    fn what_is_missing_is_named() {
        let without = |line: &str| {
            let text: Vec<&str> = TEXT.lines().filter(|l| !l.starts_with(line)).collect();
            Mutant::parse("x.patch".into(), &text.join("\n")).expect_err("incomplete").to_string()
        };
        for field in ["bug", "promise", "checker", "says"] {
            assert!(without(field).contains(&format!("`{field}: …`")), "{field}");
        }
        let vague = TEXT.replace("seawall cache reading::strong", "reading::strong");
        let error = Mutant::parse("x.patch".into(), &vague).expect_err("too few words");
        assert!(error.to_string().contains("a test target"));
    }
}
