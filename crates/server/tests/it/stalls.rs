//! Nobody on a socket waits for the disk: while a rewrite puts its file in place, reads are answered.
//! What the loop was busy with longest is in INFO.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Condvar, Mutex},
    thread,
    time::Duration,
};

use crate::support::{ask, client, eventually, expect, request, serve};
use seawall_server::{
    Config, Server,
    aof::{Disk, DiskFile, LOG_FILE, open_journal_on, sim::SimDisk},
};

/// INFO is brought up to date once a second.
const TOLD_WITHIN: Duration = Duration::from_millis(1_200);

/// A disk on which a log is put in place only when it is let through.
#[derive(Debug, Clone)]
struct Gated {
    disk: SimDisk,
    gate: Arc<(Mutex<Gate>, Condvar)>,
}

#[derive(Debug, Default)]
struct Gate {
    closed: bool,
    waiting: bool,
}

impl Gated {
    fn set(&self, closed: bool) {
        self.gate.0.lock().expect("no panic").closed = closed;
        self.gate.1.notify_all();
    }

    fn is_waiting(&self) -> bool {
        self.gate.0.lock().expect("no panic").waiting
    }
}

/// Opens the gate when it goes, so that a failed test ends.
struct Opener(Gated);

impl Drop for Opener {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl Disk for Gated {
    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn DiskFile>>> {
        self.disk.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if to == LOG_FILE {
            let mut gate = self.gate.0.lock().expect("no panic");
            gate.waiting = gate.closed;
            let mut gate = self.gate.1.wait_while(gate, |gate| gate.closed).expect("no panic");
            gate.waiting = false;
        }
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn fresh_id(&self) -> u128 {
        self.disk.fresh_id()
    }

    fn display(&self, name: &str) -> String {
        self.disk.display(name)
    }
}

#[test]
fn reads_go_on_while_a_rewrite_puts_its_file_in_place() {
    for policy in ["always", "everysec", "no"] {
        let disk = Gated { disk: SimDisk::new(7), gate: Arc::default() };
        let mut config = Config::loopback(0);
        for (name, value) in [("appendonly", "yes"), ("appendfsync", policy)] {
            config.engine.settings.set(name, value).expect("a setting");
        }
        config.journal = Some(open_journal_on(Arc::new(disk.clone())));
        let server = Server::start(config.clone()).expect("a server starts");
        let (mut writer, mut reader) = (client(&server), client(&server));
        ask(&mut writer, &["SET", "a", "1"], "+OK\r\n");
        disk.set(true);
        ask(&mut writer, &["BGREWRITEAOF"], "+Background append only file rewriting started\r\n");
        eventually("the rewrite waits for the disk", || disk.is_waiting());
        let opener = Opener(disk.clone());
        // Reads do not wait for the disk, although several looks at the log pass.
        for _ in 0..30 {
            ask(&mut reader, &["GET", "a"], "$1\r\n1\r\n");
            thread::sleep(Duration::from_millis(10));
        }
        // A write does, and so does what may have seen it; both are answered in the end.
        writer.write_all(&request(&["SET", "a", "2"])).expect("the server reads");
        drop(opener);
        expect(&mut writer, "+OK\r\n");
        ask(&mut reader, &["GET", "a"], "$1\r\n2\r\n");
        drop((writer, reader));
        drop(server);
        let server = Server::start(config).expect("a server starts");
        ask(&mut client(&server), &["GET", "a"], "$1\r\n2\r\n");
    }
}

fn info(stream: &mut TcpStream, field: &str) -> String {
    stream.write_all(&request(&["INFO", "stats"])).expect("the server reads");
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !String::from_utf8_lossy(&text).contains("longest_turn_time:") {
        let count = stream.read(&mut piece).expect("the server answers");
        text.extend_from_slice(&piece[..count]);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.expect("the field is there").to_owned()
}

#[test]
fn info_tells_the_longest_turn() {
    let server = serve();
    let mut stream = client(&server);
    let slow = "for i = 1, 3000000 do end return 1";
    eventually("it is told", || {
        // Something else may take longer when the machine is busy: then it is tried again.
        ask(&mut stream, &["CONFIG", "RESETSTAT"], "+OK\r\n");
        thread::sleep(TOLD_WITHIN);
        ask(&mut stream, &["EVAL", slow, "0"], ":1\r\n");
        thread::sleep(TOLD_WITHIN);
        let usec: u64 = info(&mut stream, "longest_turn_usec").parse().expect("a number");
        usec > 1_000 && info(&mut stream, "longest_turn_duty") == "requests"
    });
    let first: u64 = info(&mut stream, "longest_turn_usec").parse().expect("a number");
    ask(&mut stream, &["CONFIG", "RESETSTAT"], "+OK\r\n");
    assert!(info(&mut stream, "longest_turn_usec").parse::<u64>().expect("a number") < first);
}
