//! Opening connections: to an address, or to the engine inside this process.
//!
//! Everything that talks to Redis goes through here, so time-outs, TLS, login and socket options
//! are set once, on purpose: Nagle off, keep-alive on, the client's own response time-out replaced
//! by ours.

use std::{path::PathBuf, sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates,
    aio::{MultiplexedConnection, PubSub},
    io::tcp::TcpSettings,
};

use tokio::sync::watch;

use super::url::Host;
use crate::error::{Error, Result};

/// One server's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp(Host),
    Unix(PathBuf),
    /// The engine inside this process.
    Embedded,
}

/// A connection, which ends when the last of its users is gone, whatever it still waits for.
pub(crate) struct Wire {
    connection: MultiplexedConnection,
    /// The client ends the task behind a connection that it opened itself; this is for the others.
    _driver: Option<Driver>,
}

struct Driver(tokio::task::AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Wire {
    /// The connection, to send on: a cheap clone, which must not outlive the wire.
    pub(crate) fn connection(&self) -> MultiplexedConnection {
        self.connection.clone()
    }
}

/// How connections are opened; shared by all of one handle.
pub(crate) struct Dialer {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    pub(crate) tls: Option<TlsCertificates>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    /// Counts the shared connections that were opened, to whatever server.
    pub(crate) connections: watch::Sender<u64>,
    #[cfg(feature = "embedded")]
    pub(crate) engine: Option<Arc<seawall_server::Handle>>,
}

impl Dialer {
    /// A connection that many tasks share; replies are awaited no longer than the response time-out.
    pub(crate) async fn shared(&self, address: &Address) -> Result<Wire> {
        self.multiplexed(address, Some(self.response_timeout)).await
    }

    /// A connection for one user, who may wait for replies as long as the server makes it wait.
    pub(crate) async fn own(&self, address: &Address) -> Result<Wire> {
        self.multiplexed(address, None).await
    }

    async fn multiplexed(&self, address: &Address, response: Option<Duration>) -> Result<Wire> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(response);
        self.in_time(async {
            match address {
                #[cfg(feature = "embedded")]
                Address::Embedded => {
                    let info = self.login(ProtocolVersion::RESP2);
                    let (connection, driver) = MultiplexedConnection::new_with_config(
                        &info,
                        self.engine_stream()?,
                        config,
                    )
                    .await
                    .map_err(|error| self.failed(&error))?;
                    let driver = Driver(tokio::spawn(driver).abort_handle());
                    Ok(Wire { connection, _driver: Some(driver) })
                }
                _ => self
                    .client(address)?
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
                    .map(|connection| Wire { connection, _driver: None })
                    .map_err(|error| self.failed(&error)),
            }
        })
        .await
    }

    /// A connection for messages.
    pub(crate) async fn messages(&self, address: &Address) -> Result<PubSub> {
        self.in_time(async {
            match address {
                #[cfg(feature = "embedded")]
                Address::Embedded => {
                    PubSub::new(&self.login(ProtocolVersion::RESP2), self.engine_stream()?)
                        .await
                        .map_err(|error| self.failed(&error))
                }
                _ => self
                    .client(address)?
                    .get_async_pubsub()
                    .await
                    .map_err(|error| self.failed(&error)),
            }
        })
        .await
    }

    /// Whatever happens while connecting, no command was sent yet.
    fn failed(&self, error: &redis::RedisError) -> Error {
        // The client keeps the server's own words to itself.
        if error.kind() == redis::ErrorKind::AuthenticationFailed {
            return Error::Refused {
                code: "WRONGPASS".into(),
                message: "the server does not know this user name and password".into(),
            };
        }
        match Error::from_client(error, self.connect_timeout) {
            Error::Indeterminate { cause, .. } | Error::Unexpected(cause) => {
                Error::Unavailable(cause)
            }
            other => other,
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::time::timeout(self.connect_timeout, work).await.unwrap_or_else(|_| {
            Err(Error::Unavailable(
                format!("no connection within {:?}", self.connect_timeout).into(),
            ))
        })
    }

    #[cfg(feature = "embedded")]
    fn engine_stream(&self) -> Result<seawall_server::LocalStream> {
        self.engine.as_ref().map(|engine| engine.connect()).ok_or(Error::Closed)
    }

    fn login(&self, protocol: ProtocolVersion) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_protocol(protocol)
            .set_lib_name("seawall", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            info = info.set_username(username);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        info
    }

    fn client(&self, address: &Address) -> Result<Client> {
        let addr = match address {
            Address::Tcp(Host { name, port }) if self.tls.is_some() => ConnectionAddr::TcpTls {
                host: name.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            Address::Tcp(Host { name, port }) => ConnectionAddr::Tcp(name.clone(), *port),
            Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
            Address::Embedded => {
                return Err(Error::Invalid(
                    "embedded: needs the feature `embedded` of the crate seawall".into(),
                ));
            }
        };
        // RESP2, because a message connection in it may do nothing else, which is what we want of it,
        // and because every server from 6.2 on speaks it the same way.
        let info: ConnectionInfo = addr
            .into_connection_info()
            .map_err(|error| Error::Invalid(error.to_string()))?
            .set_redis_settings(self.login(ProtocolVersion::RESP2))
            .set_tcp_settings(TcpSettings::default().set_nodelay(true).set_keepalive(keepalive()));
        let client = match &self.tls {
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
            None => Client::open(info),
        };
        client.map_err(|error| Error::Invalid(error.to_string()))
    }
}

/// A peer that vanished without a word is noticed in about half a minute even when nobody talks.
fn keepalive() -> redis::io::tcp::socket2::TcpKeepalive {
    redis::io::tcp::socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3)
}

impl std::fmt::Debug for Dialer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Invariant: no password reaches a log.
        f.debug_struct("Dialer").field("database", &self.database).finish_non_exhaustive()
    }
}
