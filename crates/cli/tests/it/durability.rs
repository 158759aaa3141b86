//! The program's promises about data, from outside: kills under load, full disks, two servers on
//! one directory, checking, exporting, importing.
//!
//! The oracle is what clients were told: each client pushes 0, 1, 2 … to a list of its own and
//! remembers how many were acknowledged. A few rounds run here, `SEAWALL_SOAK=1` runs many.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use seawall_testkit::{Client, ServerBuilder, ServerProcess};

const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");
const WRITERS: usize = 4;

fn rounds(few: u64) -> u64 {
    if std::env::var_os("SEAWALL_SOAK").is_some() { 20 * few } else { few }
}

fn builder(directory: &Path, policy: &str) -> ServerBuilder {
    ServerBuilder::seawall(SEAWALL)
        .args(["--appendonly", "yes", "--appendfsync", policy])
        .dir(directory)
}

fn list(writer: usize) -> String {
    format!("list:{writer}")
}

/// Pushes until the server is gone; returns how many pushes were acknowledged.
fn push_until_it_ends(mut client: Client, writer: usize, from: i64, pushed: &AtomicU64) -> i64 {
    let mut acknowledged = from;
    loop {
        let value = acknowledged.to_string();
        match client.call(&["RPUSH", &list(writer), &value]) {
            Ok(reply) if reply.as_int() == Some(acknowledged + 1) => {
                acknowledged += 1;
                pushed.fetch_add(1, Ordering::Relaxed);
            }
            Ok(reply) => panic!("{} after {acknowledged} pushes", reply.text()),
            Err(_) => return acknowledged,
        }
    }
}

/// Every acknowledged push is there, nothing is torn or twice; returns the lengths.
fn assert_lists(server: &ServerProcess, acknowledged: &[i64]) -> Vec<i64> {
    let mut client = server.connect().expect("the server is up");
    let mut lengths = Vec::new();
    for (writer, &least) in acknowledged.iter().enumerate() {
        let reply = client.call(&["LRANGE", &list(writer), "0", "-1"]).expect("an answer");
        let items = reply.items();
        // One more may have been written without its reply having gone out.
        let length = items.len() as i64;
        assert!((least..=least + 1).contains(&length), "{length} of {least}: {}", server.log());
        for (index, item) in items.iter().enumerate() {
            assert_eq!(item.text(), index.to_string());
        }
        lengths.push(length);
    }
    lengths
}

/// Kills a loaded server again and again on the same directory.
fn kill_under_load(policy: &str, rewriting: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut lengths = vec![0; WRITERS];
    for round in 0..rounds(3) {
        let mut server = builder(folder.path(), policy).start().expect("it starts");
        assert_lists(&server, &lengths);
        let clients: Vec<Client> =
            (0..WRITERS).map(|_| server.connect().expect("room for a client")).collect();
        let mut admin = server.connect().expect("room for a client");
        let (ended, pushed) = (AtomicBool::new(false), AtomicU64::new(0));
        let acknowledged: Vec<i64> = thread::scope(|scope| {
            let pushed = &pushed;
            let writers: Vec<_> = clients
                .into_iter()
                .zip(lengths.iter().copied())
                .enumerate()
                .map(|(writer, (client, from))| {
                    scope.spawn(move || push_until_it_ends(client, writer, from, pushed))
                })
                .collect();
            if rewriting {
                let ended = &ended;
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) && admin.call(&["BGREWRITEAOF"]).is_ok() {
                        thread::yield_now();
                    }
                });
            }
            // The kill comes in the middle of whatever the server does then.
            while pushed.load(Ordering::Relaxed) < 200 + 37 * round {
                thread::yield_now();
            }
            server.kill().expect("the process is ours");
            ended.store(true, Ordering::Relaxed);
            writers.into_iter().map(|writer| writer.join().expect("no writer panics")).collect()
        });
        assert!(acknowledged.iter().sum::<i64>() > lengths.iter().sum::<i64>(), "nothing ran");
        drop(server);
        let server = builder(folder.path(), policy).start().expect("it starts again");
        lengths = assert_lists(&server, &acknowledged);
    }
}

