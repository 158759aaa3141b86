//! `cargo xtask mutants`: plants every bug of `mutants/*.patch`, one at a time, in a scratch work
//! tree, and fails unless its checker fails.
//!
//! Production code has no switches for faults. A checker is proven by a source change instead: the
//! patch breaks one promise, and the ordinary test of that promise must fail and print what the
//! patch's header expects. A patch that no longer applies or no longer compiles is a failure too.

mod page;
mod patch;
mod tree;

use std::time::Instant;

use clap::Args;

pub(crate) use page::write as write_page;
use patch::{Checker, Mutant};
use tree::Tree;

use crate::outcome::{Failure, Outcome};
use crate::shell::{bar, root, run_logged};

/// Mutants that `cargo xtask test` plants: of three crates, with checkers that take a second, and little
/// to build again. The soak plants all.
const FEW: [&str; 3] =
    ["cache-write-without-lease", "lock-renewal-shortens-extension", "stock-undo-twice"];

/// Options of `cargo xtask mutants`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only mutants whose name contains one of these
    names: Vec<String>,
    /// List the mutants and their checkers without running them
    #[arg(long)]
    list: bool,
}

/// Outcome of one mutant.
enum Verdict {
    /// Its checker failed as expected.
    Caught,
    /// Anything else, described in a sentence.
    Escaped(String),
}

/// Runs all of them.
pub(crate) fn run_all() -> Outcome {
    run(&Options { names: Vec::new(), list: false })
}

/// Runs a few of them. Returns how many: none in a copy of the project without its git repository.
pub(crate) fn run_few() -> Outcome<usize> {
    if !root().join(".git").exists() {
        println!("skip  planted bugs: without a git repository there is no scratch work tree");
        return Ok(0);
    }
    run(&Options { names: FEW.map(str::to_owned).to_vec(), list: false })?;
    Ok(FEW.len())
}

/// Runs the named mutants, or all of them.
pub(crate) fn run(options: &Options) -> Outcome {
    let chosen = |mutant: &Mutant| {
        options.names.is_empty() || options.names.iter().any(|name| mutant.name.contains(name))
    };
    let mut mutants = Mutant::all(&root().join("mutants"))?;
    mutants.retain(chosen);
    if mutants.is_empty() {
        return Err(Failure::new("no mutant has such a name; --list shows all"));
    }
    if options.list {
        for Mutant { name, bug, checker, .. } in &mutants {
            println!("{name}\n    {bug}\n    found by {checker}");
        }
        return Ok(());
    }
    let started = Instant::now();
    let escaped = check_all(&mutants)?;
    let (count, seconds) = (mutants.len(), started.elapsed().as_secs_f64());
    if escaped.is_empty() {
        println!("all {count} mutants are caught, in {seconds:.0} s");
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} of {count} mutants escaped, in {seconds:.0} s:\n  {}",
        escaped.len(),
        escaped.join("\n  ")
    )))
}

/// Checks each mutant. Returns a sentence about each one that escaped.
fn check_all(mutants: &[Mutant]) -> Outcome<Vec<String>> {
    let tree = Tree::check_out()?;
    let progress = bar("mutants", mutants.len() as u64);
    let mut escaped = Vec::new();
    for mutant in mutants {
        progress.set_message(mutant.name.clone());
        let started = Instant::now();
        let verdict = check(&tree, mutant)?;
        let seconds = started.elapsed().as_secs_f64();
        progress.suspend(|| match &verdict {
            Verdict::Caught => println!("caught   {:<44} {seconds:>6.1} s", mutant.name),
            Verdict::Escaped(why) => {
                println!("ESCAPED  {:<44} {seconds:>6.1} s  {why}", mutant.name);
            }
        });
        if let Verdict::Escaped(why) = verdict {
            escaped.push(format!("{}: {why}", mutant.name));
        }
        progress.inc(1);
    }
    tree.reset()?;
    progress.finish_and_clear();
    Ok(escaped)
}

fn check(tree: &Tree, mutant: &Mutant) -> Outcome<Verdict> {
    if let Err(error) = tree.plant(mutant) {
        return Ok(Verdict::Escaped(format!("does not apply: {error}")));
    }
    let log = format!("mutant {}", mutant.name);
    let (built, _) = run_logged(&log, &mut tree.cargo(&mutant.checker.words(Step::Build)))?;
    if !built {
        return Ok(Verdict::Escaped(format!(
            "does not compile; see target/xtask/{}",
            log_name(&log)
        )));
    }
    let (green, lines) = run_logged(&log, &mut tree.cargo(&mutant.checker.words(Step::Run)))?;
    Ok(judge(green, &lines, &mutant.says))
}

/// Judges a checker's output. A checker that did not run, or failed for another reason, has caught
/// nothing.
fn judge(green: bool, lines: &[String], says: &str) -> Verdict {
    let ran = lines.iter().any(|line| line.starts_with("running 1 test"));
    let said = lines.iter().any(|line| line.contains(says));
    match (ran, green, said) {
        (false, ..) => {
            Verdict::Escaped("its checker did not run; is the name misspelt?".to_owned())
        }
        (true, true, _) => Verdict::Escaped("its checker passes".to_owned()),
        (true, false, false) => Verdict::Escaped(format!("its checker fails without {says:?}")),
        (true, false, true) => Verdict::Caught,
    }
}

fn log_name(step: &str) -> String {
    format!("{}.log", step.replace(|c: char| !c.is_ascii_alphanumeric(), "-"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Build,
    Run,
}

impl Checker {
    /// Returns the arguments of `cargo`. With `--workspace`, dependencies keep the features with
    /// which `cargo xtask test` has built them.
    fn words(&self, step: Step) -> Vec<&str> {
        let mut words = match self.target.as_str() {
            "lib" => vec!["test", "--package", &self.package, "--lib"],
            target => vec!["test", "--workspace", "--test", target],
        };
        match step {
            Step::Build => words.push("--no-run"),
            Step::Run => words.extend(["--no-fail-fast", "--", "--exact", &self.test]),
        }
        words
    }
}

impl std::fmt::Display for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.package, self.target, self.test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(green: bool, output: &str) -> String {
        let lines: Vec<String> = output.lines().map(str::to_owned).collect();
        match judge(green, &lines, "two at once") {
            Verdict::Caught => "caught".to_owned(),
            Verdict::Escaped(why) => why,
        }
    }

    #[test]
    fn the_few_are_named_as_they_are() {
        let all = Mutant::all(&root().join("mutants")).expect("every header is whole");
        for name in FEW {
            let named = all.iter().filter(|mutant| mutant.name.contains(name)).count();
            assert_eq!(named, 1, "{name}");
        }
    }

    #[test]
    fn only_the_expected_failure_counts() {
        assert_eq!(verdict(false, "running 1 test\npanicked: two at once"), "caught");
        assert!(verdict(false, "running 1 test\npanicked: no server").contains("fails without"));
        assert!(verdict(true, "running 1 test\nok").contains("passes"));
        assert!(verdict(true, "running 0 tests\nok").contains("did not run"));
    }
}
