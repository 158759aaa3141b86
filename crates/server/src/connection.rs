//! One client on a socket: the stream and the bytes that are being sent to it.
//!
//! Output is swapped out of the engine as a whole, never copied, and only when the previous output
//! has left completely; until then it stays in the session. So a slow reader holds at most two
//! buffers, and the engine's lock is never held during a system call.

use std::io::{self, IoSlice, Read, Write};

use mio::{
    Interest, Registry, Token,
    net::{TcpStream, UnixStream},
};
use seawall_engine::{Ack, Engine, Output as Outgoing, SessionId};

use crate::acks;

/// A drained buffer above this capacity is returned to the allocator.
const KEPT_CAPACITY: usize = 64 * 1024;
/// Maximum slices per write call.
const SLICES_AT_ONCE: usize = 16;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    /// Writes from the front of `out`.
    fn write(&mut self, out: &Outgoing) -> io::Result<usize> {
        let front = out.front();
        if front.len() == out.len() {
            return match self {
                Self::Tcp(stream) => stream.write(front),
                Self::Unix(stream) => stream.write(front),
            };
        }
        let mut slices = [IoSlice::new(&[]); SLICES_AT_ONCE];
        let mut count = 0;
        for (slot, slice) in slices.iter_mut().zip(out.slices()) {
            *slot = IoSlice::new(slice);
            count += 1;
        }
        match self {
            Self::Tcp(stream) => stream.write_vectored(&slices[..count]),
            Self::Unix(stream) => stream.write_vectored(&slices[..count]),
        }
    }

    /// Watches the socket for input.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Unix(stream) => registry.register(stream, token, Interest::READABLE),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, what: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => registry.reregister(stream, token, what),
            Self::Unix(stream) => registry.reregister(stream, token, what),
        }
    }

    /// Stops watching the socket.
    pub(crate) fn deregister(&mut self, registry: &Registry) {
        // It fails only for a socket that is not registered, which is the state we want.
        let _ = match self {
            Self::Tcp(stream) => registry.deregister(stream),
            Self::Unix(stream) => registry.deregister(stream),
        };
    }
}

/// Outcome of an attempt to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// Number of bytes read.
    Bytes(usize),
    /// No input at the moment.
    Nothing,
    /// The client sends nothing more.
    End,
    /// The socket is broken.
    Broken,
}

/// Outcome of an attempt to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// All output has left.
    Done,
    /// The socket accepts no more at the moment; the loop is notified when it does.
    Blocked,
    /// The socket is broken.
    Broken,
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Accepts input.
    Open,
    /// Ends once its output has left; accepts no input.
    Closing,
    /// Ends now; its output is dropped.
    Doomed,
}

/// One client on a socket.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) socket: Socket,
    pub(crate) session: SessionId,
    pub(crate) stage: Stage,
    /// Output that has left the engine.
    out: Outgoing,
    /// The parts of `out` that acknowledge changes.
    acks: Vec<Ack>,
    /// Last value of [`Connection::unsent`] that was reported to the engine.
    pub(crate) told: usize,
    /// Position of the log that `out` waits for.
    pub(crate) barrier: u64,
    /// The kernel may hold unread input.
    pub(crate) readable: bool,
    /// The kernel reported that the client sends nothing more.
    pub(crate) peer_closed: bool,
    /// The session accepts no input at the moment.
    pub(crate) paused: bool,
    /// On the loop's list of connections to check.
    pub(crate) dirty: bool,
    /// On the loop's list of connections to read from.
    pub(crate) queued: bool,
    /// The loop is notified when the socket becomes writable.
    armed: bool,
    /// The session is open in the engine.
    pub(crate) in_engine: bool,
    /// The session has output left in the engine, because `out` has not left yet.
    pub(crate) more: bool,
    /// When the client last sent something, in monotonic milliseconds.
    pub(crate) active_ms: u64,
    /// Since when its output is above the soft limit, in monotonic milliseconds.
    pub(crate) soft_since_ms: Option<u64>,
}

impl Connection {
    pub(crate) fn new(socket: Socket, session: SessionId, now_ms: u64) -> Self {
        Self {
            socket,
            session,
            stage: Stage::Open,
            out: Outgoing::default(),
            acks: Vec::new(),
            told: 0,
            barrier: 0,
            readable: false,
            peer_closed: false,
            paused: false,
            dirty: false,
            queued: false,
            armed: false,
            in_engine: true,
            more: false,
            active_ms: now_ms,
            soft_since_ms: None,
        }
    }

    /// Returns the bytes that left the engine but not this process.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Swaps the session's output out of the engine, if the previous buffer has left.
    pub(crate) fn take(&mut self, engine: &mut Engine, barrier: u64) {
        let Some(output) = engine.output(self.session) else { return };
        if self.out.is_empty() && !output.is_empty() {
            std::mem::swap(&mut self.out, output);
            self.barrier = barrier;
            self.more = false;
            self.acks.clear();
            engine.take_acks(self.session, &mut self.acks);
        } else if self.stage == Stage::Closing {
            // The session is about to be removed; its output is taken along.
            let before = self.out.append(output);
            self.barrier = barrier;
            self.more = false;
            let known = self.acks.len();
            engine.take_acks(self.session, &mut self.acks);
            acks::shift(&mut self.acks[known..], before);
        } else {
            self.more = !output.is_empty();
        }
    }

    /// Replaces the replies whose changes the log could not accept with an error. Returns `false`
    /// if one of them cannot be replaced.
    pub(crate) fn confess(&mut self, why: &str) -> bool {
        acks::confess(&mut self.out, &mut self.acks, why)
    }

    /// Reads once.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Input {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Input::End,
                Ok(count) => {
                    // A short read emptied the socket, so the next byte is a new event. The
                    // exception is the end of input, which is announced only once.
                    self.readable = count == buffer.len() || self.peer_closed;
                    return Input::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Input::Nothing;
                }
                Err(_) => return Input::Broken,
            }
        }
    }

    /// Writes the output that has left the engine, as far as the socket accepts it.
    pub(crate) fn write(&mut self, registry: &Registry, token: Token) -> Output {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(0) => return Output::Broken,
                Ok(count) => self.out.advance(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return self.arm(registry, token);
                }
                Err(_) => return Output::Broken,
            }
        }
        self.out.clear(KEPT_CAPACITY);
        if self.armed {
            self.armed = false;
            if self.socket.reregister(registry, token, Interest::READABLE).is_err() {
                return Output::Broken;
            }
        }
        Output::Done
    }

    fn arm(&mut self, registry: &Registry, token: Token) -> Output {
        if !self.armed {
            let both = Interest::READABLE | Interest::WRITABLE;
            if self.socket.reregister(registry, token, both).is_err() {
                return Output::Broken;
            }
            self.armed = true;
        }
        Output::Blocked
    }
}
