//! Opens a handle: settings, credentials, TLS trust, and the route to the servers that a URL names.

#[cfg(feature = "embedded")]
use std::sync::Mutex;
use std::{
    fmt, io,
    marker::PhantomData,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use seawall_resilience::{clock::Clock, random::Randomness};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::{Handle, Inner, slots::Slots};
use crate::{
    client::{
        ByteStream, Client, Cluster, Node, Route, Sentinels, Sources, Topology,
        dial::{Address, Dialer},
        tls::Tls,
        transport::Transport,
        url::{Place, Target},
    },
    error::{Error, Result},
    testing::Faults,
};

/// Environment variables that hold the password, or the path of a file with it, if none is set.
const PASSWORD_VARIABLE: &str = "SEAWALL_REDIS_PASSWORD";
const PASSWORD_FILE_VARIABLE: &str = "SEAWALL_REDIS_PASSWORD_FILE";
/// Accepted time-outs. Below the range no reply could arrive in time; above it, sums of time-outs
/// could overflow, and no caller waits that long.
const TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 3600);
/// Delay between a new connection and the clock measurement, so that several new connections share
/// one measurement.
const OFFSET_PAUSE: Duration = Duration::from_millis(50);
/// Interval between measurements of the servers' clocks.
const OFFSET_AGE: Duration = Duration::from_secs(10);

/// Settings of a connection.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::Seawall;
///
/// let seawall = Seawall::builder("embedded:")
///     .response_timeout(Duration::from_millis(500))
///     .connect()
///     .await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Builder<H = Handle> {
    url: String,
    prefix: String,
    username: Option<String>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    sentinel_password: Option<String>,
    ca_file: Option<PathBuf>,
    connect_timeout: Duration,
    response_timeout: Duration,
    local_max_bytes: u64,
    transport: Transport,
    clock: Clock,
    network_clock: Clock,
    randomness: Randomness,
    faults: Faults,
    #[cfg(feature = "embedded")]
    engine_clock: Option<Arc<dyn seawall_engine::Clock>>,
    #[cfg(feature = "embedded")]
    engine_socket: Option<PathBuf>,
    opens: PhantomData<fn() -> H>,
}

impl<H: From<Handle>> Builder<H> {
    /// Creates a builder for this URL.
    #[must_use]
    pub fn new(url: &str) -> Self {
        Builder {
            url: url.to_owned(),
            prefix: String::new(),
            username: None,
            password: None,
            password_file: None,
            sentinel_password: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(1),
            local_max_bytes: 64 << 20,
            transport: Transport::default(),
            clock: Clock::system(),
            network_clock: Clock::system(),
            randomness: Randomness::system(),
            faults: Faults::default(),
            #[cfg(feature = "embedded")]
            engine_clock: None,
            #[cfg(feature = "embedded")]
            engine_socket: None,
            opens: PhantomData,
        }
    }

    /// Sets the prefix of every key and channel of this handle, such as `shop-test:`. Default:
    /// empty.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the ACL user name. Default: the user name in the URL.
    #[must_use]
    pub fn username(mut self, name: impl Into<String>) -> Self {
        self.username = Some(name.into());
        self
    }

