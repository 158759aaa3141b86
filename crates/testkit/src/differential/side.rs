//! One of the two servers: its process, and the connections of the current episode.

use std::io;
use std::time::Duration;

use super::generate::CONNECTIONS;
use crate::builder::ServerBuilder;
use crate::client::Client;
use crate::process::ServerProcess;
use crate::reply::Reply;

/// How long one reply may take; a busy machine may keep a server from running for seconds.
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

/// Replies and messages in the order of their arrival; `None` at the end when the connection was closed.
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

    /// Starts the server again, after a crash or a hang.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        // The old one is dropped, and so ended, first: both might want the same files.
        *self = Self::new(self.builder.clone())?;
        Ok(())
    }

    /// What the server printed, for a report about its end.
    pub(super) fn log(&self) -> String {
        self.server.log()
    }

    /// Forgets everything: connections, data, scripts, settings.
    pub(super) fn reset(&mut self) -> io::Result<()> {
        let used = self.connections.iter().any(Option::is_some);
        for connection in &mut self.connections {
            *connection = None;
        }
        if used {
            // A waiting client must be gone before the next episode pushes something for it.
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

    /// The connection with this number, opened when it is first used or was closed.
    ///
    /// A new one is asked for a sign of life: until the server has accepted it, its commands come
    /// after those of others that were sent later.
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

    /// Returns when the server has sent what it owes to everybody.
    ///
    /// It serves its clients in turn and writes before it sleeps, so that a second answer proves
    /// that everything from before the first one is written.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            self.control.call(&["PING"])?;
        }
        Ok(())
    }

    /// Forgets a connection that said good-bye.
    pub(super) fn hang_up(&mut self, number: usize) {
        self.connections[number] = None;
    }

    /// All that has arrived on a connection.
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
