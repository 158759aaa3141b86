//! The handle's connection for an application's own commands, through the traits of the `redis` crate
//! (feature `redis-rs`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use seawall::{Seawall, redis::{self, AsyncCommands}};
//!
//! let seawall = Seawall::connect("embedded:").await?;
//! let mut connection = seawall.connection();
//! let visits: u64 = connection.incr("visits", 1).await?;
//! let (name, visits_again): (String, u64) =
//!     redis::pipe().set("name", "tea").ignore().get("name").get("visits").query_async(&mut connection).await?;
//! assert_eq!((visits, visits_again, name.as_str()), (1, 1, "tea"));
//! # seawall.shutdown().await; Ok(()) }
//! ```
//!
//! Deliberately absent: the toolkit on a connection of the application's. Promises rest on what only the
//! owner of a connection knows: whether it still answers, whether another server took over, whether a
//! command was sent at all (docs/decisions/0009-own-connection.md). [`Seawall::builder_like`] takes the
//! settings of a `redis::Client` instead.

mod command;

use std::io;

use redis::{
    Cmd, ConnectionAddr, ErrorKind, Pipeline, RedisError, RedisFuture, RedisResult, ServerError,
    Value, aio::ConnectionLike,
};

use self::command::{is_for_all, key_of, refusal};
use crate::{Builder, Client, Error, Result, Seawall, Topology};

/// A connection for the application's own commands, from [`Seawall::connection`]; a cheap clone.
///
/// All clones share the handle's connections, its time-outs and its reconnects. On a Cluster each
/// command goes to the server of its first key, one without a key (`KEYS`, `FLUSHALL`) to the
/// server of slot 0, and `SCRIPT LOAD` to all of them. The handle's prefix is not added to keys.
///
/// Refused are commands that would change the connection for its other users (`SELECT`, `WATCH`), block
/// it (`BLPOP`, `XREAD … BLOCK`) or turn it into a subscription; on a Cluster also atomic pipelines.
///
/// # Errors
/// [`is_connection_refusal`](RedisError::is_connection_refusal) says that a command was not sent,
/// [`is_timeout`](RedisError::is_timeout) that it may have been carried out. An error reply of the
/// server keeps its code.
#[derive(Debug, Clone)]
pub struct Connection {
    client: Client,
}

impl Seawall {
    /// Returns a connection for commands of the application's own: see [`Connection`].
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection { client: self.client().clone() }
    }

    /// Returns a builder with the settings of a `redis::Client`: address, database, user, password, and
    /// whether the connection is over TLS. Over TLS it trusts the authorities that the machine trusts,
    /// unless [`ca_file`](seawall_client::Builder::ca_file) names another.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use seawall::{Seawall, redis};
    ///
    /// let client = redis::Client::open("redis://127.0.0.1:6379/2")?;
    /// let seawall = Seawall::builder_like(&client)?.connect_lazy()?;
    /// # seawall.shutdown().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] for TLS settings that it cannot take over: an authority or a certificate of the
    /// client's own, certificates or host names that are not checked.
    pub fn builder_like(client: &redis::Client) -> Result<Builder> {
        let info = client.get_connection_info();
        let redis = info.redis_settings();
        let host = |name: &str| match name.contains(':') {
            true => format!("[{name}]"),
            false => name.to_owned(),
        };
        let url = match info.addr() {
            ConnectionAddr::Tcp(name, port) => {
                format!("redis://{}:{port}/{}", host(name), redis.db())
            }
            ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err(Error::Invalid(
                    "a client that checks no certificate cannot be taken over: use a rediss:// URL, \
                     with ca_file for an authority of your own"
                        .into(),
                ));
            }
            ConnectionAddr::TcpTls { tls_params: Some(_), .. } => {
                return Err(Error::Invalid(
                    "TLS settings of a client's own cannot be read from it: use a rediss:// URL, with \
                     ca_file for an authority; certificates of clients and unchecked host names are not \
                     supported"
                        .into(),
                ));
            }
            ConnectionAddr::TcpTls { host: name, port, .. } => {
                format!("rediss://{}:{port}/{}", host(name), redis.db())
            }
            ConnectionAddr::Unix(path) => format!("unix:{}?db={}", path.display(), redis.db()),
            _ => return Err(Error::Invalid("an address of this kind is not known".into())),
        };
        let mut builder = Self::builder(&url);
        if let Some(name) = redis.username() {
            builder = builder.username(name);
        }
        if let Some(password) = redis.password() {
            builder = builder.password(password);
        }
        Ok(builder)
    }
}

