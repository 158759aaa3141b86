//! DEBUG is off unless it was allowed; BGSAVE, BGREWRITEAOF and INFO say the same; wrong save points
//! are refused.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::{Arc, Condvar, Mutex},
};

use crate::support::{ask, client, eventually, request, serve};
use seawall_server::{
    Config, Handle, Server,
    aof::{Disk, DiskFile, SNAPSHOT_FILE, open_journal_on, sim::SimDisk},
};

const NO_DEBUG: &str = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \
                        \"local\", you can run it from a local connection, otherwise you need to set \
                        this option in the configuration file, and then restart the server.\r\n";

fn serve_with(settings: &[(&str, &str)]) -> Handle {
    let mut config = Config::loopback(0);
    for (name, value) in settings {
        config.engine.settings.set(name, value).expect("a setting");
    }
    Server::start(config).expect("a server starts")
}

#[test]
fn debug_is_refused_unless_it_was_allowed() {
    let server = serve();
    let mut stream = client(&server);
    ask(&mut stream, &["DEBUG", "SLEEP", "0"], NO_DEBUG);
    ask(&mut stream, &["CONFIG", "GET", "enable-debug-command"], {
        "*2\r\n$20\r\nenable-debug-command\r\n$2\r\nno\r\n"
    });
    stream
        .write_all(&request(&["CONFIG", "SET", "enable-debug-command", "yes"]))
        .expect("it reads");
    let mut first = [0; 4];
    stream.read_exact(&mut first).expect("the server answers");
    assert_eq!(&first, b"-ERR");
    for who in ["yes", "local"] {
        let server = serve_with(&[("enable-debug-command", who)]);
        let mut stream = client(&server);
        ask(&mut stream, &["DEBUG", "SLEEP", "0"], "+OK\r\n");
        for words in [
            &["DEBUG", "STRINGMATCH-LEN"][..],
            &["DEBUG", "STRINGMATCH-LEN", "5", "a*"],
            &["DEBUG", "CHANGE-REPL-ID", "x"],
            &["DEBUG", "HELP", "x"],
        ] {
            let name = words[1];
            let text = format!(
                "-ERR unknown subcommand or wrong number of arguments for '{name}'. Try DEBUG HELP.\r\n"
            );
            ask(&mut stream, words, &text);
        }
        stream.write_all(&request(&["DEBUG", "HELP"])).expect("the server reads");
        let mut head = [0; 1];
        stream.read_exact(&mut head).expect("the server answers");
        assert_eq!(head, *b"*");
    }
}

#[test]
fn wrong_save_points_are_refused() {
    let server = serve();
    let mut stream = client(&server);
    let refused = "-ERR CONFIG SET failed (possibly related to argument 'save') - Invalid save \
                   parameters\r\n";
    for wrong in ["x", "1", "1x", "10 x", "0 1", "10 -1", "  10   1  ", "10 1 5"] {
        ask(&mut stream, &["CONFIG", "SET", "save", wrong], refused);
    }
    for right in ["10 1", "900 1 300 10", "5 0", ""] {
        ask(&mut stream, &["CONFIG", "SET", "save", right], "+OK\r\n");
        let shown = format!("*2\r\n$4\r\nsave\r\n${}\r\n{right}\r\n", right.len());
        ask(&mut stream, &["CONFIG", "GET", "save"], &shown);
    }
}

/// A disk on which snapshots wait until they are let through.
#[derive(Debug, Clone)]
struct Gated {
    disk: SimDisk,
    open: Arc<(Mutex<bool>, Condvar)>,
}

impl Gated {
    fn let_through(&self) {
        *self.open.0.lock().expect("no panic") = true;
        self.open.1.notify_all();
    }

    fn pass(&self, name: &str) {
        if name.starts_with(SNAPSHOT_FILE) {
            let open = self.open.0.lock().expect("no panic");
            drop(self.open.1.wait_while(open, |open| !*open).expect("no panic"));
        }
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
        self.pass(to);
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

fn info(stream: &mut TcpStream) -> String {
    stream.write_all(&request(&["INFO", "persistence"])).expect("the server reads");
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    while !text.ends_with(b"\r\n\r\n") && !text.windows(23).any(|w| w == b"aof_last_write_status:o")
    {
        let count = stream.read(&mut piece).expect("the server answers");
        text.extend_from_slice(&piece[..count]);
        if String::from_utf8_lossy(&text).contains("aof_base_size:") {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_rewrite_during_a_save_is_scheduled_and_info_says_so() {
    let disk = Gated { disk: SimDisk::new(1), open: Arc::default() };
    let mut config = Config::loopback(0);
    config.engine.settings.set("appendonly", "yes").expect("a setting");
    config.journal = Some(open_journal_on(Arc::new(disk.clone())));
    let server = Server::start(config).expect("a server starts");
    let mut stream = client(&server);
    ask(&mut stream, &["SET", "a", "1"], "+OK\r\n");
    ask(&mut stream, &["BGSAVE"], "+Background saving started\r\n");
    // At once, not when the next look at the log is due.
    let mut other = client(&server);
    let told = info(&mut other);
    assert!(told.contains("rdb_bgsave_in_progress:1"), "{told}");
    ask(&mut stream, &["BGSAVE"], "-ERR Background save already in progress\r\n");
    let scheduled = "+Background append only file rewriting scheduled\r\n";
    ask(&mut stream, &["BGREWRITEAOF"], scheduled);
    ask(&mut stream, &["BGREWRITEAOF"], scheduled);
    let told = info(&mut client(&server));
    assert!(told.contains("aof_rewrite_scheduled:1"), "{told}");
    disk.let_through();
    eventually("the rewrite has run", || {
        let told = info(&mut client(&server));
        told.contains("aof_rewrite_scheduled:0")
            && told.contains("rdb_bgsave_in_progress:0")
            && told.contains("aof_rewrite_in_progress:0")
    });
    ask(&mut stream, &["GET", "a"], "$1\r\n1\r\n");
}
