//! The handle that everything starts from: the client, the prefix, the tasks, and their end in order.

mod builder;
mod eviction;
mod slots;

#[cfg(feature = "embedded")]
use std::sync::{Mutex, PoisonError};
use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use seawall_resilience::clock::Clock;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::task::TaskTracker;

pub use self::builder::Builder;
use self::slots::Slots;
use crate::{
    client::Client,
    error::Result,
    key::{self, KeyPart},
};

/// A connection to Redis and everything built on it; a cheap clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, cmd};
///
/// // `redis://127.0.0.1:6379` works the same way.
/// let seawall = Seawall::connect("embedded:").await?;
/// let client = seawall.client();
/// client.send(b"greeting", cmd("SET").arg("greeting").arg("hello")).await?;
/// let greeting: String = client.query(b"greeting", cmd("GET").arg("greeting")).await?;
/// assert_eq!(greeting, "hello");
/// seawall.shutdown().await;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Handle {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    prefix: String,
    stop: watch::Sender<bool>,
    tasks: TaskTracker,
    /// What capabilities keep for this connection.
    slots: Slots,
    /// Whether the server was asked if it evicts keys.
    asked_about_eviction: Arc<AtomicBool>,
    /// What the first levels of all caches may hold together.
    local_max_bytes: u64,
    /// The runtime in which the handle was connected.
    runtime: tokio::runtime::Handle,
    #[cfg(feature = "embedded")]
    engine: Mutex<Option<Arc<seawall_server::Handle>>>,
}

impl Handle {
    /// Connects with the defaults; see [`Builder`] for what can be set.
    ///
    /// | URL | |
    /// | --- | --- |
    /// | `embedded:` | an engine inside this process, in memory |
    /// | `embedded:DIR` | the same, with its log in DIR |
    /// | `redis://host:port/db`, `rediss://…` | one server, the latter over TLS |
    /// | `unix:/path` | one server, by its socket |
    /// | `redis-sentinel://h1:p,h2:p/MASTER/db` | the primary that the sentinels name |
    /// | `redis-cluster://h1:p,h2:p` | a Cluster |
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a URL that makes no sense,
    /// [`Error::Unavailable`](crate::Error::Unavailable) when nobody answers.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Makes the handle without waiting for Redis; see [`Builder::connect_lazy`].
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a URL that makes no sense, and outside a Tokio
    /// runtime.
    pub fn connect_lazy(url: &str) -> Result<Self> {
        Self::builder(url).connect_lazy()
    }

    /// Begins a connection with settings of one's own.
    #[must_use]
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    /// Whether this is another clone of the same handle.
    pub fn is_same(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Direct access: commands, scripts, subscriptions.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// The clock of this handle.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.inner.client.clock()
    }

    /// The key of a capability for a name: `PREFIXkind:{name}`. Whatever is appended to it lies in
    /// the same slot.
    pub fn key(&self, kind: &str, name: &(impl KeyPart + ?Sized)) -> Result<Vec<u8>> {
        let start = format!("{}{kind}:{{", self.inner.prefix);
        let mut key = key::with_prefix(start.as_bytes(), name)?.as_bytes().to_vec();
        key.push(b'}');
        Ok(key)
    }

    /// What stands before every key of this handle.
    pub fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    /// Runs a task that others rely on for as long as the handle lives, in the handle's own runtime:
    /// that of the caller may end before. It should end soon after `stop` turns true.
    pub fn spawn_at_home<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.inner.tasks.spawn_on(task, &self.inner.runtime)
    }

    /// Runs a task for the caller, in its runtime; it should end soon after `stop` turns true.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match tokio::runtime::Handle::try_current() {
            Ok(_) => self.inner.tasks.spawn(task),
            Err(_) => self.inner.tasks.spawn_on(task, &self.inner.runtime),
        };
    }

    /// What a capability keeps for this connection: one value of each type, made when it is first
    /// asked for.
    pub fn slot<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        self.inner.slots.get_or_make(make)
    }

    /// What the first levels of this handle's caches may hold together.
    pub fn local_max_bytes(&self) -> u64 {
        self.inner.local_max_bytes
    }

    /// Turns true when the handle is shut down.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.inner.stop.subscribe()
    }

    /// Ends everything in order: what runs in the background finishes, connections close, an
    /// embedded engine writes its log and stops. Other clones of the handle get
    /// [`Error::Closed`](crate::Error::Closed). The same happens, though without order, when the Tokio
    /// runtime ends on which the handle was opened: a handle does not outlive its runtime.
    pub async fn shutdown(&self) {
        self.inner.stop.send_replace(true);
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
        self.inner.client.close();
        #[cfg(feature = "embedded")]
        self.stop_engine().await;
    }

    #[cfg(feature = "embedded")]
    async fn stop_engine(&self) {
        let engine = self.inner.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.stopper().stop();
            let ended = tokio::task::spawn_blocking(move || engine.wait()).await;
            if let Ok(Err(error)) = ended {
                tracing::error!(%error, "the embedded engine did not end well");
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("client", &self.inner.client).finish_non_exhaustive()
    }
}
