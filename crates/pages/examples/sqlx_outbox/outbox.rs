//! An outbox table as the recovery log of a cache, with sqlx: copy this file, and keep the imports, the constant and the last
//! line of your database.
//!
//! A row names a cache and one of its entries that has to be invalidated. The application inserts it in the
//! transaction that changes its own row ([`SqliteOutbox::note`]), so both are committed or neither is. Every
//! process that builds the cache with this log reads the table once a second, invalidates what it finds and
//! deletes those rows. Ids are never used again, so a late deletion removes no other row; they need not be
//! committed in order, because every reading begins with the lowest one.

use std::io;

use seawall::cache::{LogFuture, RecoveryLog, RecoveryRow};
use sqlx::{MySql, Pool, Postgres, QueryBuilder, Row, Sqlite, Transaction};

/// `autoincrement`: SQLite would use the id of a deleted row again.
const SQLITE: [&str; 2] = [
    "create table if not exists cache_outbox (
        id integer primary key autoincrement, cache text not null, entry blob not null)",
    "create index if not exists cache_outbox_by_cache on cache_outbox (cache, id)",
];

const MYSQL: [&str; 1] = ["create table if not exists cache_outbox (
        id bigint not null auto_increment primary key, cache varchar(255) not null, entry blob not null,
        index cache_outbox_by_cache (cache, id)) engine = InnoDB"];

const POSTGRES: [&str; 2] = [
    "create table if not exists cache_outbox (
        id bigint generated always as identity primary key, cache text not null, entry bytea not null)",
    "create index if not exists cache_outbox_by_cache on cache_outbox (cache, id)",
];

/// Writes an outbox for one kind of database: its type, sqlx's name of the database, the statements that create
/// the table.
macro_rules! outbox {
    ($outbox:ident, $database:ty, $schema:ident) => {
        /// An outbox in the table `cache_outbox`.
        #[derive(Debug, Clone)]
        pub(crate) struct $outbox {
            pool: Pool<$database>,
        }

        impl $outbox {
            /// Creates the table if it does not exist. A service with migrations does that there.
            pub(crate) async fn open(pool: Pool<$database>) -> sqlx::Result<Self> {
                for statement in $schema {
                    sqlx::query(statement).execute(&pool).await?;
                }
                Ok(Self { pool })
            }

            /// Adds entries of a cache (`Cache::entry_name`) in the transaction of the caller.
            pub(crate) async fn note(
                transaction: &mut Transaction<'_, $database>,
                cache: &str,
                entries: &[Vec<u8>],
            ) -> sqlx::Result<()> {
                // Far below the limits on the parameters of one statement.
                for entries in entries.chunks(500) {
                    let mut insert =
                        QueryBuilder::<$database>::new("insert into cache_outbox (cache, entry) ");
                    insert.push_values(entries, |mut row, entry| {
                        row.push_bind(cache).push_bind(entry.as_slice());
                    });
                    insert.build().execute(&mut **transaction).await?;
                }
                Ok(())
            }
        }

        impl RecoveryLog for $outbox {
            fn add<'a>(&'a self, cache: &'a str, entries: &'a [Vec<u8>]) -> LogFuture<'a, ()> {
                Box::pin(async move {
                    let mut transaction = self.pool.begin().await.map_err(io::Error::other)?;
                    Self::note(&mut transaction, cache, entries).await.map_err(io::Error::other)?;
                    transaction.commit().await.map_err(io::Error::other)
                })
            }

            fn load<'a>(
                &'a self,
                cache: &'a str,
                after: u64,
                limit: usize,
            ) -> LogFuture<'a, Vec<RecoveryRow>> {
                Box::pin(async move {
                    let mut select = QueryBuilder::<$database>::new(
                        "select id, entry from cache_outbox where cache = ",
                    );
                    select.push_bind(cache).push(" and id > ");
                    select.push_bind(i64::try_from(after).unwrap_or(i64::MAX));
                    select.push(" order by id limit ");
                    select.push_bind(i64::try_from(limit).unwrap_or(i64::MAX));
                    let rows = select.build().fetch_all(&self.pool).await;
                    let rows = rows.map_err(io::Error::other)?.into_iter().map(|row| {
                        let id: i64 = row.try_get("id").map_err(io::Error::other)?;
                        let entry = row.try_get("entry").map_err(io::Error::other)?;
                        Ok(RecoveryRow { id: id.unsigned_abs(), entry })
                    });
                    rows.collect()
                })
            }

            fn remove<'a>(&'a self, cache: &'a str, ids: &'a [u64]) -> LogFuture<'a, ()> {
                Box::pin(async move {
                    // A row that another process deleted before is no error.
                    for ids in ids.chunks(500) {
                        let mut delete = QueryBuilder::<$database>::new(
                            "delete from cache_outbox where cache = ",
                        );
                        delete.push_bind(cache).push(" and id in (");
                        let mut list = delete.separated(", ");
                        for id in ids {
                            list.push_bind(i64::try_from(*id).unwrap_or(i64::MAX));
                        }
                        delete.push(")");
                        let deleted = delete.build().execute(&self.pool).await;
                        deleted.map_err(io::Error::other)?;
                    }
                    Ok(())
                })
            }
        }
    };
}

outbox!(SqliteOutbox, Sqlite, SQLITE);
outbox!(MySqlOutbox, MySql, MYSQL);
outbox!(PostgresOutbox, Postgres, POSTGRES);
