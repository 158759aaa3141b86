//! A blocking RESP client that hides nothing: it sends what it is given and returns each reply as
//! received, pushes included.
//!
//! Every read has a time limit, so that a server that does not answer fails a test instead of
//! hanging it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use crate::reply::{Reply, parse};

/// Read timeout, unless [`Client::set_timeout`] changes it.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A port on 127.0.0.1.
    Tcp(u16),
    /// A unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
}

enum Stream {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

/// One connection to a server.
pub struct Client {
    stream: Stream,
    received: Vec<u8>,
    /// Bytes of `received` that were already returned.
    taken: usize,
    timeout: Duration,
}

impl Client {
    /// Connects to `address`.
    ///
    /// # Errors
    ///
    /// If no server listens there.
    pub fn connect(address: &Address) -> io::Result<Self> {
        let stream = match address {
            Address::Tcp(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port))?;
                stream.set_nodelay(true)?;
                Stream::Tcp(stream)
            }
            #[cfg(unix)]
            Address::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
        };
        let mut client = Self { stream, received: Vec::new(), taken: 0, timeout: DEFAULT_TIMEOUT };
        client.set_timeout(DEFAULT_TIMEOUT)?;
        Ok(client)
    }

    /// Limits how long [`Client::read`] waits for bytes.
    ///
    /// # Errors
    ///
    /// If the system refuses the limit, as it does for zero.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.timeout = timeout;
        self.apply_timeout(timeout)
    }

    /// Sends one command and waits for one reply.
    ///
    /// # Errors
    ///
    /// If the connection ends, the time is up, or the reply is not RESP.
    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Reply> {
        self.send(args)?;
        self.read()
    }

    /// Sends one command as an array of bulk strings.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        let mut wire = Vec::new();
        encode(&mut wire, args);
        self.send_raw(&wire)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            Stream::Tcp(stream) => stream.write_all(bytes),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }

    /// Waits for one reply or push.
    ///
    /// # Errors
    ///
    /// `TimedOut` if the time is up, `UnexpectedEof` if the server closed the connection,
    /// `InvalidData` if the bytes are not RESP.
    pub fn read(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = self.buffered()? {
                return Ok(reply);
            }
            if self.fill()? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ));
            }
        }
    }

    /// Waits at most `limit` for one reply. Returns `None` if none came.
    ///
    /// # Errors
    ///
    /// As [`Client::read`], except time-outs.
    pub fn read_within(&mut self, limit: Duration) -> io::Result<Option<Reply>> {
        self.apply_timeout(limit)?;
        let outcome = self.read();
        self.apply_timeout(self.timeout)?;
        match outcome {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a reply that has already arrived, without waiting, or `None`.
    ///
    /// # Errors
    ///
    /// As [`Client::read`], except time-outs.
    pub fn read_now(&mut self) -> io::Result<Option<Reply>> {
        if let Some(reply) = self.buffered()? {
            return Ok(Some(reply));
        }
        self.set_nonblocking(true)?;
        let filled = self.fill();
        self.set_nonblocking(false)?;
        match filled {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the server")),
            Ok(_) => self.buffered(),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns a reply that is already buffered.
    fn buffered(&mut self) -> io::Result<Option<Reply>> {
        let rest = &self.received[self.taken..];
        let parsed = parse(rest).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        let Some((reply, used)) = parsed else { return Ok(None) };
        self.taken += used;
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
        Ok(Some(reply))
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; 16 * 1024];
        let outcome = match &mut self.stream {
            Stream::Tcp(stream) => stream.read(&mut chunk),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.read(&mut chunk),
        };
        match outcome {
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                Ok(count)
            }
            // Depending on the system, a socket time limit shows as either kind.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "no reply came in time"))
            }
            Err(error) => Err(error),
        }
    }

    fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_nonblocking(on),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.set_nonblocking(on),
        }
    }

    fn apply_timeout(&self, timeout: Duration) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }
}

/// Appends one command to `wire` as an array of bulk strings.
pub(crate) fn encode<A: AsRef<[u8]>>(wire: &mut Vec<u8>, args: &[A]) {
    wire.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        wire.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        wire.extend_from_slice(arg);
        wire.extend_from_slice(b"\r\n");
    }
}
