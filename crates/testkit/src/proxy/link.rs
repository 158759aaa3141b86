//! One connection through the proxy: the client's socket, the server's socket, and four threads.
//!
//! ```text
//! client ──▶ reader ──▶ queue ──▶ worker (rules) ──▶ server
//! client ◀── worker (pending, pushes) ◀── queue ◀── reader ◀── server
//! ```
//!
//! The queues carry the time of arrival, so that a delay adds latency and does not lower
//! throughput. Threads and not tasks: a test may stop its runtime's clock, and the proxy must
//! continue.
//!
//! Invariant: only the reply worker writes to the client, so the proxy's own answers stay in order
//! with those of the server.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(unix)]
use socket2::{Domain, SockAddr, Type};
use socket2::{SockRef, Socket};

use super::frame::{self, Front};
use super::pending::{Arrival, Pending};
use super::rules::{Fate, Flow};
use super::shared::{Direction, Shared};
use crate::client::Address;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Maximum chunks in a queue; beyond that the sender has to wait.
const QUEUE_CHUNKS: usize = 256;
/// How long one write blocks before it checks whether the connection was cut.
const WRITE_PATIENCE: Duration = Duration::from_millis(50);
/// Maximum time for connecting to the server; other clients wait at the door meanwhile.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// Threads of a link.
const THREADS: usize = 4;

enum Event {
    Bytes(Instant, Vec<u8>),
    /// The proxy has its own answer.
    OwnAnswer(Instant),
    /// The sender closed its side.
    End(Instant),
}

/// A connection through the proxy.
pub(super) struct Link {
    id: u64,
    client: TcpStream,
    server: Socket,
    dead: AtomicBool,
    /// Bytes were dropped: the rest of the stream cannot be parsed any more.
    pub(super) broken: AtomicBool,
    /// A replica replicates its primary here: after PSYNC there are no requests and replies any
    /// more.
    opaque: AtomicBool,
    threads: AtomicUsize,
    pending: Mutex<Pending>,
    shared: Arc<Shared>,
}

impl Link {
    /// Takes over a client's connection.
    pub(super) fn open(id: u64, client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
        let server = match connect(&shared.upstream) {
            Ok(server) => server,
            Err(error) => {
                reset(&client);
                return Err(error);
            }
        };
        client.set_nodelay(true)?;
        client.set_write_timeout(Some(WRITE_PATIENCE))?;
        server.set_write_timeout(Some(WRITE_PATIENCE))?;
        let link = Arc::new(Self {
            id,
            client,
            server,
            dead: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            opaque: AtomicBool::new(false),
            threads: AtomicUsize::new(THREADS),
            pending: Mutex::default(),
            shared: Arc::clone(shared),
        });
        shared.links().insert(id, Arc::clone(&link));
        let (requests, request_queue) = sync_channel(QUEUE_CHUNKS);
        let (replies, reply_queue) = sync_channel(QUEUE_CHUNKS);
        let own_answers = replies.clone();
        link.run(move |link| link.read(&link.client, &requests))?;
        link.run(move |link| link.carry_requests(&request_queue, &own_answers))?;
        link.run(move |link| link.read(&link.server, &replies))?;
        link.run(move |link| link.carry_replies(&reply_queue))
    }

    /// Resets the client's connection and closes the server's.
    pub(super) fn cut(&self) {
        // Undelivered bytes are discarded, and the client sees a reset.
        reset(&self.client);
        self.end();
    }

