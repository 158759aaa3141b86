//! Schema migration at start: numbered files, each statement executed once.
//!
//! MySQL commits at every schema change, so a file cannot be applied as one transaction. Each
//! statement is therefore recorded in the table `migration` after it was executed. If the process
//! ended between execution and record, the statement reports at the next start that its object
//! already exists, which counts as success.
//!
//! A released file is never changed, only followed by another one: recorded statements are
//! identified by number. The caller must ensure that one process of a fleet does this at a time.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Row as _};

use super::{Db, Kind, folded};
use crate::error::{Error, Result};

/// All files, in order. Statements end with `;` at the end of a line.
const FILES: [(i64, &str); 18] = [
    (1, include_str!("../../migrations/01-accounts.sql")),
    (2, include_str!("../../migrations/02-shops.sql")),
    (3, include_str!("../../migrations/03-vouchers.sql")),
    (4, include_str!("../../migrations/04-notes.sql")),
    (5, include_str!("../../migrations/05-follows.sql")),
    (6, include_str!("../../migrations/06-checkins.sql")),
    (7, include_str!("../../migrations/07-goods.sql")),
    (8, include_str!("../../migrations/08-cart.sql")),
    (9, include_str!("../../migrations/09-orders.sql")),
    (10, BIG_KEYS),
    (11, include_str!("../../migrations/11-submissions.sql")),
    (12, include_str!("../../migrations/12-in-order-of-time.sql")),
    (13, include_str!("../../migrations/13-submission-targets.sql")),
    (14, include_str!("../../migrations/14-fans-by-time.sql")),
    (15, include_str!("../../migrations/15-session-ends.sql")),
    (16, include_str!("../../migrations/16-shop-search.sql")),
    (17, include_str!("../../migrations/17-debts.sql")),
    (18, include_str!("../../migrations/18-cart-pending.sql")),
];
/// The only table that `seawall keys big --log` needs.
const BIG_KEYS: &str = include_str!("../../migrations/10-big-keys.sql");

/// Suffix for MySQL tables: all Unicode characters, compared byte by byte. The defaults of a server
/// or database are arbitrary, and could treat two receipts that differ in upper and lower case as
/// equal.
const MYSQL_TEXT: &str = " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/// SQLite stores a table by rowid, and only a key of exactly this type is the rowid; any other key
/// adds a second tree to write.
const SQLITE_KEY: (&str, &str) = ("BIGINT NOT NULL PRIMARY KEY", "INTEGER NOT NULL PRIMARY KEY");

/// Maximum wait of a schema statement for a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Names filled in per transaction.
const NAMES_AT_ONCE: i64 = 500;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS migration (file BIGINT NOT NULL, \
     statement BIGINT NOT NULL, PRIMARY KEY (file, statement))";

impl Db {
    /// Migrates the schema; existing objects are left alone.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the database is away, [`Error::Internal`] if a statement fails.
    pub async fn migrate(&self) -> Result<()> {
        sqlx::query(TABLE).execute(self.read()).await?;
        let rows = sqlx::query("SELECT file, statement FROM migration").fetch_all(self.read());
        let mut done = std::collections::HashSet::new();
        for row in rows.await? {
            done.insert((row.try_get::<i64, _>("file")?, row.try_get::<i64, _>("statement")?));
        }
        for (file, text) in FILES {
            for (number, statement) in (1..).zip(statements(text)) {
                if done.contains(&(file, number)) {
                    continue;
                }
                self.apply(statement).await.map_err(|error| {
                    Error::Internal(format!("migration {file}, statement {number}: {error}"))
                })?;
                let note = "INSERT INTO migration (file, statement) VALUES (?, ?)";
                sqlx::query(note).bind(file).bind(number).execute(self.read()).await?;
            }
        }
        self.fold_names().await
    }

    /// Fills in `search_name` where an older version wrote a shop without it. Done here and not in
    /// SQL, because each database folds case differently, and SQLite only for ASCII.
    async fn fold_names(&self) -> Result<()> {
        let mut last = -1_i64;
        loop {
            let rows = sqlx::query(
                "SELECT id, name FROM shop WHERE search_name IS NULL AND id > ? ORDER BY id LIMIT ?",
            )
            .bind(last)
            .bind(NAMES_AT_ONCE)
            .fetch_all(self.read())
            .await?;
            // Ends with the table: each batch begins after the previous one.
            let Some(newest) = rows.last() else { return Ok(()) };
            last = newest.try_get("id")?;
            let mut tx = self.write().await?;
            for row in &rows {
                let name: String = row.try_get("name")?;
                // If an older version renames the shop meanwhile, the next start fills it in.
                sqlx::query("UPDATE shop SET search_name = ? WHERE id = ? AND name = ?")
                    .bind(folded(&name))
                    .bind(row.try_get::<i64, _>("id")?)
                    .bind(name.as_str())
                    .execute(tx.query())
                    .await?;
            }
            tx.commit().await?;
        }
    }