    /// Sets the password.
    ///
    /// If it is not set, these sources are tried in order: [`password_file`](Self::password_file),
    /// the URL, the environment variable `SEAWALL_REDIS_PASSWORD`, and the file named by
    /// `SEAWALL_REDIS_PASSWORD_FILE`.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets a file whose first line is the password.
    #[must_use]
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password_file = Some(path.into());
        self
    }

    /// Sets the password of the sentinels. Default: none.
    #[must_use]
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Sets a PEM file with the authorities that sign the server's certificate. Default: the
    /// authorities that the machine trusts.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// Sets the time-out for opening a connection, from 1 ms to 24 h. Default: 2 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Sets the time-out for a reply, from 1 ms to 24 h. Default: 1 second.
    #[must_use]
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// Sets the memory limit, in bytes of values, for the local tiers of all caches of
    /// this handle together. Default: 64 MiB; 0 disables them.
    ///
    /// The caches share the limit by their weights; a share that one cache does not use is
    /// available to the others.
    #[must_use]
    pub fn local_max_bytes(mut self, bytes: u64) -> Self {
        self.local_max_bytes = bytes;
        self
    }

    /// Sets the function that opens the byte stream of each connection, such as one through a tunnel.
    /// Default: TCP and Unix sockets.
    ///
    /// It is called with the address of a server that the URL, the sentinels or the Cluster named. TLS
    /// and login happen on the stream that it returns, within [`connect_timeout`](Self::connect_timeout).
    /// Set socket options yourself: `TCP_NODELAY` and keepalive are set only on the default sockets. With an
    /// `embedded:` URL the function is not called.
    ///
    /// ```
    /// # async fn open() -> Result<(), seawall::Error> {
    /// use seawall::{Seawall, client::Address};
    /// use tokio::net::TcpStream;
    ///
    /// let seawall = Seawall::builder("redis://redis.internal:6379")
    ///     .transport(|address| async move {
    ///         match address {
    ///             // One fixed tunnel; a real one would be told `host.name`.
    ///             Address::Tcp(host) => TcpStream::connect(("127.0.0.1", host.port)).await,
    ///             other => Err(std::io::Error::other(format!("no way to {other:?}"))),
    ///         }
    ///     })
    ///     .connect_lazy()?;
    /// # drop(seawall); Ok(()) }
    /// ```
    #[must_use]
    pub fn transport<F, Fut, S>(mut self, open: F) -> Self
    where
        F: Fn(Address) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<S>> + Send + 'static,
        S: ByteStream + 'static,
    {
        self.transport = Transport::new(open);
        self
    }

    /// Sets the clock that everything under this handle reads. Default: the system clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets a Unix socket on which an embedded engine listens for `redis-cli` and other tools.
    ///
    /// Only valid with an `embedded:` URL; only the current user can access the socket.
    #[cfg(feature = "embedded")]
    #[must_use]
    pub fn engine_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.engine_socket = Some(path.into());
        self
    }

    /// Sets the control with which a test injects faults between this handle and Redis.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn faults(mut self, control: crate::testing::FaultControl) -> Self {
        self.faults = Faults::new(control);
        self
    }

    /// Sets the clock of network time-outs and of pauses that wait for a server. Default: the system
    /// clock, also if [`clock`](Self::clock) is manual.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn network_clock(mut self, clock: Clock) -> Self {
        self.network_clock = clock;
        self
    }

    /// Sets the source of all random numbers under this handle. Default: the system's.
    ///
    /// A seeded source makes tokens predictable, those of sessions as well.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = randomness;
        self
    }

    /// Sets the clock of an embedded engine.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn engine_clock(mut self, clock: Arc<dyn seawall_engine::Clock>) -> Self {
        self.engine_clock = Some(clock);
        self
    }

    /// Connects and waits for the first reply.
    ///
    /// # Errors
    /// As [`Handle::connect`].
    pub async fn connect(self) -> Result<H> {
        let limit = self.connect_timeout;
        let handle = self.open()?;
        first_answer(handle.client(), limit).await?;
        Ok(handle.into())
    }

    /// Creates the handle without waiting for Redis, for a service that must start while Redis is
    /// down.
    ///
    /// The first command connects; until one succeeds, everything behaves as in an outage.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a setting is out of range or the call is made outside a Tokio runtime.
    pub fn connect_lazy(self) -> Result<H> {
        Ok(self.open()?.into())
    }

    fn open(self) -> Result<Handle> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            Error::Invalid(
                "connect() must run on a Tokio runtime, on which connections and tasks live".into(),
            )
        })?;
        for (name, limit) in
            [("connect_timeout", self.connect_timeout), ("response_timeout", self.response_timeout)]
        {
            if !TIMEOUTS.contains(&limit) {
                let (least, most) = (TIMEOUTS.start(), TIMEOUTS.end());
                return Err(Error::Invalid(format!(
                    "{name} is {limit:?}: it must be from {least:?} to {most:?}"
                )));
            }
        }
        if self.prefix.contains(['{', '}']) {
            return Err(Error::Invalid(
                "a prefix with { or } would put all keys in one slot".into(),
            ));
        }
        let target = Target::parse(&self.url)?;
        #[cfg(not(feature = "embedded"))]
        if let Place::Embedded(_) = target.place {
            return Err(Error::Invalid(
                "embedded: needs the feature `embedded` of the crate seawall".into(),
            ));
        }
        let stop = watch::Sender::new(false);
        let tasks = TaskTracker::new();
        #[cfg(feature = "embedded")]
        if self.engine_socket.is_some() && !matches!(target.place, Place::Embedded(_)) {
            return Err(Error::Invalid(
                "engine_socket is for `embedded:` URLs: other servers have their own sockets"
                    .into(),
            ));
        }
        #[cfg(feature = "embedded")]
        let engine = match &target.place {
            Place::Embedded(dir) => Some(Arc::new(self.start_engine(dir.as_deref())?)),
            _ => None,
        };
        let dialer = Arc::new(Dialer {
            username: self.username.clone().or(target.username.clone()),
            password: self.find_password(&target)?,
            database: target.database,
            transport: self.transport.clone(),
            tls: target.tls.then(|| Tls::trusting(self.ca_file.as_deref())).transpose()?,
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            clock: self.network_clock.clone(),
            connections: watch::Sender::new(0),
            home: runtime.clone(),
            #[cfg(feature = "embedded")]
            engine: engine.clone(),
        });
        let single =
            |address| Route::Single(Arc::new(Node::new(Arc::clone(&dialer), address, None)));
        let (route, topology) = match target.place.clone() {
            Place::Embedded(_) => (single(Address::Embedded), Topology::Single),
            Place::Tcp(host) => (single(Address::Tcp(host)), Topology::Single),
            Place::Unix(path) => (single(Address::Unix(path)), Topology::Single),
            Place::Sentinel { sentinels, master } => {
                let sentinel_dialer = Arc::new(self.sentinel_dialer(&dialer));
                let first = Address::Tcp(sentinels[0].clone());
                let sentinels = Arc::new(Sentinels::new(
                    sentinels,
                    master,
                    &sentinel_dialer,
                    Arc::clone(&dialer),
                ));
                let node =
                    Arc::new(Node::new(Arc::clone(&dialer), first, Some(Arc::clone(&sentinels))));
                let follow = sentinels.follow(Arc::downgrade(&node));
                tasks.spawn(until_stopped(stop.subscribe(), follow));
                (Route::Single(node), Topology::Sentinel)
            }
            Place::Cluster(seeds) => {
                let cluster = Arc::new(Cluster::new(Arc::clone(&dialer), seeds));
                let keep = Cluster::keep(Arc::downgrade(&cluster));
                tasks.spawn(until_stopped(stop.subscribe(), keep));
                (Route::Cluster(cluster), Topology::Cluster)
            }
        };
        let sources = Sources {
            clock: self.clock.clone(),
            network_clock: self.network_clock.clone(),
            randomness: self.randomness.clone(),
        };
        let (client, pubsub_task) =
            Client::new(route, topology, sources, self.faults, stop.subscribe());
        tasks.spawn(pubsub_task);
        tasks.spawn(until_stopped(stop.subscribe(), keep_offset(client.clone())));
        tasks.spawn(until_stopped(stop.subscribe(), keep_counts(client.clone())));
        tasks.spawn(close_with_the_runtime(client.clone(), stop.clone()));
        Ok(Handle {
            inner: Arc::new(Inner {
                client,
                prefix: self.prefix,
                stop,
                tasks,
                slots: Slots::default(),
                asked_about_eviction: AtomicBool::new(false),
                local_max_bytes: self.local_max_bytes,
                runtime,
                #[cfg(feature = "embedded")]
                engine: Mutex::new(engine),
            }),
        })
    }

    fn sentinel_dialer(&self, dialer: &Dialer) -> Dialer {
        Dialer {
            username: None,
            password: self.sentinel_password.clone(),
            database: 0,
            transport: dialer.transport.clone(),
            tls: dialer.tls.clone(),
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
            clock: self.network_clock.clone(),
            connections: watch::Sender::new(0),
            home: dialer.home.clone(),
            #[cfg(feature = "embedded")]
            engine: None,
        }
    }

    /// Returns the first password found: setter, password file, URL, environment variable, file
    /// named by the environment. An embedded engine has none.
    fn find_password(&self, target: &Target) -> Result<Option<String>> {
        if let Place::Embedded(_) = target.place {
            return Ok(None);
        }
        let from_file = |path: &Path| {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Error::Invalid(format!(
                    "the password file {} cannot be read: {error}",
                    path.display()
                ))
            })?;
            Ok(text.lines().next().map(str::to_owned))
        };
        if self.password.is_some() {
            return Ok(self.password.clone());
        }
        if let Some(path) = &self.password_file {
            return from_file(path);
        }
        if target.password.is_some() {
            return Ok(target.password.clone());
        }
        if let Ok(password) = std::env::var(PASSWORD_VARIABLE) {
            return Ok(Some(password));
        }
        match std::env::var_os(PASSWORD_FILE_VARIABLE) {
            Some(path) => from_file(Path::new(&path)),
            None => Ok(None),
        }
    }

    #[cfg(feature = "embedded")]
    fn start_engine(&self, dir: Option<&Path>) -> Result<seawall_server::Handle> {
        let mut config = seawall_server::Config::default();
        config.engine.seed = self.randomness.u64();
        config.clock.clone_from(&self.engine_clock);
        config.unix_socket.clone_from(&self.engine_socket);
        config.unix_permissions = self.engine_socket.as_ref().map(|_| 0o600);
        if let Some(dir) = dir {
            config.engine.settings.dir = dir.display().to_string();
            config.engine.settings.appendonly = true;
            config.journal =
                Some(seawall_server::aof::open_journal(seawall_server::aof::Place::new(dir)));
        }
        seawall_server::Server::start(config)
            .map_err(|error| Error::Invalid(format!("the embedded engine cannot start: {error}")))
    }
}