    /// Wakes the threads, which then exit.
    fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
        // Only the reading half: shutting down the other one would be a clean close.
        let _ = self.client.shutdown(Shutdown::Read);
        let _ = self.server.shutdown(Shutdown::Both);
        self.shared.changed();
    }

    fn run(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) -> io::Result<()> {
        let link = Arc::clone(self);
        let body = move || {
            work(&link);
            if link.threads.fetch_sub(1, Ordering::SeqCst) == 1 {
                link.shared.links().remove(&link.id);
                let shared = Arc::clone(&link.shared);
                // The sockets close here, before waiting threads are notified.
                drop(link);
                shared.changed();
            }
        };
        thread::Builder::new().name("fault-proxy".to_owned()).spawn(body).map(drop)
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    fn is_opaque(&self) -> bool {
        self.opaque.load(Ordering::SeqCst)
    }

    /// Moves received bytes into the queue.
    fn read(&self, mut from: impl Read, queue: &SyncSender<Event>) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while !self.is_dead() {
            match from.read(&mut chunk) {
                Ok(0) => {
                    // If the receiver is gone, no thread is left to notify.
                    let _ = queue.send(Event::End(Instant::now()));
                    break;
                }
                Ok(count) => {
                    let event = Event::Bytes(Instant::now(), chunk[..count].to_vec());
                    if queue.send(event).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // Reset by the peer: the other side learns of it at once.
                    self.cut();
                    break;
                }
            }
        }
    }

    fn carry_requests(&self, queue: &Receiver<Event>, own_answers: &SyncSender<Event>) {
        let mut buffer = Vec::new();
        while let Some((bytes, ended)) = self.next(queue, Direction::Requests) {
            buffer.extend_from_slice(&bytes);
            if ended || !self.send_requests(&mut buffer, own_answers) {
                break;
            }
        }
        // The client closed its side; the server sends what it has and does the same.
        let _ = self.server.shutdown(Shutdown::Write);
    }

    /// Waits for the next bytes that are due. Returns them and whether they were the last, or
    /// `None` if the connection is gone.
    fn next(&self, queue: &Receiver<Event>, direction: Direction) -> Option<(Vec<u8>, bool)> {
        loop {
            let (arrived, bytes, ended) = match queue.recv().ok()? {
                Event::Bytes(arrived, bytes) => (arrived, bytes, false),
                Event::OwnAnswer(arrived) => (arrived, Vec::new(), false),
                Event::End(arrived) => (arrived, Vec::new(), true),
            };
            match self.shared.wait(direction, arrived, &self.dead)? {
                Flow::Swallowed => self.broken.store(true, Ordering::SeqCst),
                _ => return Some((bytes, ended)),
            }
        }
    }

    /// Judges and sends each complete request. Returns `false` if the connection was cut.
    fn send_requests(&self, buffer: &mut Vec<u8>, own_answers: &SyncSender<Event>) -> bool {
        let mut taken = 0;
        let mut outgoing = Vec::new();
        loop {
            let rest = &buffer[taken..];
            if self.is_opaque() {
                outgoing.extend_from_slice(rest);
                taken = buffer.len();
                break;
            }
            let (command, length) = match frame::request(rest) {
                Front::Whole(command, length) => (command, length),
                Front::Partial => break,
                // The server reports the error.
                Front::Foreign => (Vec::new(), rest.len()),
            };
            let bytes = &rest[..length];
            taken += length;
            if command.first().is_some_and(|name| is_copying(name)) {
                self.opaque.store(true, Ordering::SeqCst);
                outgoing.extend_from_slice(bytes);
                continue;
            }
            // Redis ignores an empty request.
            let fate =
                if command.is_empty() { Fate::Pass } else { self.shared.rules().judge(&command) };
            if fate == Fate::LoseRequest {
                // Earlier requests are sent first; then the connection ends.
                let _ = self.write(&self.server, &outgoing);
                self.cut();
                return false;
            }
            if let Fate::HoldRequest(rule) = fate {
                // Earlier requests are sent first.
                if self.write(&self.server, &std::mem::take(&mut outgoing)).is_err() {
                    return false;
                }
                self.shared.hold(rule, &self.dead);
            }
            if !command.is_empty() {
                self.pending().push(&command, fate.clone());
            }
            if matches!(fate, Fate::Answer(_)) {
                if own_answers.send(Event::OwnAnswer(Instant::now())).is_err() {
                    return false;
                }
            } else {
                outgoing.extend_from_slice(bytes);
            }
        }
        buffer.drain(..taken);
        self.write(&self.server, &outgoing).is_ok()
    }

    fn carry_replies(&self, queue: &Receiver<Event>) {
        let mut buffer = Vec::new();
        while let Some((bytes, ended)) = self.next(queue, Direction::Replies) {
            buffer.extend_from_slice(&bytes);
            if !self.send_replies(&mut buffer) {
                return;
            }
            if ended {
                break;
            }
        }
        if !self.is_dead() {
            let _ = self.client.shutdown(Shutdown::Both);
            self.end();
        }
    }

    /// Forwards or drops each complete reply. Returns `false` if the connection was cut.
    fn send_replies(&self, buffer: &mut Vec<u8>) -> bool {
        let mut taken = 0;
        let mut outgoing = Vec::new();
        loop {
            while let Some(answer) = self.pending().own_answer() {
                outgoing.extend_from_slice(&answer);
            }
            let rest = &buffer[taken..];
            if self.is_opaque() {
                outgoing.extend_from_slice(rest);
                taken = buffer.len();
                break;
            }
            let length = match frame::reply(rest) {
                Front::Whole((), length) => length,
                Front::Partial => break,
                Front::Foreign => rest.len(),
            };
            let bytes = &rest[..length];
            taken += length;
            let arrival = self.pending().arrive(bytes);
            match arrival {
                Arrival::Answer(Fate::LoseReply) | Arrival::Part(Fate::LoseReply) => {
                    let _ = self.write(&self.client, &outgoing);
                    self.cut();
                    return false;
                }
                Arrival::Answer(Fate::HoldReply(rule)) | Arrival::Part(Fate::HoldReply(rule)) => {
                    if self.write(&self.client, &std::mem::take(&mut outgoing)).is_err() {
                        return false;
                    }
                    self.shared.hold(rule, &self.dead);
                    outgoing.extend_from_slice(bytes);
                }
                Arrival::Message(channel) if self.shared.rules().loses_push(&channel) => {}
                _ => outgoing.extend_from_slice(bytes),
            }
        }
        buffer.drain(..taken);
        self.write(&self.client, &outgoing).is_ok()
    }

    /// Writes everything, unless the connection is cut meanwhile.
    fn write(&self, mut to: impl Write, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match to.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_patience(&error) && !self.is_dead() => {}
                Err(error) => {
                    self.cut();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn pending(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(upstream: &Address) -> io::Result<Socket> {
    match upstream {
        Address::Tcp(port) => {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let stream = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }
        #[cfg(unix)]
        Address::Unix(path) => {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.connect(&SockAddr::unix(path)?)?;
            Ok(socket)
        }
    }
}

/// Returns `true` if a command turns its connection into a replication stream.
fn is_copying(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"PSYNC") || name.eq_ignore_ascii_case(b"SYNC")
}

/// Returns `true` if a write only exceeded its time limit.
fn is_patience(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Makes `stream` end with a reset instead of a clean close.
pub(super) fn reset(stream: &TcpStream) {
    // A socket that is gone already needs no reset.
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}
