//! The database: how it is opened, and how writers take turns.
//!
//! One set of queries serves SQLite, MySQL and MariaDB: ids come from our generator, times are
//! epoch milliseconds, placeholders are `?`, and no query uses a dialect. Unique keys and
//! conditional updates decide; a key violation is caught, never checked for in advance. A sum is
//! written `CAST(SUM(…) AS SIGNED)`, because MySQL would return a decimal, which sqlx's `Any`
//! driver does not support.
//!
//! SQLite allows one writing connection at a time. Writers therefore queue here, in order, instead
//! of in SQLite's busy loop, whose sleeps are unfair. Invariant: a transaction holds a [`WriteTx`],
//! and its first statement writes, so that it never has to upgrade a read lock. MySQL has as many
//! turns as connections and uses READ COMMITTED: two statements of one transaction may see
//! different states there, except in a [`Db::snapshot`].

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

/// Maximum connections: readers of SQLite, or all users of MySQL.
const CONNECTIONS: u32 = 16;
/// Maximum wait of a query for a connection.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(3);
/// Idle time after which a connection is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(300);

/// Time limit for closing connections.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// Settings of SQLite connections: readers beside one writer; a commit is on disk before it
/// returns.
const SQLITE_SETTINGS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON;";

/// Settings of MySQL connections: strict values, no gap locks, short waits for row locks.
const MYSQL_SETTINGS: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE', \
     SESSION transaction_isolation = 'READ-COMMITTED', SESSION innodb_lock_wait_timeout = 5";
/// Like [`MYSQL_SETTINGS`], for servers that use the older name of the isolation variable.
const MARIADB_SETTINGS: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE', \
     SESSION tx_isolation = 'READ-COMMITTED', SESSION innodb_lock_wait_timeout = 5";

/// Kind of database; only opening and waiting differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sqlite,
    Mysql,
}

/// Connection pool of the database; shared by reference.
#[derive(Debug)]
pub struct Db {
    connections: Arc<Connections>,
    kind: Kind,
    writers: Semaphore,
}

/// A write transaction that has its turn.
#[derive(Debug)]
pub struct WriteTx<'a> {
    transaction: Transaction<'static, Any>,
    _in_use: InUse,
    _permit: SemaphorePermit<'a>,
}

/// A read-only transaction that sees a single moment.
#[derive(Debug)]
pub(crate) struct Snapshot {
    transaction: Transaction<'static, Any>,
    _in_use: InUse,
}

impl Db {
    /// Opens the database and creates a missing SQLite file.
    ///
    /// [`migrate`](Self::migrate) brings the schema up to date.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be opened.
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

    /// Returns an executor for read-only queries.
    pub(crate) fn read(&self) -> Reader<'_> {
        Reader(self)
    }

    /// Begins a read-only transaction that sees a single moment.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        let (mut connection, in_use) = self.connections.get().await?;
        if self.kind == Kind::Mysql {
            // Applies only to the next transaction of this connection.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
        }
        let transaction = Transaction::begin(connection, None).await?;
        Ok(Snapshot { transaction, _in_use: in_use })
    }

    /// Begins a transaction when it is this writer's turn.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if no connection is free in time, and at once while the server is
    /// away.
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

    /// Checks that the database answers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it does not.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(self.read()).await?;
        Ok(())
    }

    /// Closes every connection after its current work.
    ///
    /// A connection whose query was cancelled may never answer again, so there is a time limit.
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

/// Returns `true` if a statement failed because of a unique or primary key.
pub(crate) fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
}

/// Converts an id to a signed column value. Our ids have their highest bit clear; any other id
/// matches no row.
pub(crate) fn id(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(-1)
}

/// Converts a column value to an id.
pub(crate) fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// Folds a text for searching: lower case in every script, the same on every database. Folds
/// character by character, so that a substring stays a substring when both texts are folded.
pub(crate) fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Returns `count` placeholders for a list of values.
pub(crate) fn marks(count: usize) -> String {
    vec!["?"; count].join(", ")
}

/// Escapes a path for a URL: characters that would end it or decode to something else.
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
