//! One client on a socket: the stream and the bytes on their way to it.
//!
//! Output is swapped out of the engine as a whole, never copied, and only when the output before it
//! has left entirely; until then it stays in the session. So a slow reader holds at most two of them,
//! and the engine's lock is never held during a system call.

use std::io::{self, IoSlice, Read, Write};

use mio::{
    Interest, Registry, Token,
    net::{TcpStream, UnixStream},
};
use seawall_engine::{Ack, Engine, Output as Outgoing, SessionId};

use crate::acks;

/// A drained buffer above this capacity is given back to the allocator.
const KEPT_CAPACITY: usize = 64 * 1024;
/// Slices that are handed to the system at once.
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

/// What became of an attempt to read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// This many bytes were read.
    Bytes(usize),
    /// Nothing there now.
    Nothing,
    /// The client sends nothing more.
    End,
    /// The socket is broken.
    Broken,
}

/// What became of an attempt to write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Everything left.
    Done,
    /// The socket takes no more for now; the loop is told when it does.
    Blocked,
    /// The socket is broken.
    Broken,
}

/// How far a connection has come in ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Takes input.
    Open,
    /// Ends once its output has left; takes no input.
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
    /// Which parts of `out` acknowledge changes.
    acks: Vec<Ack>,
    /// What the engine was last told of [`Connection::unsent`].
    pub(crate) told: usize,
    /// Position of the log that `out` waits for.
    pub(crate) barrier: u64,
    /// The kernel may hold input that was not read.
    pub(crate) readable: bool,
    /// The kernel said that the client sends nothing more.
    pub(crate) peer_closed: bool,
    /// The session takes no input now.
    pub(crate) paused: bool,
    /// Is on the loop's list of connections to look at.
    pub(crate) dirty: bool,
    /// Is on the loop's list of connections to read from.
    pub(crate) queued: bool,
    /// The loop is told when the socket can be written.
    armed: bool,
    /// The session is open in the engine.
    pub(crate) in_engine: bool,
    /// The session has output that was left in the engine, because `out` has not left yet.
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

    /// Bytes that left the engine but not this process.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len()
    }

    /// Swaps the session's output out of the engine, if the buffer before it has left.
    pub(crate) fn take(&mut self, engine: &mut Engine, barrier: u64) {
        let Some(output) = engine.output(self.session) else { return };
        if self.out.is_empty() && !output.is_empty() {
            std::mem::swap(&mut self.out, output);
            self.barrier = barrier;
            self.more = false;
            self.acks.clear();
            engine.take_acks(self.session, &mut self.acks);
        } else if self.stage == Stage::Closing {
            // The session is about to go; what it said comes along.
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

    /// Exchanges the replies whose changes the log could not take for an error that says so. Says
    /// no if one of them cannot be exchanged.
    pub(crate) fn confess(&mut self, why: &str) -> bool {
        acks::confess(&mut self.out, &mut self.acks, why)
    }

    /// Reads once.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Input {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Input::End,
                Ok(count) => {
                    // A short read emptied the socket: the next byte is a new event. Unless the end
                    // was announced, which is announced only once.
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

    /// Writes what has left the engine, as far as the socket takes it.
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