impl Connection {
    async fn send(&self, command: &Cmd) -> RedisResult<Value> {
        check(command)?;
        if is_for_all(command) && self.client.topology() == Topology::Cluster {
            return self.send_to_all(command).await;
        }
        self.client.send(&key_of(command), command).await.map_err(into_redis)
    }

    /// Sends a command to every primary of a Cluster. Returns one of their replies, or the first error.
    async fn send_to_all(&self, command: &Cmd) -> RedisResult<Value> {
        let mut last = Value::Nil;
        for node in self.client.nodes() {
            last = node.send(command).await.map_err(into_redis)?;
        }
        Ok(last)
    }

    /// Sends a pipeline. Error replies are among the values, as callers of the `redis` crate expect.
    async fn send_all(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let commands: Vec<Cmd> = pipeline.cmd_iter().cloned().collect();
        commands.iter().try_for_each(check)?;
        if !pipeline.is_transaction() {
            let keyed = commands.into_iter().map(|command| (key_of(&command), command)).collect();
            let replies = self.client.send_all(keyed).await;
            return replies.into_iter().map(into_value).collect();
        }
        if self.client.topology() == Topology::Cluster {
            return Err(invalid("an atomic pipeline on a Cluster: use a script".to_owned()));
        }
        let all = [vec![redis::cmd("MULTI")], commands, vec![redis::cmd("EXEC")]].concat();
        let replies =
            self.client.send_all(all.into_iter().map(|c| (Vec::new(), c)).collect()).await;
        // What was refused when it was queued says more than EXEC, which only says that.
        let mut replies = replies.into_iter().collect::<Result<Vec<_>>>().map_err(into_redis)?;
        Ok(replies.pop().into_iter().collect())
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        _offset: usize,
        _count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(self.send_all(pipeline))
    }

    fn get_db(&self) -> i64 {
        i64::from(self.client.database())
    }
}

fn check(command: &Cmd) -> RedisResult<()> {
    refusal(command).map_or(Ok(()), |why| Err(invalid(why)))
}

fn invalid(why: String) -> RedisError {
    (ErrorKind::InvalidClientConfig, "not on a shared connection", why).into()
}

/// Converts an error, so that callers can still tell what was not sent from what is unknown.
fn into_redis(error: Error) -> RedisError {
    let kind = match &error {
        Error::Refused { code, message } => return refused(code, message),
        Error::Indeterminate { .. } => io::ErrorKind::TimedOut,
        Error::Unavailable(_) | Error::Closed => io::ErrorKind::ConnectionRefused,
        Error::Invalid(text) => return invalid(text.clone()),
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error).into()
}

/// Makes an error reply what the `redis` crate makes of it: its kind decides what that crate does next,
/// for example whether a script is loaded.
fn refused(code: &str, message: &str) -> RedisError {
    let line = format!("-{code} {message}").replace(['\r', '\n'], " ") + "\r\n";
    match redis::parse_redis_value(line.as_bytes()) {
        Ok(Value::ServerError(error)) => error.into(),
        Ok(_) => redis::make_extension_error(code.to_owned(), Some(message.to_owned())),
        Err(error) => error,
    }
}

fn into_value(reply: Result<Value>) -> RedisResult<Value> {
    match reply.map_err(into_redis) {
        Ok(value) => Ok(value),
        Err(error) => ServerError::try_from(error).map(Value::ServerError),
    }
}
