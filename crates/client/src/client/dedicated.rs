//! A connection of one's own, for what must not share one.
//!
//! Blocking commands, `WAIT` and transactions with `WATCH` hold up everybody behind them on a
//! shared connection, or mix with their commands. A dedicated connection is opened to the node that has the key and
//! closed when it is dropped; whoever needs it often keeps it.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, FromRedisValue, Pipeline, Value};

use super::{
    multiplexed::MultiplexedConnection,
    node::{Node, refused},
};
use crate::error::{Error, Result};

/// A connection of one's own.
pub struct DedicatedConnection {
    connection: MultiplexedConnection,
    /// Kept for its address, in messages.
    node: Arc<Node>,
}

impl DedicatedConnection {
    pub(super) async fn open(node: Arc<Node>) -> Result<Self> {
        let address = node.confirmed_address().await?;
        let connection = node.dialer().own(&address).await?;
        Ok(DedicatedConnection { connection, node })
    }

    /// Sends one command and waits for its reply, at most this long.
    ///
    /// # Errors
    /// [`Error::Indeterminate`] when no reply came: the dedicated connection is then of no more use.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the command back, and its reply may still be under way:
    /// drop the dedicated connection with it.
    pub async fn send<T: FromRedisValue>(&mut self, command: &Cmd, limit: Duration) -> Result<T> {
        if command.args_iter().next().is_none() {
            return Err(Error::Invalid("a command without a name".into()));
        }
        let reply = match tokio::time::timeout(limit, self.connection.send(command)).await {
            Ok(reply) => reply?,
            Err(_) => {
                let cause = format!("{:?} did not answer", self.node.address());
                return Err(Error::Indeterminate { waited: limit, cause: cause.into() });
            }
        };
        Ok(redis::from_redis_value(refused(reply)?.into())?)
    }

    /// Sends several commands in one write; a reply for each.
    ///
    /// # Errors
    /// As [`DedicatedConnection::send`], for all of them.
    pub async fn send_all(
        &mut self,
        commands: &Pipeline,
        limit: Duration,
    ) -> Result<Vec<Result<Value>>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        match tokio::time::timeout(limit, self.connection.send_all(commands)).await {
            Ok(replies) => {
                let check = |reply| refused(reply).map(Value::from);
                Ok(replies?.into_iter().map(check).collect())
            }
            Err(_) => {
                Err(Error::Indeterminate { waited: limit, cause: "no answer to a pipeline".into() })
            }
        }
    }
}

impl std::fmt::Debug for DedicatedConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DedicatedConnection").field("node", &self.node).finish_non_exhaustive()
    }
}
