//! The listening side. While the door is closed no socket listens on the port, so the system itself
//! refuses connections.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::link::Link;
use super::shared::{Door, Shared};
use crate::port::free_port;

/// Maximum attempts: with other ports at the start, with the same port when the door opens again.
const BIND_ATTEMPTS: usize = 50;
/// Pause before the same port is tried again.
const BIND_PAUSE: Duration = Duration::from_millis(20);
/// Maximum time for the door to open or close.
const DOOR_LIMIT: Duration = Duration::from_secs(5);

/// Returns a listener on a free port, and that port.
pub(super) fn listen() -> io::Result<(TcpListener, u16)> {
    let mut last = io::Error::other("not tried");
    for _ in 0..BIND_ATTEMPTS {
        let port = free_port()?;
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(listener) => return Ok((listener, port)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Accepts clients, on a separate thread, until the proxy ends.
pub(super) fn attend(
    listener: TcpListener,
    port: u16,
    shared: Arc<Shared>,
) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("fault-proxy-door".to_owned()).spawn(move || {
        let mut listener = Some(listener);
        loop {
            let wanted = shared.door().0;
            match (wanted, &listener) {
                (Door::Gone, _) => return,
                (Door::Closed, _) => {
                    listener = None;
                    shared.door().1 = Door::Closed;
                    shared.changed();
                    shared.wait_until(Duration::from_secs(60), || shared.door().0 != Door::Closed);
                }
                (Door::Open, None) => {
                    listener = rebind(port);
                    if listener.is_some() {
                        shared.door().1 = Door::Open;
                        shared.changed();
                    }
                }
                (Door::Open, Some(open)) => {
                    if let Ok((client, _)) = open.accept() {
                        admit(client, &shared);
                    }
                }
            }
        }
    })
}

fn admit(client: TcpStream, shared: &Arc<Shared>) {
    // The connection that wakes the thread to close the door is not a client.
    if shared.door().0 != Door::Open {
        return;
    }
    let id = shared.accepted.fetch_add(1, Ordering::SeqCst);
    // The server is unreachable: the client has been reset, which is all it can learn.
    let _ = Link::open(id, client, shared);
}

fn rebind(port: u16) -> Option<TcpListener> {
    for _ in 0..BIND_ATTEMPTS {
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return Some(listener);
        }
        thread::sleep(BIND_PAUSE);
    }
    None
}

/// Requests the door to be `wanted` and waits until it is.
pub(super) fn turn(shared: &Shared, port: u16, wanted: Door) {
    let was = {
        let mut door = shared.door();
        door.0 = wanted;
        door.1
    };
    shared.changed();
    if was == Door::Open && wanted != Door::Open {
        // The thread blocks in accept; a connection wakes it.
        let _ = TcpStream::connect(("127.0.0.1", port));
    }
    if wanted != Door::Gone {
        shared.wait_until(DOOR_LIMIT, || shared.door().1 == wanted);
    }
}
