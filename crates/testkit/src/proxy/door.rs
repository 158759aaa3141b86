//! The listening side: while it is closed nobody listens on the port, so that those who connect are
//! refused by the system itself.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::link::Link;
use super::shared::{Door, Shared};
use crate::port::free_port;

/// How often another port is tried at the start, or the own one when the door opens again.
const BIND_ATTEMPTS: usize = 50;
/// Pause before the own port is tried again.
const BIND_PAUSE: Duration = Duration::from_millis(20);
/// How long the door may take to open or close.
const DOOR_LIMIT: Duration = Duration::from_secs(5);

/// A listener on a free port, and that port.
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

/// Lets clients in, in a thread of its own, until the door is gone.
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
    // The one who connects to close the door is not a client.
    if shared.door().0 != Door::Open {
        return;
    }
    let id = shared.accepted.fetch_add(1, Ordering::SeqCst);
    // A server that is away: the client has been reset, which is all it can be told.
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

/// Asks for the door to be `wanted` and waits until it is.
pub(super) fn turn(shared: &Shared, port: u16, wanted: Door) {
    let was = {
        let mut door = shared.door();
        door.0 = wanted;
        door.1
    };
    shared.changed();
    if was == Door::Open && wanted != Door::Open {
        // The thread sits in accept; a connection wakes it.
        let _ = TcpStream::connect(("127.0.0.1", port));
    }
    if wanted != Door::Gone {
        shared.wait_until(DOOR_LIMIT, || shared.door().1 == wanted);
    }
}
