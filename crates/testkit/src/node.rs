//! One node of a [`crate::Cluster`] or a [`crate::SentinelSet`]: a process that a test can kill,
//! pause and restart through a shared reference, because tests hold such sets in an `Arc`.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::client::{Address, Client};
use crate::process::ServerProcess;
use crate::proxy::FaultProxy;

/// Maximum time for an answer of a node; a paused node never answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Maximum replication lag.
const REPLICATION_LIMIT: Duration = Duration::from_secs(20);

/// State of a node, as set by the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It runs.
    Running,
    /// It was stopped with SIGSTOP: it keeps its connections and answers nothing.
    Paused,
    /// It was killed.
    Dead,
}

/// Role that a node reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It accepts writes.
    Primary,
    /// It replicates another node.
    Replica,
}

/// One server of a set.
#[derive(Debug)]
pub struct Node {
    id: String,
    port: u16,
    /// Before the server, so that it is dropped first and no thread waits for what it holds.
    proxy: Option<FaultProxy>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    server: ServerProcess,
    state: NodeState,
}

impl Node {
    /// Creates a node whose clients connect to `proxy`, if there is one.
    pub(crate) fn new(id: String, server: ServerProcess, proxy: Option<FaultProxy>) -> Self {
        let port = server.port();
        Self { id, port, proxy, inner: Mutex::new(Inner { server, state: NodeState::Running }) }
    }

    /// Returns the proxy in front of it, if the set was started with proxies.
    #[must_use]
    pub fn proxy(&self) -> Option<&FaultProxy> {
        self.proxy.as_ref()
    }

    /// Returns the port under which the set knows the node: its proxy's, or its own.
    #[must_use]
    pub fn announced_port(&self) -> u16 {
        self.proxy.as_ref().map_or(self.port, FaultProxy::port)
    }

    /// Returns its name within the set; in a Cluster its id of 40 digits.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the TCP port of the process itself; a restart does not change it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of this node alone, through its proxy if it has one.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.announced_port())
    }

    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.inner().server.pid()
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.inner().state
    }

    /// Returns its output so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.inner().server.log()
    }

    /// Opens a connection to the process itself, bypassing the proxy.
    ///
    /// # Errors
    ///
    /// If the node is gone.
    pub fn connect(&self) -> io::Result<Client> {
        let mut client = Client::connect(&Address::Tcp(self.port))?;
        client.set_timeout(ANSWER_LIMIT)?;
        Ok(client)
    }

    /// Asks the node for its role.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub fn role(&self) -> io::Result<Role> {
        let reply = self.connect()?.call(&["ROLE"])?;
        match reply.items().first().map(crate::Reply::text).as_deref() {
            Some("master") => Ok(Role::Primary),
            Some("slave") => Ok(Role::Replica),
            _ => Err(io::Error::other(format!("no role: {reply}"))),
        }
    }

    /// Waits until this many replicas have everything that the node has executed so far.
    ///
    /// # Errors
    ///
    /// `TimedOut` if fewer have.
    pub fn await_replicas(&self, count: usize) -> io::Result<()> {
        let mut client = self.connect()?;
        client.set_timeout(REPLICATION_LIMIT * 2)?;
        // Redis: WAIT refers to what was executed up to the last command of its own connection, and
        // to nothing on a new one.
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

    /// Kills the process, as a crash would.
    ///
    /// # Errors
    ///
    /// If it ended before.
    pub fn kill(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.kill()?;
        inner.state = NodeState::Dead;
        Ok(())
    }

    /// Stops the process (SIGSTOP), as a long pause of its machine would.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub fn pause(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.signal("STOP")?;
        inner.state = NodeState::Paused;
        Ok(())
    }

    /// Resumes a paused process.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub fn resume(&self) -> io::Result<()> {
        let mut inner = self.inner();
        inner.server.signal("CONT")?;
        inner.state = NodeState::Running;
        Ok(())
    }

    /// Kills the process if it still runs, and restarts it on its port, with its files.
    ///
    /// # Errors
    ///
    /// If it does not come up.
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

    /// Returns `true` if it replicates a primary and the link is up.
    pub(crate) fn follows(&self) -> io::Result<bool> {
        let reply = self.connect()?.call(&["ROLE"])?;
        Ok(reply.items().get(3).is_some_and(|state| state.text() == "connected"))
    }

    /// Returns the port of its primary, if it is a replica.
    pub(crate) fn primary_port(&self) -> io::Result<Option<u16>> {
        let reply = self.connect()?.call(&["ROLE"])?;
        Ok(reply.items().get(2).and_then(crate::Reply::as_int).and_then(|p| p.try_into().ok()))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A test that panicked while holding the lock left a process that is still ours.
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
