//! The database: opening it, and how writers take turns.
//!
//! One set of queries serves SQLite and MySQL or MariaDB: ids come from our generator, times are
//! epoch milliseconds, placeholders are `?`, and nothing uses a dialect of its own. Unique keys and
//! conditional updates decide; a violated key is caught, never asked about beforehand. A sum is
//! written `CAST(SUM(…) AS SIGNED)`: MySQL would answer with a decimal, which the driver for any
//! database does not know.
//!
//! SQLite lets one connection write at a time. Writers therefore queue here, in order, instead of
//! in SQLite's busy loop, whose sleeps are unfair. Invariant: a transaction holds a [`WriteTx`], and its
//! first statement writes, so that it never has to upgrade a read lock. MySQL has as many turns as
//! connections, and reads what is committed: two statements of one transaction may see different
//! moments there unless [`Db::snapshot`] was asked for.

mod connect;
mod migrate;

use std::{
    ops::{Deref, DerefMut},
    path::Path,
    sync::Arc,
    time::Duration,
};

use sqlx::{
    Any, Executor as _, Transaction,
    any::{AnyPoolOptions, install_default_drivers},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::connect::{Connections, InUse, Reader};
use crate::{
    config::Database,
    error::{Error, Result},
};

/// Connections at the same time: readers of SQLite, or anybody at MySQL.
const CONNECTIONS: u32 = 16;
/// How long a query may wait for a connection.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(3);
/// A connection that was not used for so long is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// How long connections may take to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Every SQLite connection: readers beside one writer, a commit is on disk before it returns.
const SQLITE_SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON;";

/// Every MySQL connection: strict about values, no gap locks, nobody waits long for a row.
const MYSQL_SETTINGS: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE', \
     SESSION transaction_isolation = 'READ-COMMITTED', SESSION innodb_lock_wait_timeout = 5";
/// The same for servers that know the older name of the isolation.
const MARIADB_SETTINGS: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE', \
     SESSION tx_isolation = 'READ-COMMITTED', SESSION innodb_lock_wait_timeout = 5";

/// Which database it is; only opening and waiting differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sqlite,
    Mysql,
}

/// The pool of connections; a cheap handle by reference.
#[derive(Debug)]
pub struct Db {
    connections: Arc<Connections>,
    kind: Kind,
    writers: Semaphore,
}

/// A transaction whose turn to write it is.
#[derive(Debug)]
pub struct WriteTx<'a> {
    transaction: Transaction<'static, Any>,
    _in_use: InUse,
    _permit: SemaphorePermit<'a>,
}

/// A transaction that only reads, all of it at one moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    transaction: Transaction<'static, Any>,
    _in_use: InUse,
}

impl Db {
    /// Opens the database; a SQLite file is made when there is none. Its schema is brought up by
    /// [`migrate`](Self::migrate).
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it cannot be opened.
    pub async fn open(database: &Database) -> Result<Self> {
        install_default_drivers();
        let (kind, url) = match database {
            Database::Sqlite(path) => {
                (Kind::Sqlite, format!("sqlite:{}?mode=rwc", percent_encode(path)))
            }
            Database::Mysql(url) => (Kind::Mysql, url.expose().to_owned()),
        };
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_LIMIT)
            .idle_timeout(IDLE_LIMIT)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if kind == Kind::Sqlite {
                        return connection.execute(SQLITE_SETTINGS).await.map(drop);
                    }
                    match connection.execute(MYSQL_SETTINGS).await {
                        Ok(_) => Ok(()),
                        Err(_) => connection.execute(MARIADB_SETTINGS).await.map(drop),
                    }
                })
            })
            .connect(&url)
            .await?;
        let turns = if kind == Kind::Sqlite { 1 } else { CONNECTIONS as usize };
        let connections = Arc::new(Connections::new(pool, kind));
        Ok(Db { connections, kind, writers: Semaphore::new(turns) })
    }

    /// For queries that only read.
    pub(crate) fn read(&self) -> Reader<'_> {
        Reader(self)
    }

    /// A transaction that only reads, all of it at one moment.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        let (mut connection, in_use) = self.connections.get().await?;
        if self.kind == Kind::Mysql {
            // For the next transaction of this connection alone.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
        }
        let transaction = Transaction::begin(connection, None).await?;
        Ok(Snapshot { transaction, _in_use: in_use })
    }

    /// Begins a transaction when it is this writer's tx.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no connection is free in time, and at once while the server is away.
    pub(crate) async fn write(&self) -> Result<WriteTx<'_>> {
        self.connections.check()?;
        let permit = tokio::time::timeout(ACQUIRE_LIMIT, self.writers.acquire()).await;
        let permit = permit
            .map_err(|_| busy("other writers took too long"))?
            .map_err(|_| busy("it was closed"))?;
        let (connection, in_use) = self.connections.get().await?;
        let transaction = Transaction::begin(connection, None).await?;
        Ok(WriteTx { transaction, _in_use: in_use, _permit: permit })
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it does not.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(self.read()).await?;
        Ok(())
    }

    /// Closes every connection, after what is under way. One whose query was cut off may never
    /// answer again, so there is a limit.
    pub async fn close(&self) {
        if tokio::time::timeout(CLOSE_LIMIT, self.connections.pool().close()).await.is_err() {
            tracing::warn!("some connections to the database did not close in time");
        }
    }
}

impl WriteTx<'_> {
    pub(crate) fn query(&mut self) -> &mut sqlx::AnyConnection {
        &mut self.transaction
    }

    pub(crate) async fn commit(self) -> Result<()> {
        Ok(self.transaction.commit().await?)
    }

    pub(crate) async fn roll_back(self) -> Result<()> {
        Ok(self.transaction.rollback().await?)
    }
}

impl Snapshot {
    pub(crate) async fn commit(self) -> Result<()> {
        Ok(self.transaction.commit().await?)
    }

    pub(crate) async fn rollback(self) -> Result<()> {
        Ok(self.transaction.rollback().await?)
    }
}

impl Deref for Snapshot {
    type Target = sqlx::AnyConnection;

    fn deref(&self) -> &sqlx::AnyConnection {
        &self.transaction
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut sqlx::AnyConnection {
        &mut self.transaction
    }
}

fn busy(cause: &str) -> Error {
    Error::Unavailable { what: "the database", cause: cause.to_owned() }
}

/// Whether a statement failed because of a unique or primary key.
pub(crate) fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// Columns are signed; our ids have their highest bit clear, others match nothing.
pub(crate) fn id(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(-1)
}

/// An id from a column.
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// A text as it is searched by, in small letters of every script: the same on every database, and letter
/// by letter, so that what is part of a text is part of it when both are folded.
pub(crate) fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// So many placeholders, for a list of values.
pub(crate) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// A path as part of a URL: what would end it, or decode to something else, is escaped.
fn percent_encode(path: &Path) -> String {
    let mut out = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'%' | b'?' | b'#' => out.push_str(&format!("%{byte:02X}")),
            _ if byte.is_ascii_graphic() => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
