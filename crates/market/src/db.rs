//! The database: opening it, its schema, and how writers take turns.
//!
//! One set of queries serves every database: ids come from our generator, times are epoch
//! milliseconds, placeholders are `?`, and nothing uses a dialect of its own. Unique keys and
//! conditional updates decide; a violated key is caught, never asked about beforehand.
//!
//! SQLite lets one connection write at a time. Writers therefore queue here, in order, instead of
//! in SQLite's busy loop, whose sleeps are unfair. Invariant: a transaction holds a [`Turn`], and its
//! first statement writes, so that it never has to upgrade a read lock.

use std::{path::Path, time::Duration};

use sqlx::{
    Any, AnyPool, Executor as _, Transaction,
    any::{AnyPoolOptions, install_default_drivers},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    big_keys,
    error::{Error, Result},
};

/// Readers at the same time.
const CONNECTIONS: u32 = 8;
/// How long a query may wait for a connection.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(3);

const SCHEMA: &str = include_str!("schema.sql");

/// Every SQLite connection: readers beside one writer, a commit is on disk before it returns.
const SQLITE_PRAGMAS: &str = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
     PRAGMA busy_timeout = 5000; PRAGMA foreign_keys = ON;";

/// The pool of connections; a cheap handle by reference.
#[derive(Debug)]
pub struct Db {
    pool: AnyPool,
    writer: Semaphore,
}

/// A transaction whose turn to write it is.
#[derive(Debug)]
pub struct Turn<'a> {
    transaction: Transaction<'static, Any>,
    _permit: SemaphorePermit<'a>,
}

impl Db {
    /// Opens the SQLite file, makes it when there is none, and brings its schema up.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the file cannot be opened.
    pub async fn open_sqlite(path: &Path) -> Result<Self> {
        Self::open_sqlite_with(path, &[SCHEMA, big_keys::store::SCHEMA]).await
    }

    /// The same with another schema: statements with `;` between them.
    pub(crate) async fn open_sqlite_with(path: &Path, schemas: &[&'static str]) -> Result<Self> {
        install_default_drivers();
        let pool = AnyPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_LIMIT)
            .after_connect(|connection, _| {
                Box::pin(async move { connection.execute(SQLITE_PRAGMAS).await.map(drop) })
            })
            .connect(&format!("sqlite:{}?mode=rwc", percent_encode(path)))
            .await?;
        let db = Db { pool, writer: Semaphore::new(1) };
        let mut turn = db.write().await?;
        let statements = schemas.iter().flat_map(|schema| schema.split(';'));
        for statement in statements.map(str::trim).filter(|text| !text.is_empty()) {
            sqlx::query(statement).execute(&mut *turn.transaction).await?;
        }
        turn.commit().await?;
        Ok(db)
    }

    /// For queries that only read.
    pub(crate) fn read(&self) -> &AnyPool {
        &self.pool
    }

    /// Begins a transaction when it is this writer's turn.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when no connection is free in time.
    pub(crate) async fn write(&self) -> Result<Turn<'_>> {
        let permit = tokio::time::timeout(ACQUIRE_LIMIT, self.writer.acquire()).await;
        let permit = permit
            .map_err(|_| busy("other writers took too long"))?
            .map_err(|_| busy("it was closed"))?;
        Ok(Turn { transaction: self.pool.begin().await?, _permit: permit })
    }

    /// Whether it answers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it does not.
    pub async fn ping(&self) -> Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Closes every connection, after what is under way.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl Turn<'_> {
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
