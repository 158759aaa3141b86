//! A relay that measures what commands move: the largest request and reply, in bytes and in items.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use seawall_testkit::{Reply, parse};

/// The largest that went through.
#[derive(Debug, Default)]
pub(crate) struct Largest {
    bytes: AtomicUsize,
    items: AtomicUsize,
}

impl Largest {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn items(&self) -> usize {
        self.items.load(Ordering::SeqCst)
    }

    fn see(&self, frame: &Reply, bytes: usize) {
        self.bytes.fetch_max(bytes, Ordering::SeqCst);
        self.items.fetch_max(items(frame), Ordering::SeqCst);
    }
}

/// Items on one level; a script's answer may hold a list inside.
fn items(frame: &Reply) -> usize {
    frame.items().len().max(frame.items().iter().map(items).max().unwrap_or(0))
}

/// Starts a relay to a server on this machine; the port to connect to, and what it saw. It ends with
/// the test's process.
pub(crate) fn start(upstream_port: u16) -> (u16, Arc<Largest>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let largest = Arc::new(Largest::default());
    let seen = Arc::clone(&largest);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", upstream_port)) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (from, to) = (from.try_clone().expect("open"), to.try_clone().expect("open"));
                let seen = Arc::clone(&seen);
                thread::spawn(move || copy(from, to, &seen));
            }
        }
    });
    (port, largest)
}

fn copy(mut from: TcpStream, mut to: TcpStream, seen: &Largest) {
    let (mut held, mut buffer) = (Vec::new(), vec![0; 1 << 18]);
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
        held.extend_from_slice(&buffer[..count]);
        let mut done = 0;
        while let Ok(Some((frame, length))) = parse(&held[done..]) {
            seen.see(&frame, length);
            done += length;
        }
        held.drain(..done);
    }
    let _ = to.shutdown(Shutdown::Both);
}
