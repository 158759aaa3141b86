//! A process of the test's own: one that can be stopped, killed and waited for.
//!
//! It is the test binary itself, started once more to run just one of its tests, which finds its
//! task in an environment variable and does nothing without it. So what a worker does stands beside
//! the test that starts it, and no second binary has to be built and found.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// A running process; killed when it is dropped.
pub(crate) struct Worker {
    pub(crate) child: Child,
}

impl Worker {
    /// Starts a test of this binary as a process that is told these words; none has a space in it.
    pub(crate) fn start(test: &str, variable: &str, words: &[String]) -> Self {
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", test, "--nocapture"])
            .env(variable, words.join(" "))
            .stdout(Stdio::null())
            .spawn();
        Worker { child: child.expect("a process starts") }
    }

    /// Sends a signal: STOP, CONT, KILL.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("not zero"), signal).expect("it runs");
    }

    /// Waits until it has ended by itself.
    pub(crate) fn join(mut self) {
        let status = self.child.wait().expect("our child");
        assert!(status.success(), "a worker failed: {status}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended; SIGKILL ends a stopped process too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