impl<H> fmt::Debug for Builder<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Invariant: no password reaches a log.
        f.debug_struct("Builder")
            .field("url", &crate::client::url::hide(&self.url))
            .finish_non_exhaustive()
    }
}

async fn until_stopped(mut stop: watch::Receiver<bool>, work: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => {}
        () = work => {}
    }
}

/// Closes the client when the runtime ends. All tasks are gone then and no reply can arrive, so
/// callers get an error instead of waiting forever.
async fn close_with_the_runtime(client: Client, stop: watch::Sender<bool>) {
    struct Guard {
        client: Client,
        stop: watch::Sender<bool>,
    }
    impl Drop for Guard {
        fn drop(&mut self) {
            // In an orderly shutdown `shutdown` closes the client, after all tasks have finished.
            if !self.stop.send_replace(true) {
                self.client.close();
            }
        }
    }
    let mut stopping = stop.subscribe();
    let _guard = Guard { client, stop };
    // Ends together with the handle.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Flushes the counters to the metrics recorder every second.
async fn keep_counts(client: Client) {
    loop {
        client.network_clock().sleep(Duration::from_secs(1)).await;
        client.flush_counts();
    }
}

/// Measures the servers' clocks for the first time. If the reply is late, asks again within
/// `limit`: on a busy machine the first reply may take longer than later ones.
async fn first_answer(client: &Client, limit: Duration) -> Result<()> {
    let (clock, began) = (client.network_clock(), client.network_clock().now());
    loop {
        match client.measure_offset().await {
            Err(error) if error.is_indeterminate() && clock.now().since(began) < limit => {}
            answer => return answer,
        }
    }
}

/// Measures the servers' clocks periodically and after every new connection, which may lead to
/// another server with another clock.
async fn keep_offset(client: Client) {
    let (clock, mut connections) = (client.network_clock(), client.connections());
    loop {
        tokio::select! {
            biased;
            Ok(()) = connections.changed() => clock.sleep(OFFSET_PAUSE).await,
            () = clock.sleep(OFFSET_AGE) => {}
        }
        connections.mark_unchanged();
        if let Err(error) = client.measure_offset().await {
            tracing::debug!(%error, "the server's clock cannot be read");
        }
        // Ignore the connections that the measurement itself opened.
        connections.mark_unchanged();
    }
}
