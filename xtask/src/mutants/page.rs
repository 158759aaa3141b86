//! docs/mutants.md: every planted bug with its checker, in one table.

use std::fmt::Write as _;
use std::fs;

use super::patch::Mutant;
use crate::outcome::Outcome;
use crate::shell::root;

/// Path of the page.
const PAGE: &str = "docs/mutants.md";

/// Writes the page.
pub(crate) fn write() -> Outcome {
    let mutants = Mutant::all(&root().join("mutants"))?;
    fs::write(root().join(PAGE), text(&mutants))?;
    println!("ok    {PAGE}");
    Ok(())
}

fn text(mutants: &[Mutant]) -> String {
    let mut page = String::from(
        "# Planted bugs\n\n\
         Made from `mutants/*.patch` by `cargo xtask docs`; do not edit.\n\n\
         A test is worth what it catches. Each patch breaks one promise in the source, and the test beside \
         it must fail. `cargo xtask mutants` applies each patch to a scratch work tree, runs its test, and \
         fails when the patch no longer applies, no longer compiles, or the test stays green; `cargo xtask \
         test` does so with three of them. Production code has no switch for any of them.\n\n\
         | Mutant | What the patch does | Promise | Caught by |\n| --- | --- | --- | --- |\n",
    );
    for Mutant { name, bug, promise, checker, .. } in mutants {
        let test = format!("`{} {}`", checker.target, checker.test);
        let _ = writeln!(page, "| {name} | {bug} | {promise} | {test} |");
    }
    let _ = writeln!(page, "\n{} mutants.", mutants.len());
    page
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn all() -> Vec<Mutant> {
        Mutant::all(&root().join("mutants")).expect("every header is whole")
    }

    #[test]
    fn the_page_is_up_to_date() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
        assert!(page == text(&all()), "`cargo xtask docs` writes {PAGE} anew");
    }

    /// The whole run takes long; this test reports at once that a code change broke a patch.
    #[test]
    fn every_patch_applies_to_the_code_as_it_is() {
        for Mutant { name, path, .. } in all() {
            let mut git = Command::new("git");
            git.current_dir(root()).args(["apply", "--check"]).arg(path);
            let output = git.output().expect("git runs");
            let why = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "mutants/{name}.patch: {why}");
        }
    }

    #[test]
    fn every_promise_names_a_page() {
        for Mutant { name, promise, .. } in all() {
            let page = promise.split(':').next().unwrap_or_default();
            assert!(root().join(page).is_file(), "{name}: no page {page:?}");
        }
    }
}
