//! No lock at all: read under `WATCH`, write under `MULTI`, and again if somebody was quicker.
//!
//! Good where conflicts are rare and the work between reading and writing is short. It runs on a
//! dedicated connection of its own, because `WATCH` belongs to a connection. The number of attempts is bounded; the
//! pause between them is random and grows. An `EXEC` whose reply was lost is not tried again: it may
//! have been carried out, and only the caller knows whether twice is too often.
//!
//! Each attempt has a dedicated connection of its own: a body that keeps its [`Transaction`] cannot reach into the
//! next attempt.

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

use super::acquire::jittered;

/// How often it is tried before it is called a conflict.
const MOST_ATTEMPTS: u32 = 16;
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// What an optimistic transaction came to.
#[derive(Debug)]
#[must_use = "nothing may have been written"]
pub enum Optimistic<T> {
    /// Nobody touched the keys in between, and what was queued is written.
    Committed {
        /// What the body returned.
        value: T,
        /// The replies to the commands that were queued, in order.
        replies: Vec<Value>,
    },
    /// Somebody was quicker each time; nothing is written.
    Conflict {
        /// How often it was tried.
        attempts: u32,
    },
}

/// One attempt: reads now, writes later. A cheap clone; what is queued after the body has ended is
/// not written.
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

    /// Reads under the watch: if what this sees changes before the end, the attempt is repeated.
    ///
    /// # Errors
    /// As [`Client::query`](seawall_client::Client::query).
    pub async fn read<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        self.inner.connection.lock().await.send(command, self.inner.limit).await
    }

    /// Queues a command that is carried out with all others, or not at all.
    pub fn write(&self, command: &Cmd) {
        self.queued().push(command.clone());
    }

    fn queued(&self) -> MutexGuard<'_, Vec<Cmd>> {
        self.inner.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries out what is queued; `None` when a key has changed.
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
        // What a command was refused for says more than EXECABORT.
        replies.into_iter().collect::<Result<Vec<_>>>()?;
        match executed? {
            Value::Nil => Ok(None),
            Value::Array(replies) => Ok(Some(replies)),
            _ => Err(Error::unexpected("EXEC answered in another form")),
        }
    }
}

/// Runs `body` against a consistent view of `keys` and writes what it queued, all or nothing; it
/// is run again, a bounded number of times, when somebody else changed one of them meanwhile.
/// Keys are used as they are given, and must lie in one slot: give them a common `{tag}`.
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
/// [`Error::Invalid`] without keys or with keys of several slots; what `body` returns;
/// [`Error::Indeterminate`] when the reply to the last step was lost.
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
    let mut pause = FIRST_PAUSE;
    for _ in 0..MOST_ATTEMPTS {
        let mut connection = handle.client().dedicated(&first).await?;
        match connection.send::<Value>(&watch, limit).await {
            Ok(_) => {}
            Err(error) if moved(&error) => {
                // Whoever asks for the key the usual way learns where it is now.
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
        handle.clock().sleep(jittered(pause)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(Optimistic::Conflict { attempts: MOST_ATTEMPTS })
}

/// The first key, which says where it runs, and the command that watches all.
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
