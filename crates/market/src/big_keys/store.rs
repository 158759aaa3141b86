//! Table `big_key_log`: one row per key and survey.
//!
//! All rows of one survey have the same `found_at`, which identifies the latest survey.

use std::{collections::HashSet, sync::Arc};

use seawall::{id::Snowflake, survey::Finding};
use sqlx::Row as _;

use crate::{
    config::Database,
    db::Db,
    error::{Error, Result},
};

/// Rows per transaction.
const ROWS: usize = 500;
/// Maximum keys of the latest survey that are compared with the new one.
const LATEST: i64 = 10_000;

/// The log of big keys in a database.
#[derive(Debug, Clone)]
pub struct BigKeyLog {
    db: Arc<Db>,
}

impl BigKeyLog {
    pub(crate) fn new(db: Arc<Db>) -> Self {
        BigKeyLog { db }
    }

    /// Opens a database and creates the table if it does not exist; nothing else is touched.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if it cannot be opened.
    pub async fn open(database: &Database) -> Result<Self> {
        let db = Db::open(database).await?;
        db.add_big_keys().await?;
        Ok(BigKeyLog { db: Arc::new(db) })
    }

    /// Inserts the findings of a survey.
    ///
    /// Returns the number of rows.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away; rows inserted before that remain.
    pub async fn insert(&self, found: &[Finding], found_at: i64) -> Result<usize> {
        // The table may be shared: two surveys should not generate the same ids.
        let flakes = Snowflake::new(rand::random_range(0..1024))?;
        for some in found.chunks(ROWS) {
            let mut tx = self.db.write().await?;
            for one in some {
                let id = i64::try_from(flakes.next().await?.as_u64())
                    .map_err(|_| Error::Internal("an id with its highest bit set".into()))?;
                sqlx::query(
                    "INSERT INTO big_key_log (id, `key`, type, bytes, members, node, found_at, \
                     create_time, update_time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                )
                .bind(id)
                .bind(one.key_text())
                .bind(one.kind.name())
                .bind(i64::try_from(one.bytes).unwrap_or(i64::MAX))
                .bind(i64::try_from(one.members).unwrap_or(i64::MAX))
                .bind(one.node.to_string())
                .bind(found_at)
                .bind(found_at)
                .bind(found_at)
                .execute(tx.query())
                .await?;
            }
            tx.commit().await?;
        }
        Ok(found.len())
    }

    /// Returns the keys of the latest stored survey, as text.
    pub(crate) async fn latest(&self) -> Result<HashSet<String>> {
        let rows = sqlx::query(
            "SELECT `key` AS name FROM big_key_log WHERE found_at = (SELECT MAX(found_at) FROM \
             big_key_log) ORDER BY bytes DESC LIMIT ?",
        )
        .bind(LATEST)
        .fetch_all(self.db.read())
        .await?;
        rows.iter().map(|row| Ok(row.try_get::<String, _>("name")?)).collect()
    }

    /// Closes the connections.
    pub async fn close(&self) {
        self.db.close().await;
    }
}