    /// Creates only the table of big keys, in a database that is not the market's.
    pub(crate) async fn add_big_keys(&self) -> Result<()> {
        for statement in statements(BIG_KEYS) {
            self.apply(statement).await?;
        }
        Ok(())
    }

    async fn apply(&self, statement: &'static str) -> Result<(), sqlx::Error> {
        let text = match self.kind {
            _ if !statement.starts_with("CREATE TABLE") => statement.to_owned(),
            Kind::Mysql => statement.to_owned() + MYSQL_TEXT,
            Kind::Sqlite => statement.replace(SQLITE_KEY.0, SQLITE_KEY.1),
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match sqlx::query(AssertSqlSafe(text.clone())).execute(self.read()).await {
                Err(sqlx::Error::Database(error)) if is_there(error.as_ref()) => return Ok(()),
                // Nothing was sent. No request waits yet, so a slow start is better than a failed
                // one.
                Err(sqlx::Error::PoolTimedOut) if Instant::now() < deadline => {}
                result => return result.map(drop),
            }
        }
    }
}

fn statements(file: &'static str) -> impl Iterator<Item = &'static str> {
    file.split(";\n").map(without_comments).filter(|text| !text.is_empty())
}

/// Strips comment lines at the beginning of a statement.
fn without_comments(mut text: &'static str) -> &'static str {
    loop {
        text = text.trim_start();
        if !text.starts_with("--") {
            return text.trim_end().trim_end_matches(';');
        }
        text = text.split_once('\n').map_or("", |(_, rest)| rest);
    }
}

/// Returns `true` if a statement failed because its object already exists.
fn is_there(error: &dyn sqlx::error::DatabaseError) -> bool {
    // MySQL: 1061 is a duplicate index name, 1060 a duplicate column name; SQLite only has a
    // message.
    let message = error.message().to_ascii_lowercase();
    ["already exists", "duplicate key name", "duplicate column name"]
        .iter()
        .any(|there| message.contains(there))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Database;

    #[test]
    fn files_are_cut_into_statements() {
        let all: Vec<_> = FILES.iter().flat_map(|(_, text)| statements(text)).collect();
        assert!(all.len() > 25, "{}", all.len());
        for statement in all {
            let known = ["CREATE ", "ALTER TABLE "];
            assert!(known.iter().any(|word| statement.starts_with(word)), "{statement}");
            assert!(!statement.contains(';'), "{statement}");
        }
    }

    /// Independent of the server's and the database's defaults.
    #[tokio::test]
    async fn mysql_keeps_every_character_and_tells_capitals_apart() {
        let database = seawall_testkit::TestDatabase::create().expect("MariaDB answers");
        let latin = "ALTER DATABASE CHARACTER SET latin1 COLLATE latin1_swedish_ci";
        database.query(latin).expect("it is altered");
        let url = crate::config::Secret::new(database.url());
        let db = Db::open(&Database::Mysql(url)).await.expect("it opens");
        db.migrate().await.expect("migrated");
        for (number, name) in (1_i64..).zip(["麺屋 🍜", "cafe", "Cafe", "café"]) {
            let insert = "INSERT INTO session (token_hash, user_id, expires, until, create_time, \
                          update_time) VALUES (?, ?, 0, 0, 0, 0)";
            let insert = sqlx::query(insert).bind(name).bind(number);
            insert.execute(db.read()).await.expect("a key of its own");
            let select = "SELECT user_id AS n FROM session WHERE token_hash = ?";
            let row =
                sqlx::query(select).bind(name).fetch_one(db.read()).await.expect("it is there");
            assert_eq!(row.get::<i64, _>("n"), number, "{name}");
        }
        db.close().await;
    }

    #[tokio::test]
    async fn it_may_end_anywhere_and_be_repeated() {
        let dir = tempfile::tempdir().expect("a folder");
        let database = Database::Sqlite(dir.path().join("market.db"));
        let db = Db::open(&database).await.expect("it opens");
        db.migrate().await.expect("the first time");
        // As if the process had ended before the last statements were recorded.
        let forget = "DELETE FROM migration WHERE file >= 3";
        sqlx::query(forget).execute(db.read()).await.expect("forgotten");
        db.migrate().await.expect("the second time");
        db.migrate().await.expect("the third time");
        let row = sqlx::query("SELECT COUNT(*) AS n FROM orders").fetch_one(db.read()).await;
        assert_eq!(row.expect("it is there").get::<i64, _>("n"), 0);
    }
}
