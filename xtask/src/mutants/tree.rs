//! A second work tree of the code as it is, in which planted bugs are applied one after another.
//!
//! What is not committed yet is in it: a commit is made of the files as they are, with an index of its
//! own, which no branch gets to see.
//!
//! It shares the target directory with the project, so that dependencies are built once. Cargo
//! names build products by a package's place inside its workspace and would confuse the libraries
//! of the two trees; a differing profile setting keeps the project's own crates apart.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::patch::Mutant;
use crate::outcome::{Context, Failure, Outcome};
use crate::shell::{cargo, root, target};

/// An arbitrary number that no other build uses.
const CODEGEN_UNITS: u32 = 203;

/// The scratch work tree.
pub(super) struct Tree {
    folder: PathBuf,
    /// Settings that keep its crates apart from the project's.
    apart: Vec<String>,
}

impl Tree {
    /// Checks out the code as it is, in the directory that the last run used.
    pub(super) fn check_out() -> Outcome<Self> {
        let tree = Tree { folder: target().join("mutants"), apart: apart()? };
        let now = commit_as_it_is()?;
        if tree.folder.join(".git").exists() {
            tree.reset()?;
            run(tree.git().args(["checkout", "--quiet", "--detach", &now]))?;
        } else {
            // A directory that was deleted by hand is still in git's list.
            run(git_in(root()).args(["worktree", "prune"]))?;
            let mut add = git_in(root());
            add.args(["worktree", "add", "--quiet", "--detach"]).arg(&tree.folder).arg(&now);
            run(&mut add)?;
        }
        Ok(tree)
    }

    /// Plants a bug and removes all others.
    pub(super) fn plant(&self, mutant: &Mutant) -> Outcome {
        self.reset()?;
        run(self.git().arg("apply").arg(&mutant.path)).map(drop).map_err(|error| {
            Failure::new(format!(
                "{error}\n  the code has changed since this patch was made: apply it by hand and write \
                 the diff anew"
            ))
        })
    }

    /// Removes all bugs. Unchanged files keep their times, so that cargo builds only what a patch
    /// touched.
    pub(super) fn reset(&self) -> Outcome {
        run(self.git().args(["checkout", "--quiet", "--", "."])).map(drop)
    }

    /// A cargo command in this tree.
    pub(super) fn cargo(&self, args: &[&str]) -> Command {
        let [subcommand, rest @ ..] = args else { return cargo(args) };
        let mut command = cargo(&[subcommand]);
        for setting in &self.apart {
            command.args(["--config", setting]);
        }
        command.args(rest).current_dir(&self.folder).env("CARGO_TARGET_DIR", target());
        command
    }

    fn git(&self) -> Command {
        git_in(self.folder.clone())
    }
}

/// A setting for each crate of the project.
fn apart() -> Outcome<Vec<String>> {
    let mut settings = Vec::new();
    for entry in fs::read_dir(root().join("crates"))? {
        let manifest = fs::read_to_string(entry?.path().join("Cargo.toml"))?;
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = "));
        let name = name.unwrap_or_default().trim_matches('"');
        settings.push(format!("profile.dev.package.{name}.codegen-units={CODEGEN_UNITS}"));
    }
    Ok(settings)
}

/// Returns a commit of the files as they are: the last one, or a new one if something has changed since.
fn commit_as_it_is() -> Outcome<String> {
    let index = target().join("mutants.index");
    let git = |words: &[&str]| {
        let mut git = git_in(root());
        run(git.args(words).env("GIT_INDEX_FILE", &index)).map(|text| text.trim().to_owned())
    };
    git(&["read-tree", "HEAD"])?;
    git(&["add", "--all"])?;
    let tree = git(&["write-tree"])?;
    if tree == git(&["rev-parse", "HEAD^{tree}"])? {
        return git(&["rev-parse", "HEAD"]);
    }
    let mut commit = git_in(root());
    commit.args(["commit-tree", &tree, "-p", "HEAD", "-m", "The code as it is"]);
    for role in ["AUTHOR", "COMMITTER"] {
        let field = |name: &str| format!("GIT_{role}_{name}");
        commit.env(field("NAME"), "xtask").env(field("EMAIL"), "xtask@localhost");
        // The same files give the same commit.
        commit.env(field("DATE"), "2000-01-01T00:00:00Z");
    }
    run(&mut commit).map(|text| text.trim().to_owned())
}

fn git_in(folder: PathBuf) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder);
    git
}

fn run(command: &mut Command) -> Outcome<String> {
    let output = command.output().context("cannot run git")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Failure::new(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
