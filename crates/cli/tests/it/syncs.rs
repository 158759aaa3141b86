//! The real disk is synced before a write is acknowledged: seen from outside, by tracing system calls.
//!
//! The tests of the log run on a simulated disk, and a killed process loses nothing that the kernel
//! has, so neither notices a missing `fdatasync`. Here `strace` counts the calls of the program itself,
//! and makes one fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use seawall_testkit::{ServerBuilder, ServerProcess};

const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");
const WRITES: usize = 40;
const PATIENCE: Duration = Duration::from_secs(30);

/// A script that runs the program under `strace`, which writes its syncs to `trace`. The program is the
/// process that the test started (`-D`), so that it can be killed.
fn traced(folder: &Path, trace: &Path, inject: &str) -> PathBuf {
    let path = folder.join("traced");
    let trace = trace.display();
    let script = format!(
        "#!/bin/sh\nexec strace -D -f -q -e trace=fdatasync,fsync {inject} -o {trace} {SEAWALL} \"$@\"\n"
    );
    fs::write(&path, script).expect("room");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
    path
}

fn start(program: impl Into<PathBuf>, folder: &Path, policy: &str) -> ServerProcess {
    let args = ["--appendonly", "yes", "--appendfsync", policy];
    ServerBuilder::seawall(program).args(args).dir(folder).start().expect("it starts")
}

/// The syncs that ended well so far.
fn syncs(trace: &Path) -> usize {
    let text = fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter(|line| line.contains("sync") && line.ends_with("= 0")).count()
}

/// Counts the syncs that one client's writes caused, each sent after the reply to the one before.
fn syncs_of_writes(policy: &str) -> usize {
    let (scripts, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = scripts.path().join("trace");
    let server = start(traced(scripts.path(), &trace, ""), folder.path(), policy);
    let mut client = server.connect().expect("room for a client");
    assert_eq!(client.call(&["SET", "first", "1"]).expect("an answer").text(), "OK");
    let before = syncs(&trace);
    for number in 0..WRITES {
        let reply = client.call(&["SET", &format!("key:{number}"), "1"]).expect("an answer");
        assert_eq!(reply.text(), "OK");
    }
    syncs(&trace) - before
}

#[test]
fn each_acknowledged_write_was_synced_with_always() {
    let synced = syncs_of_writes("always");
    // The last line of the trace may be on its way.
    assert!(synced + 1 >= WRITES, "{synced} syncs for {WRITES} acknowledged writes");
}

#[test]
fn writes_do_not_wait_for_a_sync_of_their_own_with_no() {
    let synced = syncs_of_writes("no");
    assert!(synced < WRITES / 2, "{synced} syncs for {WRITES} writes");
}

#[test]
fn a_write_whose_sync_failed_is_not_acknowledged() {
    let (scripts, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = scripts.path().join("trace");
    let inject = "-e inject=fdatasync:error=EIO:when=10";
    let server = start(traced(scripts.path(), &trace, inject), folder.path(), "always");
    let mut acknowledged = 0;
    let mut client = server.connect().expect("room for a client");
    client.set_timeout(PATIENCE).expect("a socket");
    loop {
        match client.call(&["SET", &format!("key:{acknowledged}"), "1"]) {
            Ok(reply) if reply.text() == "OK" => acknowledged += 1,
            _ => break,
        }
        assert!(acknowledged < WRITES, "no sync has failed: {}", server.log());
    }
    let failed = fs::read_to_string(&trace).unwrap_or_default();
    assert!(failed.contains("EIO"), "another reason: {}", server.log());
    // It goes on, on a log that is written anew, and what it acknowledged is in it.
    let deadline = Instant::now() + PATIENCE;
    let mut client = server.connect().expect("room for a client");
    while client.call(&["SET", "after", "1"]).map_or(true, |reply| reply.is_error()) {
        assert!(Instant::now() < deadline, "it did not recover: {}", server.log());
        thread::yield_now();
        client = server.connect().expect("room for a client");
    }
    drop(server);
    let server = start(SEAWALL, folder.path(), "always");
    let mut client = server.connect().expect("room for a client");
    for number in 0..acknowledged {
        let there = client.call(&["EXISTS", &format!("key:{number}")]).expect("an answer");
        assert_eq!(there.as_int(), Some(1), "key:{number} of {acknowledged}");
    }
}
