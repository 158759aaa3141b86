//! Opens connections to an address or to the engine inside this process.
//!
//! All connections to Redis are opened here, so time-outs, TLS and login are set in one place; the
//! byte streams come from a [`Transport`]. All connections use RESP2: a pub/sub connection can do
//! nothing else in it, which is intended, and every server from 6.2 on implements it the same way.

#[cfg(feature = "embedded")]
use std::sync::Arc;
use std::{fmt, path::PathBuf, time::Duration};

use redis::{Pipeline, ProtocolVersion, RedisConnectionInfo, aio::PubSub};
use seawall_resilience::clock::Clock;
use tokio::sync::watch;

use super::{
    monitored::Monitored,
    multiplexed::MultiplexedConnection,
    node::refused,
    tls::Tls,
    transport::{ByteStream, Transport},
    url::Host,
};
use crate::error::{Error, Result};

/// Address of one server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// Host and port.
    Tcp(Host),
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// The engine inside this process.
    Embedded,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host) => host.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Embedded => f.write_str("embedded"),
        }
    }
}

/// Opens all connections of one handle.
pub(crate) struct Dialer {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    /// Opens the byte streams.
    pub(crate) transport: Transport,
    /// Trusted authorities, if TLS is used.
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    /// Measures the time-outs.
    pub(crate) clock: Clock,
    /// Counts opened shared connections, to any server.
    pub(crate) connections: watch::Sender<u64>,
    /// The runtime that drives shared connections.
    pub(crate) home: tokio::runtime::Handle,
    #[cfg(feature = "embedded")]
    pub(crate) engine: Option<Arc<seawall_server::Handle>>,
}

impl Dialer {
    /// Opens a connection that many tasks share; replies are subject to the response time-out.
    pub(crate) async fn shared(&self, address: &Address) -> Result<MultiplexedConnection> {
        self.in_time(self.multiplexed(address, Some(self.response_timeout))).await
    }

    /// Opens a connection for one user, without a time-out for replies.
    pub(crate) async fn own(&self, address: &Address) -> Result<MultiplexedConnection> {
        self.in_time(self.multiplexed(address, None)).await
    }

    async fn multiplexed(
        &self,
        address: &Address,
        patience: Option<Duration>,
    ) -> Result<MultiplexedConnection> {
        let connection =
            MultiplexedConnection::over(self.stream(address).await?, patience, &self.clock);
        self.log_in(&connection).await.map_err(nothing_sent)?;
        Ok(connection)
    }

    /// Opens a pub/sub connection.
    pub(crate) async fn messages(&self, address: &Address) -> Result<PubSub> {
        self.in_time(async {
            let stream = self.stream(address).await?;
            PubSub::new(&self.login(), stream).await.map_err(|error| {
                // The client library does not pass on the server's error text.
                if error.kind() == redis::ErrorKind::AuthenticationFailed {
                    return wrong_password();
                }
                nothing_sent(Error::from_client(&error, self.connect_timeout))
            })
        })
        .await
    }

    /// Opens a connection on which the server sends every command it receives; see [`Monitored`].
    pub(crate) async fn monitor(&self, address: &Address) -> Result<Monitored> {
        let mut greeting = Pipeline::new();
        if let Some(password) = &self.password {
            greeting.cmd("AUTH").arg(&self.username).arg(password);
        }
        greeting.cmd("MONITOR");
        let opened = async { Monitored::over(self.stream(address).await?, &greeting).await };
        self.in_time(opened).await.map_err(nothing_sent)
    }

    /// Opens the byte stream.
    async fn stream(&self, address: &Address) -> Result<Box<dyn ByteStream>> {
        match address {
            Address::Tcp(host) => {
                let stream = self.transport.open(address).await?;
                match &self.tls {
                    Some(tls) => tls.wrap(&host.name, stream).await,
                    None => Ok(stream),
                }
            }
            Address::Unix(_) => Ok(self.transport.open(address).await?),
            #[cfg(feature = "embedded")]
            Address::Embedded => {
                let engine = self.engine.as_ref().ok_or(Error::Closed)?;
                Ok(Box::new(engine.connect()))
            }
            #[cfg(not(feature = "embedded"))]
            Address::Embedded => Err(Error::Invalid(
                "embedded: needs the feature `embedded` of the crate seawall".into(),
            )),
        }
    }

    /// Sends credentials, database and client name. Servers before 7.2 do not know the commands for
    /// the name, so their replies are ignored.
    async fn log_in(&self, connection: &MultiplexedConnection) -> Result<()> {
        let mut greeting = Pipeline::new();
        let mut required = 0;
        if let Some(password) = &self.password {
            greeting.cmd("AUTH").arg(&self.username).arg(password);
            required += 1;
        }
        if self.database != 0 {
            greeting.cmd("SELECT").arg(self.database);
            required += 1;
        }
        greeting.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("seawall");
        greeting.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(env!("CARGO_PKG_VERSION"));
        let replies = connection.send_all(&greeting).await?;
        replies.into_iter().take(required).try_for_each(|reply| refused(reply).map(drop))
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.clock.timeout(self.connect_timeout, work).await.unwrap_or_else(|| {
            Err(Error::Unavailable(
                format!("no connection within {:?}", self.connect_timeout).into(),
            ))
        })
    }

    fn login(&self) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_protocol(ProtocolVersion::RESP2)
            .set_lib_name("seawall", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            info = info.set_username(username);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        info
    }
}

fn wrong_password() -> Error {
    Error::Refused {
        code: "WRONGPASS".into(),
        message: "the server does not know this user name and password".into(),
    }
}

/// Converts errors during connecting: no command of the caller was sent yet.
fn nothing_sent(error: Error) -> Error {
    match error {
        Error::Indeterminate { cause, .. } | Error::Unexpected(cause) => Error::Unavailable(cause),
        other => other,
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Invariant: no password reaches a log.
        f.debug_struct("Dialer").field("database", &self.database).finish_non_exhaustive()
    }
}
