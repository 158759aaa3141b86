//! Opening connections: to an address, or to the engine inside this process.
//!
//! Everything that talks to Redis goes through here, so time-outs, TLS, login and socket options
//! are set once, on purpose: Nagle off, keep-alive on. All connections speak RESP2: a message
//! connection in it may do nothing else, which is what we want of it, and every server from 6.2 on
//! speaks it the same way.

#[cfg(feature = "embedded")]
use std::sync::Arc;
use std::{fmt, path::PathBuf, time::Duration};

use redis::{Pipeline, ProtocolVersion, RedisConnectionInfo, aio::PubSub};
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::{TcpStream, UnixStream},
    sync::watch,
};

use super::{
    monitored::Monitored,
    multiplexed::{MultiplexedConnection, Stream},
    node::refused,
    tls::Tls,
    url::Host,
};
use crate::error::{Error, Result};

/// One server's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// By host and port.
    Tcp(Host),
    /// By its unix socket.
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

/// How connections are opened; shared by all of one handle.
pub(crate) struct Dialer {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: i64,
    /// Whom to trust, where TLS is spoken.
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    /// Counts the shared connections that were opened, to whatever server.
    pub(crate) connections: watch::Sender<u64>,
    /// Where shared connections are driven.
    pub(crate) home: tokio::runtime::Handle,
    #[cfg(feature = "embedded")]
    pub(crate) engine: Option<Arc<seawall_server::Handle>>,
}

impl Dialer {
    /// A connection that many tasks share; replies are awaited no longer than the response time-out.
    pub(crate) async fn shared(&self, address: &Address) -> Result<MultiplexedConnection> {
        self.in_time(self.multiplexed(address, Some(self.response_timeout))).await
    }

    /// A connection for one user, who may wait for replies as long as the server makes it wait.
    pub(crate) async fn own(&self, address: &Address) -> Result<MultiplexedConnection> {
        self.in_time(self.multiplexed(address, None)).await
    }

    async fn multiplexed(
        &self,
        address: &Address,
        patience: Option<Duration>,
    ) -> Result<MultiplexedConnection> {
        let connection = MultiplexedConnection::over(self.stream(address).await?, patience);
        self.log_in(&connection).await.map_err(nothing_sent)?;
        Ok(connection)
    }

    /// A connection for messages.
    pub(crate) async fn messages(&self, address: &Address) -> Result<PubSub> {
        self.in_time(async {
            let stream = self.stream(address).await?;
            PubSub::new(&self.login(), stream).await.map_err(|error| {
                // The client keeps the server's own words to itself.
                if error.kind() == redis::ErrorKind::AuthenticationFailed {
                    return wrong_password();
                }
                nothing_sent(Error::from_client(&error, self.connect_timeout))
            })
        })
        .await
    }

    /// A connection on which the server sends every command that it gets; see [`Monitored`].
    pub(crate) async fn monitor(&self, address: &Address) -> Result<Monitored> {
        let mut greeting = Pipeline::new();
        if let Some(password) = &self.password {
            greeting.cmd("AUTH").arg(&self.username).arg(password);
        }
        greeting.cmd("MONITOR");
        let opened = async { Monitored::over(self.stream(address).await?, &greeting).await };
        self.in_time(opened).await.map_err(nothing_sent)
    }

    /// What bytes go over.
    async fn stream(&self, address: &Address) -> Result<Box<dyn Stream>> {
        match address {
            Address::Tcp(host) => {
                let stream = TcpStream::connect((host.name.as_str(), host.port)).await?;
                stream.set_nodelay(true)?;
                SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
                match &self.tls {
                    Some(tls) => tls.wrap(&host.name, stream).await,
                    None => Ok(Box::new(stream)),
                }
            }
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
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

    /// Who we are, which database, and what we are called; the last is a courtesy that servers
    /// before 7.2 do not know.
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
        tokio::time::timeout(self.connect_timeout, work).await.unwrap_or_else(|_| {
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

/// Whatever happens while connecting, no command of the caller's was sent yet.
fn nothing_sent(error: Error) -> Error {
    match error {
        Error::Indeterminate { cause, .. } | Error::Unexpected(cause) => Error::Unavailable(cause),
        other => other,
    }
}

/// A peer that vanished without a word is noticed in about half a minute even when nobody talks.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3)
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Invariant: no password reaches a log.
        f.debug_struct("Dialer").field("database", &self.database).finish_non_exhaustive()
    }
}