#[test]
fn a_kill_under_load_loses_nothing_acknowledged_with_always() {
    kill_under_load("always", false);
}

#[test]
fn a_kill_under_load_loses_nothing_acknowledged_with_everysec() {
    kill_under_load("everysec", false);
}

#[test]
fn a_kill_under_load_loses_nothing_acknowledged_with_no() {
    kill_under_load("no", false);
}

#[test]
fn a_kill_during_rewrites_loses_nothing_acknowledged() {
    kill_under_load("everysec", true);
}

#[test]
fn sigterm_makes_everything_durable_within_a_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = builder(folder.path(), "no").start().expect("it starts");
    let mut client = server.connect().expect("room for a client");
    for number in 0..500 {
        client.call(&["SET", &format!("key:{number}"), "value"]).expect("an answer");
    }
    let status = server.terminate(Duration::from_secs(1)).expect("it ends in time");
    assert!(status.success(), "{}", server.log());
    let server = builder(folder.path(), "no").start().expect("it starts again");
    let mut client = server.connect().expect("room for a client");
    assert_eq!(client.call(&["DBSIZE"]).expect("an answer").as_int(), Some(500));
}

#[test]
fn a_snapshot_is_loaded_without_a_log_and_becomes_one_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let memory = ServerBuilder::seawall(SEAWALL).args(["--appendonly", "no"]).dir(folder.path());
    let mut server = memory.start().expect("it starts");
    let mut client = server.connect().expect("room for a client");
    client.call(&["SET", "k", "saved"]).expect("an answer");
    assert_eq!(client.call(&["SAVE"]).expect("an answer").text(), "OK");
    client.call(&["SET", "k", "lost"]).expect("an answer");
    server.kill().expect("the process is ours");
    drop(server);
    for builder in [&memory, &builder(folder.path(), "always"), &builder(folder.path(), "always")] {
        let mut server = builder.start().expect("it starts again");
        let mut client = server.connect().expect("room for a client");
        assert_eq!(client.call(&["GET", "k"]).expect("an answer").text(), "saved");
        server.kill().expect("the process is ours");
    }
}

#[test]
fn save_points_make_a_snapshot_at_the_end_unless_told_not_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("seawall.conf");
    fs::write(&config, "save 3600 1\n").expect("room");
    let builder = ServerBuilder::seawall(SEAWALL)
        .args(["--appendonly", "no"])
        .arg_path("--config", &config)
        .dir(folder.path());
    for (value, end) in [("kept", "SAVE"), ("kept too", ""), ("dropped", "NOSAVE")] {
        let server = builder.start().expect("it starts");
        let mut client = server.connect().expect("room for a client");
        client.call(&["SET", "k", value]).expect("an answer");
        let words: Vec<&str> = ["SHUTDOWN", end].into_iter().filter(|w| !w.is_empty()).collect();
        assert!(client.call(&words).is_err(), "it ends without an answer");
        drop(server);
        let server = builder.start().expect("it starts again");
        let mut client = server.connect().expect("room for a client");
        let found = client.call(&["GET", "k"]).expect("an answer").text();
        assert_eq!(found, if end == "NOSAVE" { "kept too" } else { value });
    }
}

#[test]
fn logging_can_be_switched_on_and_off() {
    let folder = tempfile::tempdir().expect("a folder");
    let memory = ServerBuilder::seawall(SEAWALL).args(["--appendonly", "no"]).dir(folder.path());
    let mut server = memory.start().expect("it starts");
    let mut client = server.connect().expect("room for a client");
    let mut call = |words: &[&str]| client.call(words).expect("an answer").text();
    call(&["SET", "before", "1"]);
    assert_eq!(call(&["CONFIG", "SET", "appendonly", "yes"]), "OK");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !call(&["INFO", "persistence"]).contains("aof_enabled:1") {
        assert!(Instant::now() < deadline, "the log never began: {}", server.log());
        thread::yield_now();
    }
    call(&["SET", "after", "1"]);
    server.kill().expect("the process is ours");
    drop(server);
    let server = builder(folder.path(), "everysec").start().expect("it starts again");
    let mut client = server.connect().expect("room for a client");
    assert_eq!(client.call(&["DBSIZE"]).expect("an answer").as_int(), Some(2));
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = builder(folder.path(), "everysec").start().expect("it starts");
    let out = seawall(&["engine", "--port", "0", "--unixsocket", "unused.sock"], folder.path());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success());
    assert!(said.contains(&format!("process {}", server.pid())), "{said}");
    assert!(said.contains("in use by another server"), "{said}");
}

