//! A scratch copy of the suite, with the programs that it expects in their places.
//!
//! In external mode the suite still calls `src/redis-cli` and `src/redis-benchmark`, and writes
//! below `tests/tmp`; a copy keeps all of that out of the caller's checkout.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::outcome::{Context, Failure, Outcome};

/// The copy. Dropping it removes it.
pub(super) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    /// Copies the suite from the checkout at `source`.
    pub(super) fn new(source: &Path) -> Outcome<Self> {
        if !source.join("tests").join("test_helper.tcl").is_file() {
            return Err(Failure::new(format!(
                "{} holds no tests/test_helper.tcl; name a checkout of Redis 7.0",
                source.display()
            )));
        }
        let folder = tempfile::Builder::new().prefix("redis-suite-").tempdir()?;
        copy_tree(&source.join("tests"), &folder.path().join("tests"))?;
        fs::create_dir_all(folder.path().join("tests").join("tmp"))?;
        let programs = folder.path().join("src");
        fs::create_dir(&programs)?;
        for program in ["redis-server", "redis-cli", "redis-benchmark"] {
            symlink(find_program(program)?, programs.join(program))?;
        }
        Ok(Self { folder })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs `command` for at most `limit` and returns the lines it printed.
    pub(super) fn run(&self, command: &mut Command, limit: Duration) -> Outcome<Vec<String>> {
        let deadline = Instant::now() + limit;
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let mut child = Running(command.spawn().context("cannot start tclsh")?);
        // The command still holds the writing ends; once they are released, the pipe ends with the
        // child.
        command.stdout(Stdio::null()).stderr(Stdio::null());

        let lines = follow(reader);
        let mut seen = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left.min(Duration::from_secs(1))) {
                Ok(line) => seen.push(line),
                Err(RecvTimeoutError::Disconnected) => return Ok(seen),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    seen.push(format!("[exception]: took longer than {limit:?}"));
                    return Ok(seen);
                }
                // The suite may leave a child behind that keeps the pipe open.
                Err(RecvTimeoutError::Timeout) if child.0.try_wait()?.is_some() => return Ok(seen),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// A child process that is killed when the value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads lines on a separate thread, so that the receiver can stop waiting.
fn follow(source: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut raw = Vec::new();
        while matches!(source.read_until(b'\n', &mut raw), Ok(count) if count > 0) {
            let line = String::from_utf8_lossy(&raw).trim_end().to_owned();
            raw.clear();
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn find_program(name: &str) -> Outcome<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| Failure::new(format!("{name} is missing; `cargo xtask test` installs it")))
}

fn copy_tree(from: &Path, to: &Path) -> Outcome {
    let mut left = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = left.pop() {
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(&from)? {
            let entry = entry?;
            let target = to.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                left.push((entry.path(), target));
            } else if kind.is_file() {
                fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}
