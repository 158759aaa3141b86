//! `cargo xtask test`: everything that a change must pass, on a machine with nothing but Rust.
//!
//! The checks are ordered by cost: fast failures come first. Nothing is skipped silently; the last
//! line counts what ran.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use clap::Args;

use crate::lean;
use crate::mutants;
use crate::outcome::{Failure, Outcome};
use crate::pages;
use crate::setup;
use crate::shell::{cargo, installed, root, step, target};
use crate::stands::Stands;

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Use the machine as it is, without installing what is missing
    #[arg(long)]
    no_setup: bool,
}

/// Runs every check.
pub(crate) fn run(options: &Options) -> Outcome {
    let started = Instant::now();
    if !options.no_setup {
        setup::run()?;
    }
    step("format", &mut cargo(&["fmt", "--all", "--check"]))
        .map_err(|error| Failure::new(format!("{error}\n  `cargo fmt` puts it right")))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"];
    step("clippy", &mut cargo(&clippy))?;
    lean::check()?;
    // As the tests are built: `cargo build` would compile the project a second time for them.
    step("build", &mut cargo(&["test", "--workspace", "--no-run"]))?;

    let tests = unit_and_integration_tests()?;
    let doc_tests = step_of_tests("doc tests", &mut cargo(&["test", "--workspace", "--doc"]))?;
    let examples = examples()?;
    lean::check_refusals()?;
    let quick_starts = pages::run_quick_starts()?;
    let mutants = mutants::run_few()?;
    println!(
        "passed: {tests} tests, {doc_tests} doc tests, {examples} examples, {quick_starts} quick starts, \
         {mutants} planted bugs are caught, in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

fn unit_and_integration_tests() -> Outcome<usize> {
    let stands = Stands::start()?;
    let mut tests = if installed("cargo-nextest") {
        cargo(&["nextest", "run", "--workspace"])
    } else {
        cargo(&["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"])
    };
    tests.envs(stands.environment().iter().map(|(name, value)| (name, value)));
    step_of_tests("tests", &mut tests)
}

/// Runs tests as a step and counts them. Zero tests are a failure: `cargo test` succeeds if its
/// filter matches nothing.
pub(crate) fn step_of_tests(name: &str, command: &mut Command) -> Outcome<usize> {
    match count_passed(&step(name, command)?) {
        0 => Err(Failure::new(format!("{name}: no test ran; is a name in its filter misspelt?"))),
        passed => Ok(passed),
    }
}

/// Returns the number of passed tests in the output of `cargo test` or `cargo nextest`.
fn count_passed(lines: &[String]) -> usize {
    let before = |line: &str, word: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|w| w.trim_end_matches([';', ',']) == word)?;
        words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
    };
    let summary = |line: &&String| {
        line.starts_with("test result:") || line.trim_start().starts_with("Summary [")
    };
    lines.iter().filter(summary).filter_map(|line| before(line, "passed")).sum()
}

/// Runs every example of every crate. They were built with everything else; `cargo run` would build
/// the toolkit once more, with the features of one package.
fn examples() -> Outcome<usize> {
    let names = example_names()?;
    for name in &names {
        let mut example = Command::new(target().join("debug").join("examples").join(name));
        step(&format!("example {name}"), example.current_dir(root()))?;
    }
    Ok(names.len())
}

fn example_names() -> Outcome<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("crates"))? {
        let folder = entry?.path();
        let Ok(examples) = fs::read_dir(folder.join("examples")) else { continue };
        for example in examples {
            let path: PathBuf = example?.path();
            let is_file = path.extension().is_some_and(|ext| ext == "rs");
            if is_file || path.join("main.rs").is_file() {
                names.push(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{count_passed, step_of_tests};

    #[test]
    fn a_run_without_tests_fails() {
        let says = |text: &str| {
            let mut command = Command::new("echo");
            command.arg(text);
            command
        };
        let none = step_of_tests("none", &mut says("test result: ok. 0 passed; 3 filtered out"));
        assert!(none.is_err_and(|error| error.to_string().contains("no test ran")));
        let some = step_of_tests("some", &mut says("test result: ok. 3 passed; 0 failed"));
        assert!(some.is_ok_and(|passed| passed == 3));
    }

    #[test]
    fn both_runners_are_counted() {
        let lines = [
            "test result: ok. 5 passed; 0 failed; 0 ignored",
            "     Summary [   5.4s] 11 tests run: 11 passed, 0 skipped",
            "12 passed by somebody else",
        ];
        assert_eq!(count_passed(&lines.map(String::from)), 16);
    }
}
