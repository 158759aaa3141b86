//! One node of a [`crate::Cluster`] or of a [`crate::SentinelSet`]: a process that a test can kill,
//! pause and bring back through a shared reference, since tests hold such sets in an `Arc`.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::client::{Address, Client};
use crate::process::ServerProcess;
use crate::proxy::FaultProxy;

/// How long a question to a node may take; a paused one never answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// How long replicas may be behind.
const REPLICATION_LIMIT: Duration = Duration::from_secs(20);

/// What a test did to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It runs.
    Running,
    /// It was stopped with SIGSTOP: it holds its connections and answers nothing.
    Paused,
    /// It was killed.
    Dead,
}

/// What a node says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It copies another node.
    Replica,
}

/// One server of a set.
#[derive(Debug)]
pub struct Node {
    id: String,
    port: u16,
    /// Before the server, so that it ends first and nobody waits for what it holds.
    proxy: Option<FaultProxy>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: ServerProcess,
    state: NodeState,
}

impl Node {
    /// A node whose clients are sent to `proxy`, when there is one.
    pub(crate) fn new(id: String, server: ServerProcess, proxy: Option<FaultProxy>) -> Self {
        let port = server.port();
        Self { id, port, proxy, inner: Mutex::new(Inner { server, state: NodeState::Running }) }
    }

    /// The proxy in front of it, when the set was started with proxies.
    #[must_use]
    pub fn proxy(&self) -> Option<&FaultProxy> {
        self.proxy.as_ref()
    }

    /// The port under which the set knows the node: its proxy's, or its own.
    #[must_use]
    pub fn announced_port(&self) -> u16 {
        self.proxy.as_ref().map_or(self.port, FaultProxy::port)
    }

    /// Its name within the set; in a Cluster the 40 digits of its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The TCP port of the process itself, which stays the same when it is restarted.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of this node alone, through its proxy when it has one.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.announced_port())
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.inner().server.pid()
    }

    /// What was done to it.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.inner().state
    }

    /// What it printed so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.inner().server.log()
    }

    /// Opens a connection to the process itself, past the proxy.
    ///
    /// # Errors
    ///
    /// When the node is gone.
    pub fn connect(&self) -> io::Result<Client> {
        let mut client = Client::connect(&Address::Tcp(self.port))?;
        client.set_timeout(ANSWER_LIMIT)?;
        Ok(client)
    }

    /// Asks the node itself what it is.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub fn role(&self) -> io::Result<Role> {
        let reply = self.connect()?.call(&["ROLE"])?;
        match reply.items().first().map(crate::Reply::text).as_deref() {
            Some("master") => Ok(Role::Primary),
            Some("slave") => Ok(Role::Replica),
            _ => Err(io::Error::other(format!("no role: {reply}"))),
        }
    }

    /// Waits until this many replicas have everything that it has executed so far.
    ///
    /// # Errors
    ///
    /// `TimedOut` when they are fewer.
    pub fn await_replicas(&self, count: usize) -> io::Result<()> {
        let mut client = self.connect()?;
        client.set_timeout(REPLICATION_LIMIT * 2)?;
        // Redis: WAIT speaks of what was executed until the last command of its own connection, and
        // of nothing on a new one.
        order(&mut client, &["PING"])?;
        let limit = REPLICATION_LIMIT.as_millis().to_string();
        let reached = order(&mut client, &["WAIT", &count.to_string(), &limit])?;
        let number = reached.as_int().and_then(|reached| usize::try_from(reached).ok());
        if number.is_some_and(|number| number >= count) {
            return Ok(());
        }
        let message = format!("{reached} of {count} replicas of {} follow", self.port);
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    }

    /// Ends the process at once, as a crash would.
    ///
    /// # Errors
    ///
    /// When it ended before.
    pub fn kill(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.kill()?;
        inner.state = NodeState::Dead;
        Ok(())
    }

    /// Stops the process where it is (SIGSTOP), as a long pause of its machine would.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn pause(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.signal("STOP")?;
        inner.state = NodeState::Paused;
        Ok(())
    }

    /// Lets a paused process go on.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn resume(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.signal("CONT")?;
        inner.state = NodeState::Running;
        Ok(())
    }

    /// Ends the process, if it still runs, and starts it again on its port, with its files.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn restart(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.restart()?;
        inner.state = NodeState::Running;
        Ok(())
    }

    pub(crate) fn wait_until_ready(&self) -> io::Result<()> {
        self.inner().server.wait_until_ready()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.state() == NodeState::Running
    }

    /// Whether it copies a primary and has its link up.
    pub(crate) fn follows(&self) -> io::Result<bool> {
        let reply = self.connect()?.call(&["ROLE"])?;
        Ok(reply.items().get(3).is_some_and(|state| state.text() == "connected"))
    }

    /// Whom it copies, when it is a replica.
    pub(crate) fn primary_port(&self) -> io::Result<Option<u16>> {
        let reply = self.connect()?.call(&["ROLE"])?;
        Ok(reply.items().get(2).and_then(crate::Reply::as_int).and_then(|p| p.try_into().ok()))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked while it held the lock left a process behind that is still ours.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends one command and turns an error reply into an error.
pub(crate) fn order<A: AsRef<[u8]>>(client: &mut Client, args: &[A]) -> io::Result<crate::Reply> {
    let reply = client.call(args)?;
    if reply.is_error() {
        let words: Vec<_> = args.iter().map(|arg| String::from_utf8_lossy(arg.as_ref())).collect();
        return Err(io::Error::other(format!("{}: {reply}", words.join(" "))));
    }
    Ok(reply)
}
