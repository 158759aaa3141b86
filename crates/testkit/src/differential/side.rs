//! One of the two servers: its process, and the connections of the current episode.

use std::io;
use std::time::Duration;

use super::generate::CONNECTIONS;
use crate::builder::ServerBuilder;
use crate::client::Client;
use crate::process::ServerProcess;
use crate::reply::Reply;

/// Maximum time for a reply; a busy machine may keep a server from running for seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Settings that episodes change, with Redis' defaults.
const DEFAULTS: [&str; 14] = [
    "CONFIG",
    "SET",
    "hash-max-listpack-entries",
    "512",
    "hash-max-listpack-value",
    "64",
    "zset-max-listpack-entries",
    "128",
    "zset-max-listpack-value",
    "64",
    "set-max-intset-entries",
    "512",
    "list-max-listpack-size",
    "-2",
];

/// Replies and messages in the order of arrival; a final `None` if the connection was closed.
pub(super) type Events = Vec<Option<Reply>>;

/// A server under comparison.
pub(super) struct Side {
    builder: ServerBuilder,
    server: ServerProcess,
    control: Client,
    connections: Vec<Option<Client>>,
}

impl Side {
    pub(super) fn new(builder: ServerBuilder) -> io::Result<Self> {
        let server = builder.start()?;
        let mut control = server.connect()?;
        control.set_timeout(PATIENCE)?;
        let connections = (0..CONNECTIONS).map(|_| None).collect();
        Ok(Self { builder, server, control, connections })
    }

    /// Restarts the server after a crash or a hang.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        // The old server is dropped, and so stopped, first: both might use the same files.
        *self = Self::new(self.builder.clone())?;
        Ok(())
    }

    /// Returns the server's output, for a report about its end.
    pub(super) fn log(&self) -> String {
        self.server.log()
    }

    /// Resets everything: connections, data, scripts, settings.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        let used = self.connections.iter().any(Option::is_some);
        for connection in &mut self.connections {
            *connection = None;
        }
        if used {
            // A blocked client must be gone before the next episode pushes something for it.
            for kind in ["normal", "pubsub"] {
                self.control.call(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"])?;
            }
            self.settle()?;
        }
        for command in [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["FUNCTION", "FLUSH"], &DEFAULTS]
        {
            self.control.call(command)?;
        }
        Ok(())
    }

    /// Returns the connection with this number, opened if it is new or was closed.
    ///
    /// A new connection is probed first: until the server has accepted it, its commands run after
    /// those that other connections sent later.
    pub(super) fn connection(&mut self, number: usize) -> io::Result<&mut Client> {
        let slot = &mut self.connections[number];
        match slot {
            Some(client) => Ok(client),
            empty => {
                let mut client = self.server.connect()?;
                client.set_timeout(PATIENCE)?;
                client.call(&["PING"])?;
                Ok(empty.insert(client))
            }
        }
    }

    pub(super) fn control(&mut self) -> &mut Client {
        &mut self.control
    }

    /// Waits until the server has sent all pending output to all clients.
    ///
    /// It serves its clients in turn and writes before it sleeps, so a second answer proves that
    /// everything from before the first one is written.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            self.control.call(&["PING"])?;
        }
        Ok(())
    }

    /// Drops a connection that was closed.
    pub(super) fn hang_up(&mut self, number: usize) {
        self.connections[number] = None;
    }

    /// Returns everything that has arrived on a connection.
    pub(super) fn drain(&mut self, number: usize) -> io::Result<Events> {
        let Some(client) = &mut self.connections[number] else { return Ok(Vec::new()) };
        let mut replies = Vec::new();
        loop {
            match client.read_now() {
                Ok(Some(reply)) => replies.push(Some(reply)),
                Ok(None) => return Ok(replies),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
                Err(_) => {
                    self.connections[number] = None;
                    replies.push(None);
                    return Ok(replies);
                }
            }
        }
    }
}
