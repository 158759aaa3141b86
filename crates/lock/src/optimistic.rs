//! Optimistic transactions without a lock: read under `WATCH`, write under `MULTI`, and retry if
//! another client was faster.
//!
//! Suitable if conflicts are rare and the work between reading and writing is short. Each attempt
//! uses its own dedicated connection, because `WATCH` belongs to a connection, and so that a body
//! that keeps its [`Transaction`] cannot interfere with the next attempt. The number of attempts is
//! bounded; the pause between them is random and grows. An `EXEC` whose reply was lost is not
//! retried: it may have been executed, and only the caller knows whether executing it twice is
//! acceptable.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::{Cmd, FromRedisValue, Pipeline, Value, cmd};
use seawall_client::{
    Handle,
    client::{DedicatedConnection, slot},
    error::{Error, Result},
};
use seawall_resilience::Backoff;

use super::acquire::jittered;

/// Maximum number of attempts before the outcome is a conflict.
const MOST_ATTEMPTS: u32 = 16;
/// Pauses between them.
const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(2), Duration::from_millis(100));

/// Outcome of [`optimistic`].
#[derive(Debug)]
#[must_use = "nothing may have been written"]
pub enum Optimistic<T> {
    /// No other client changed the keys in between, and the queued commands were executed.
    Committed {
        /// The value that the body returned.
        value: T,
        /// The replies to the queued commands, in order.
        replies: Vec<Value>,
    },
    /// No attempt succeeded, because other clients changed the keys; nothing was written.
    Conflict {
        /// Number of attempts.
        attempts: u32,
    },
}

/// One attempt: reads immediately, writes at commit.
///
/// Cheap to clone. Commands queued after the body has ended are not executed.
#[derive(Debug, Clone)]
pub struct Transaction {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    connection: tokio::sync::Mutex<DedicatedConnection>,
    queued: Mutex<Vec<Cmd>>,
    limit: Duration,
}

impl Transaction {
    fn new(connection: DedicatedConnection, limit: Duration) -> Self {
        let inner = Inner {
            connection: tokio::sync::Mutex::new(connection),
            queued: Mutex::default(),
            limit,
        };
        Transaction { inner: Arc::new(inner) }
    }

    /// Reads under the watch. If a watched key changes before the commit, the attempt is repeated.
    ///
    /// # Errors
    /// As [`Client::query`](seawall_client::Client::query).
    pub async fn read<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        self.inner.connection.lock().await.send(command, self.inner.limit).await
    }

    /// Queues a command that is executed with all others, or not at all.
    pub fn write(&self, command: &Cmd) {
        self.queued().push(command.clone());
    }

    fn queued(&self) -> MutexGuard<'_, Vec<Cmd>> {
        self.inner.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes the queued commands. Returns `None` if a watched key has changed.
    async fn commit(&self) -> Result<Option<Vec<Value>>> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(cmd("MULTI"));
        for command in self.queued().drain(..) {
            pipeline.add_command(command);
        }
        pipeline.add_command(cmd("EXEC"));
        let mut replies =
            self.inner.connection.lock().await.send_all(&pipeline, self.inner.limit).await?;
        let executed = replies.pop().unwrap_or_else(|| Err(Error::unexpected("EXEC has no reply")));
        // The refusal of a single command says more than EXECABORT.
        replies.into_iter().collect::<Result<Vec<_>>>()?;
        match executed? {
            Value::Nil => Ok(None),
            Value::Array(replies) => Ok(Some(replies)),
            _ => Err(Error::unexpected("EXEC answered in another form")),
        }
    }
}

/// Runs `body` against a consistent view of `keys` and executes the commands it queued, all or
/// nothing.
///
/// If another client changes one of the keys in the meantime, the body runs again, a bounded number
/// of times. Keys are used unchanged and must be in one slot: give them a common `{tag}`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use seawall::{Seawall, cmd, lock::Optimistic};
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let done = seawall
///     .optimistic(&["{purse}:7"], |transaction| async move {
///         let coins: Option<i64> = transaction.read(cmd("GET").arg("{purse}:7")).await?;
///         transaction.write(cmd("SET").arg("{purse}:7").arg(coins.unwrap_or(0) * 2 + 1));
///         Ok(coins)
///     })
///     .await?;
/// assert!(matches!(done, Optimistic::Committed { value: None, .. }));
/// # seawall.shutdown().await; Ok(()) }
/// ```
///
/// # Errors
/// [`Error::Invalid`] without keys or with keys of several slots; any error that `body` returns;
/// [`Error::Indeterminate`] if the reply to the commit was lost.
pub async fn optimistic<T, F>(
    handle: &Handle,
    keys: &[impl AsRef<[u8]>],
    mut body: impl FnMut(Transaction) -> F,
) -> Result<Optimistic<T>>
where
    F: Future<Output = Result<T>>,
{
    let (first, watch) = watch(keys)?;
    let limit = handle.client().response_timeout();
    let mut pauses = PAUSES;
    for _ in 0..MOST_ATTEMPTS {
        let mut connection = handle.client().dedicated(&first).await?;
        match connection.send::<Value>(&watch, limit).await {
            Ok(_) => {}
            Err(error) if moved(&error) => {
                // A regular command for the key makes the client learn where it is now.
                handle.client().send(&first, cmd("EXISTS").arg(&first)).await?;
                continue;
            }
            Err(error) => return Err(error),
        }
        let transaction = Transaction::new(connection, limit);
        let value = body(transaction.clone()).await?;
        if let Some(replies) = transaction.commit().await? {
            return Ok(Optimistic::Committed { value, replies });
        }
        handle.clock().sleep(jittered(pauses.pause(), handle.randomness())).await;
    }
    Ok(Optimistic::Conflict { attempts: MOST_ATTEMPTS })
}

/// Returns the first key, which determines the server, and the command that watches all keys.
fn watch(keys: &[impl AsRef<[u8]>]) -> Result<(Vec<u8>, Cmd)> {
    let Some((first, others)) = keys.split_first() else {
        return Err(Error::Invalid("an optimistic transaction without keys".into()));
    };
    let first = first.as_ref();
    if let Some(stray) = others.iter().find(|key| slot(key.as_ref()) != slot(first)) {
        return Err(Error::Invalid(format!(
            "{} and {} lie in different slots of a Cluster; give them a common {{tag}}",
            first.escape_ascii(),
            stray.as_ref().escape_ascii()
        )));
    }
    let mut watch = cmd("WATCH");
    for key in keys {
        watch.arg(key.as_ref());
    }
    Ok((first.to_vec(), watch))
}

fn moved(error: &Error) -> bool {
    ["MOVED", "ASK", "READONLY", "MASTERDOWN"].iter().any(|code| error.is_code(code))
}