/// Runs the program with `--dir` where that makes sense and waits for its end.
fn seawall(args: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(SEAWALL);
    command.args(args).current_dir(directory);
    if args.contains(&"--port") {
        command.arg("--dir").arg(directory);
    }
    command.output().expect("the binary runs")
}

#[test]
fn damage_is_refused_named_and_repaired() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = builder(folder.path(), "always").start().expect("it starts");
    let mut client = server.connect().expect("room for a client");
    for number in 0..20 {
        client.call(&["SET", &format!("key:{number}"), "value"]).expect("an answer");
    }
    server.kill().expect("the process is ours");
    drop(server);
    let directory = folder.path().to_str().expect("a plain name");
    assert!(seawall(&["engine", "--check", directory], folder.path()).status.success());
    let path = folder.path().join("appendonly.seawall");
    let mut bytes = fs::read(&path).expect("a log");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&path, &bytes).expect("room");
    let refused = seawall(&["engine", "--port", "0", "--unixsocket", "s.sock"], folder.path());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains("damaged at offset") && said.contains("--check --repair"), "{said}");
    assert!(!seawall(&["engine", "--check", directory], folder.path()).status.success());
    let repaired = seawall(&["engine", "--check", directory, "--repair"], folder.path());
    assert!(repaired.status.success(), "{}", String::from_utf8_lossy(&repaired.stderr));
    let server = builder(folder.path(), "always").start().expect("it starts again");
    let mut client = server.connect().expect("room for a client");
    let kept = client.call(&["DBSIZE"]).expect("an answer").as_int().expect("a number");
    assert!((1..20).contains(&kept), "{kept} keys");
}

#[test]
fn an_export_moves_to_redis_and_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = builder(folder.path(), "everysec").start().expect("it starts");
    let mut client = server.connect().expect("room for a client");
    for line in [
        "SET s hello",
        "RPUSH l a b c",
        "SADD e 1 2 x",
        "HSET h f v",
        "ZADD z 1.5 m",
        "XADD x 1-1 f v",
        "XGROUP CREATE x g 0",
        "XREADGROUP GROUP g c STREAMS x >",
        "SELECT 4",
        "SET other 1",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(!client.call(&words).expect("an answer").is_error(), "{line}");
    }
    server.terminate(Duration::from_secs(1)).expect("it ends in time");
    let directory = folder.path().to_str().expect("a plain name");
    let exported = seawall(&["engine", "--export", directory], folder.path());
    assert!(exported.status.success());

    let redis = ServerProcess::redis().expect("redis-server starts");
    let mut client = redis.connect().expect("room for a client");
    client.send_raw(&exported.stdout).expect("a server that reads");
    assert_eq!(client.call(&["PING"]).map(|_| ()).ok(), Some(()));
    let mut check = redis.connect().expect("room for a client");
    let deadline = Instant::now() + Duration::from_secs(20);
    while check.call(&["INFO", "keyspace"]).expect("an answer").text().matches("keys=").count() < 2
    {
        assert!(Instant::now() < deadline, "the export did not arrive");
    }
    assert_eq!(check.call(&["DBSIZE"]).expect("an answer").as_int(), Some(6));
    let pending = check.call(&["XPENDING", "x", "g"]).expect("an answer");
    assert_eq!(pending.items()[0].as_int(), Some(1));

    let stream = folder.path().join("stream.resp");
    fs::write(&stream, &exported.stdout).expect("room");
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("room");
    let (to, from) = (elsewhere.to_str().expect("plain"), stream.to_str().expect("plain"));
    let imported = seawall(&["engine", "--import", to, from], folder.path());
    assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
    let server = builder(&elsewhere, "everysec").start().expect("it starts");
    let mut client = server.connect().expect("room for a client");
    assert_eq!(client.call(&["DBSIZE"]).expect("an answer").as_int(), Some(6));
    assert_eq!(client.call(&["LRANGE", "l", "0", "-1"]).expect("an answer").items().len(), 3);
}

