//! Dedicated connections, for commands that must not share one.
//!
//! On a shared connection, blocking commands, `WAIT` and transactions with `WATCH` delay all
//! commands behind them or mix with them. A dedicated connection is opened to the node that owns
//! the key and closed when it is dropped. Callers that need one often should keep it.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, FromRedisValue, Pipeline, Value};
use seawall_resilience::clock::Clock;

use super::{
    multiplexed::MultiplexedConnection,
    node::{Node, refused},
};
use crate::error::{Error, Result};

/// A connection that only one caller uses.
pub struct DedicatedConnection {
    connection: MultiplexedConnection,
    /// Kept because error messages show its address.
    node: Arc<Node>,
}

impl DedicatedConnection {
    pub(super) async fn open(node: Arc<Node>) -> Result<Self> {
        let address = node.confirmed_address().await?;
        let connection = node.dialer().own(&address).await?;
        Ok(DedicatedConnection { connection, node })
    }

    fn clock(&self) -> &Clock {
        &self.node.dialer().clock
    }

    /// Sends one command and waits for its reply, at most `limit`.
    ///
    /// # Errors
    /// [`Error::Indeterminate`] if no reply arrived; the connection must not be used any more.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the command, and its reply may still arrive: drop the
    /// connection as well.
    pub async fn send<T: FromRedisValue>(&mut self, command: &Cmd, limit: Duration) -> Result<T> {
        if command.args_iter().next().is_none() {
            return Err(Error::Invalid("a command without a name".into()));
        }
        let reply = match self.clock().timeout(limit, self.connection.send(command)).await {
            Some(reply) => reply?,
            None => {
                let cause = format!("{:?} did not answer", self.node.address());
                return Err(Error::Indeterminate { waited: limit, cause: cause.into() });
            }
        };
        Ok(redis::from_redis_value(refused(reply)?.into())?)
    }

    /// Sends several commands in one write and returns a reply for each.
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
        match self.clock().timeout(limit, self.connection.send_all(commands)).await {
            Some(replies) => {
                let check = |reply| refused(reply).map(Value::from);
                Ok(replies?.into_iter().map(check).collect())
            }
            None => {
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
