//! A process of the test's own: one that can be stopped, killed and waited for.
//!
//! It is the test binary itself, started once more to run just one of its tests, which finds its
//! task in an environment variable ([`task`]) and does nothing without it. So what a worker does
//! stands beside the test that starts it, and no second binary has to be built and found.
//!
//! A filter that matches no test makes the runner succeed, and so does a test that finds no task.
//! Invariant: a worker that ended by itself without having taken its task fails the test that started it.
//! One that was killed may not have come to it.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::{NamedTempFile, TempPath};

/// Names the file in which a process notes that it took its task.
const BEGAN: &str = "SEAWALL_TEST_BEGAN";

/// The task of this process, if it was started as a [`Worker`] that finds it in this variable.
pub(crate) fn task(variable: &str) -> Option<String> {
    let words = std::env::var(variable).ok()?;
    let began = std::env::var_os(BEGAN).expect("a worker starts this process");
    fs::write(began, variable).expect("the worker's file is there");
    Some(words)
}

/// A running process; killed when it is dropped.
pub(crate) struct Worker {
    pub(crate) child: Child,
    began: TempPath,
}

impl Worker {
    /// Starts a test of this binary as a process that is told these words; none has a space in it.
    pub(crate) fn start(test: &str, variable: &str, words: &[String]) -> Self {
        Self::start_with(test, &[(variable, &words.join(" "))])
    }

    /// Starts a test of this binary as a process with these environment variables, one of which is
    /// its [`task`].
    pub(crate) fn start_with(test: &str, variables: &[(&str, &str)]) -> Self {
        let began = NamedTempFile::new().expect("a temporary file").into_temp_path();
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", test, "--nocapture"])
            .envs(variables.iter().copied())
            .env(BEGAN, &began)
            .stdout(Stdio::null())
            .spawn();
        Worker { child: child.expect("a process starts"), began }
    }

    /// Sends a signal: STOP, CONT, KILL.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it runs");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn join(self) {
        let status = self.wait();
        assert!(status.success(), "a worker failed: {status}");
    }

    /// Waits until it has ended, however that is.
    pub(crate) fn wait(mut self) -> ExitStatus {
        let status = self.child.wait().expect("our child");
        self.assert_begun(status);
        status
    }

    fn assert_begun(&self, status: ExitStatus) {
        if status.signal().is_some() {
            return;
        }
        let began = fs::read(&self.began).is_ok_and(|noted| !noted.is_empty());
        assert!(began, "a worker ended without a task: is its test or its variable misspelt?");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let ended = self.child.try_wait().ok().flatten();
        // SIGKILL ends a stopped process too.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(status) = ended.filter(|_| !std::thread::panicking()) {
            self.assert_begun(status);
        }
    }
}
