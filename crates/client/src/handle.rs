//! The root handle: client, key prefix, background tasks, and their orderly shutdown.

mod builder;
mod eviction;
mod slots;

#[cfg(feature = "embedded")]
use std::sync::{Mutex, PoisonError};
use std::{
    fmt,
    sync::{Arc, atomic::AtomicBool},
};

use seawall_resilience::{clock::Clock, random::Randomness};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::task::TaskTracker;

pub use self::builder::Builder;
use self::slots::Slots;
use crate::{
    client::Client,
    error::Result,
    key::{self, KeyPart},
};

/// A connection to Redis and the state that all capabilities on it share. Cheap to clone.
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
    /// State that capabilities store per connection.
    slots: Slots,
    /// Set once the server was asked whether it evicts keys.
    asked_about_eviction: AtomicBool,
    /// Limit for the local tiers of all caches together.
    local_max_bytes: u64,
    /// The runtime on which the handle was connected.
    runtime: tokio::runtime::Handle,
    #[cfg(feature = "embedded")]
    engine: Mutex<Option<Arc<seawall_server::Handle>>>,
}

impl Handle {
    /// Connects with the default settings. See [`Builder`] for the available settings.
    ///
    /// | URL | |
    /// | --- | --- |
    /// | `embedded:` | an engine inside this process, in memory |
    /// | `embedded:DIR` | the same, with its log in DIR |
    /// | `redis://host:port/db`, `rediss://…` | one server, the latter over TLS |
    /// | `unix:/path`, `unix:/path?db=1` | one server, over its Unix socket |
    /// | `redis-sentinel://h1:p,h2:p/MASTER/db`, `rediss-sentinel://…` | the primary that the sentinels name |
    /// | `redis-cluster://h1:p,h2:p`, `rediss-cluster://…` | a Cluster, found through any of these nodes |
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the URL is malformed,
    /// [`Error::Unavailable`](crate::Error::Unavailable) if no server answers.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url).connect().await
    }

    /// Creates the handle without waiting for Redis. See [`Builder::connect_lazy`].
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if the URL is malformed or the call is made
    /// outside a Tokio runtime.
    pub fn connect_lazy(url: &str) -> Result<Self> {
        Self::builder(url).connect_lazy()
    }

    /// Returns a builder for a connection with custom settings.
    #[must_use]
    pub fn builder(url: &str) -> Builder {
        Builder::new(url)
    }

    /// Returns `true` if `other` is a clone of this handle.
    pub fn is_same(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Returns the client for direct access: commands, scripts, subscriptions.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inner.client
    }

    /// Returns the clock of this handle.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        self.inner.client.clock()
    }

    /// Returns the source of this handle's random numbers.
    #[must_use]
    pub fn randomness(&self) -> &Randomness {
        self.inner.client.randomness()
    }

    /// Builds the key of a capability for a name: `PREFIXkind:{name}`.
    ///
    /// Any suffix appended to it keeps the key in the same slot.
    pub fn key(&self, kind: &str, name: &(impl KeyPart + ?Sized)) -> Result<Vec<u8>> {
        let start = format!("{}{kind}:{{", self.inner.prefix);
        let mut key = key::with_prefix(start.as_bytes(), name)?.as_bytes().to_vec();
        key.push(b'}');
        Ok(key)
    }

    /// Returns the prefix of every key of this handle.
    pub fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    /// Spawns a task that must outlive the caller's runtime: it runs on the handle's own runtime.
    ///
    /// The task should end soon after [`stopping`](Self::stopping) becomes `true`.
    pub fn spawn_at_home<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.inner.tasks.spawn_on(task, &self.inner.runtime)
    }

    /// Spawns a task on the caller's runtime, or on the handle's if the caller has none.
    ///
    /// The task should end soon after [`stopping`](Self::stopping) becomes `true`.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match tokio::runtime::Handle::try_current() {
            Ok(_) => self.inner.tasks.spawn(task),
            Err(_) => self.inner.tasks.spawn_on(task, &self.inner.runtime),
        };
    }

    /// Returns the value of type `T` that belongs to this connection.
    ///
    /// The first call creates it with `make`; there is one value per type.
    pub fn slot<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        self.inner.slots.get_or_make(make)
    }

    /// Returns the limit, in bytes, for the local tiers of all caches of this handle together.
    pub fn local_max_bytes(&self) -> u64 {
        self.inner.local_max_bytes
    }

    /// Returns a receiver that becomes `true` when the handle is shut down.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.inner.stop.subscribe()
    }

    /// Shuts everything down in order: background tasks finish, connections close, and an embedded
    /// engine writes its log and stops.
    ///
    /// Other clones of the handle then get [`Error::Closed`](crate::Error::Closed). If the Tokio
    /// runtime on which the handle was opened ends first, the same happens without that order: a
    /// handle does not outlive its runtime.
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
