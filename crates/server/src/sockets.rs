//! The event loop's sockets: connected clients, clients with input, clients with output to send.
//!
//! Readiness is edge-triggered: the kernel reports a change once, so a connection remembers that it
//! may have input until a read says otherwise. Each connection is read once a turn, in the order of
//! the events, so that one busy client cannot starve the others.

use std::{
    collections::VecDeque,
    io::{self, Write},
    mem,
    time::Duration,
};

use mio::{Events, Poll, Token, event::Event};
use seawall_engine::{Peer, Settings, Transport};
use slab::Slab;

use crate::{
    connection::{Connection, Output, Socket},
    hub::{Hub, Route},
    listener::{Accepted, Listener},
    notice::Level,
};

/// Wakes the loop from other threads.
pub(crate) const WAKE: Token = Token(usize::MAX);
/// Listeners count down from here; connections count up from 0.
const FIRST_LISTENER: usize = usize::MAX - 1;
/// Clients accepted from one listener per turn.
const ACCEPTS_A_TURN: usize = 256;
/// Events taken from the kernel per turn.
const EVENTS_A_TURN: usize = 1024;

/// Settings that accepting depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Admission {
    pub(crate) max_clients: usize,
    pub(crate) keepalive: Option<Duration>,
}

impl Admission {
    /// Reads the current settings.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self {
            max_clients: usize::try_from(settings.maxclients).unwrap_or(0),
            keepalive: u64::try_from(settings.tcp_keepalive)
                .ok()
                .filter(|&seconds| seconds > 0)
                .map(Duration::from_secs),
        }
    }
}

/// All sockets of one server.
pub(crate) struct Sockets {
    poll: Poll,
    /// Taken out while a turn iterates over it; a nested turn makes its own.
    events: Option<Events>,
    listeners: Vec<Listener>,
    /// Listeners that may have more waiting clients.
    accepting: Vec<usize>,
    accept_failed: bool,
    pub(crate) connections: Slab<Connection>,
    /// Connections that may have input.
    pub(crate) ready: VecDeque<usize>,
    /// Connections that may have output or whose state may have changed.
    pub(crate) dirty: Vec<usize>,
    /// Connections that sent much output, which the engine has not been told yet.
    pub(crate) sent: Vec<usize>,
    /// Connections whose replies wait for the log.
    pub(crate) held: Vec<usize>,
    /// Connections whose requests are being executed, outermost first.
    pub(crate) executing: Vec<usize>,
    /// Kept for its capacity.
    pub(crate) touched: Vec<usize>,
    pub(crate) now_ms: u64,
    pub(crate) admission: Admission,
}

impl Sockets {
    pub(crate) fn new(
        poll: Poll,
        mut listeners: Vec<Listener>,
        admission: Admission,
    ) -> io::Result<Self> {
        for (at, listener) in listeners.iter_mut().enumerate() {
            listener.register(poll.registry(), Token(FIRST_LISTENER - at))?;
        }
        Ok(Self {
            poll,
            events: None,
            listeners,
            accepting: Vec::new(),
            accept_failed: false,
            connections: Slab::new(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            sent: Vec::new(),
            held: Vec::new(),
            executing: Vec::new(),
            touched: Vec::new(),
            now_ms: 0,
            admission,
        })
    }

    /// Waits for events and records what each connection is ready for.
    pub(crate) fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let busy = !self.ready.is_empty() || !self.accepting.is_empty();
        let timeout = if busy { Duration::ZERO } else { timeout };
        let mut events = self.events.take().unwrap_or_else(|| Events::with_capacity(EVENTS_A_TURN));
        let result = match self.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        };
        if result.is_ok() {
            events.iter().for_each(|event| self.note(event));
        }
        self.events = Some(events);
        result
    }

    fn note(&mut self, event: &Event) {
        let Token(token) = event.token();
        if event.token() == WAKE {
            return;
        }
        let listener = FIRST_LISTENER - token;
        if listener < self.listeners.len() {
            if !self.accepting.contains(&listener) {
                self.accepting.push(listener);
            }
            return;
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.readable = true;
            connection.peer_closed |= event.is_read_closed() || event.is_error();
            self.queue(token);
        }
        if event.is_writable() {
            self.mark(token);
        }
    }

    /// Puts a connection on the list of those to read from.
    pub(crate) fn queue(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push_back(slot);
        }
    }

    /// Puts a connection on the list of those to check before sleeping.
    pub(crate) fn mark(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Accepts waiting clients, a bounded number from each listener.
    pub(crate) fn accept(&mut self, hub: &Hub) {
        let mut at = 0;
        while let Some(&listener) = self.accepting.get(at) {
            let mut left = ACCEPTS_A_TURN;
            let more = loop {
                if left == 0 {
                    break true;
                }
                left -= 1;
                match self.listeners[listener].accept(self.admission.keepalive) {
                    Ok(accepted) => self.admit(hub, accepted),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                    Err(error) if is_passing(&error) => {}
                    Err(error) => {
                        // Most likely too many open files: retry with the next tick.
                        hub.notices
                            .tell(Level::Warning, format_args!("cannot accept a client: {error}"));
                        self.accept_failed = true;
                        break false;
                    }
                }
            };
            if more {
                at += 1;
            } else {
                self.accepting.swap_remove(at);
            }
        }
    }

    /// Retries all listeners: after a failed accept, the kernel does not report waiting clients
    /// again.
    pub(crate) fn retry_accept(&mut self) {
        if mem::take(&mut self.accept_failed) {
            self.accepting.clear();
            self.accepting.extend(0..self.listeners.len());
        }
    }

    fn admit(&mut self, hub: &Hub, accepted: Accepted) {
        let Accepted { mut socket, peer, local } = accepted;
        if self.connections.len() >= self.admission.max_clients {
            refuse(&mut socket);
            hub.count_rejected();
            return;
        }
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        if socket.register(self.poll.registry(), Token(slot)).is_err() {
            return;
        }
        let transport = match socket {
            Socket::Tcp(_) => Transport::Tcp,
            Socket::Unix(_) => Transport::Unix,
        };
        let session = hub.core.open(Peer { addr: peer, local_addr: local, transport });
        hub.add_route(session, Route::Socket(slot));
        entry.insert(Connection::new(socket, session, self.now_ms));
    }

    /// Closes all listening sockets.
    pub(crate) fn stop_listening(&mut self) {
        self.accepting.clear();
        self.listeners.clear();
    }

    /// Writes a connection's output.
    pub(crate) fn write(&mut self, slot: usize) -> Output {
        let registry = self.poll.registry();
        self.connections
            .get_mut(slot)
            .map_or(Output::Done, |connection| connection.write(registry, Token(slot)))
    }

    /// Ends a connection and drops its remaining output.
    pub(crate) fn remove(&mut self, hub: &Hub, slot: usize) {
        if let Some(mut connection) = self.connections.try_remove(slot) {
            connection.socket.deregister(self.poll.registry());
            if connection.in_engine {
                hub.close(connection.session);
            }
        }
    }
}

/// Sends the reason, as far as the socket accepts it, and closes.
fn refuse(socket: &mut Socket) {
    const FULL: &[u8] = b"-ERR max number of clients reached\r\n";
    // A client that cannot accept 36 bytes only sees the connection close.
    let _ = match socket {
        Socket::Tcp(stream) => stream.write(FULL),
        Socket::Unix(stream) => stream.write(FULL),
    };
}

/// Returns `true` if only this client failed, so that the next may be accepted.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted)
}