/// A place where only a little fits, and more after [`SmallDisk::make_room`].
enum SmallDisk {
    /// A small file system of its own, with something in it that can go.
    Tmpfs(PathBuf),
    /// Where mounting is not allowed: a bound on the size of files, lifted later.
    Limit,
}

const SMALL_BYTES: usize = 256 << 10;

impl SmallDisk {
    fn new(folder: &Path) -> SmallDisk {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=512k", "seawall-test"])
            .arg(folder)
            .output()
            .is_ok_and(|out| out.status.success());
        if mounted {
            fs::write(folder.join("filler"), vec![0; SMALL_BYTES]).expect("room");
            SmallDisk::Tmpfs(folder.to_owned())
        } else {
            SmallDisk::Limit
        }
    }

    /// The program, or a script that bounds it first.
    fn program(&self, scripts: &Path) -> PathBuf {
        if matches!(self, SmallDisk::Tmpfs(_)) {
            return SEAWALL.into();
        }
        let path = scripts.join("bounded");
        let blocks = SMALL_BYTES / 512;
        let script =
            format!("#!/bin/sh\ntrap '' XFSZ\nulimit -S -f {blocks}\nexec {SEAWALL} \"$@\"\n");
        fs::write(&path, script).expect("room");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("it is ours");
        path
    }

    fn make_room(&self, server: &ServerProcess) {
        match self {
            SmallDisk::Tmpfs(folder) => fs::remove_file(folder.join("filler")).expect("it is ours"),
            SmallDisk::Limit => {
                let pid = server.pid().to_string();
                let mut lift = Command::new("prlimit");
                lift.args(["--fsize=unlimited:", "--pid", &pid]);
                assert!(lift.status().expect("prlimit runs").success());
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let SmallDisk::Tmpfs(folder) = self {
            let _ = Command::new("umount").arg("-l").arg(folder).output();
        }
    }
}

#[test]
fn a_full_disk_answers_says_so_and_recovers() {
    for policy in ["always", "everysec"] {
        full_disk(policy);
    }
}

fn full_disk(policy: &str) {
    let scripts = tempfile::tempdir().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::new(folder.path());
    let start = |program: PathBuf| {
        let args = ["--appendonly", "yes", "--appendfsync", policy];
        ServerBuilder::seawall(program).args(args).dir(folder.path()).start().expect("it starts")
    };
    let mut server = start(disk.program(scripts.path()));
    let mut writer = server.connect().expect("room for a client");
    writer.set_timeout(Duration::from_secs(20)).expect("a socket");
    let value = "x".repeat(8 << 10);
    let mut acknowledged = 0;
    // The write that no longer fits is answered by an error that says where it is.
    loop {
        let told =
            writer.call(&["SET", &format!("key:{acknowledged}"), &value]).expect("an answer");
        if told.is_error() {
            let told = told.text();
            assert!(told.starts_with("UNLOGGED ") && told.contains("in memory"), "{told}");
            break;
        }
        acknowledged += 1;
        assert!(acknowledged < 1000, "the disk is not small");
    }
    assert!(acknowledged > 3);
    let mut other = server.connect().expect("room for a client");
    let refused = other.call(&["SET", "other", "1"]).expect("an answer").text();
    assert!(refused.starts_with("MISCONF Errors writing to the AOF file: "), "{refused}");
    let read = other.call(&["GET", "key:0"]).expect("an answer").text();
    assert_eq!(read.len(), value.len(), "reading goes on");
    disk.make_room(&server);
    let deadline = Instant::now() + Duration::from_secs(20);
    while other.call(&["SET", "other", "1"]).expect("an answer").is_error() {
        assert!(Instant::now() < deadline, "it did not recover: {}", server.log());
        thread::yield_now();
    }
    server.kill().expect("the process is ours");
    drop(server);
    let server = start(SEAWALL.into());
    let mut client = server.connect().expect("room for a client");
    let keys = client.call(&["DBSIZE"]).expect("an answer").as_int();
    assert_eq!(keys, Some(acknowledged + 2), "the late write is in the log: {}", server.log());
}
