//! Debts in the database.

use sqlx::{AssertSqlSafe, Row as _};

use super::{Debt, KINDS};
use crate::{
    db::{Db, marks, unsigned},
    error::Result,
};

/// A debt and its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owed {
    pub(super) row: i64,
    pub(super) debt: Debt,
}

/// Writes debts, all or none.
pub(super) async fn insert(db: &Db, debts: &[Debt], now: i64) -> Result<()> {
    let values = vec!["(?, ?, ?, ?, ?)"; debts.len()].join(", ");
    let insert =
        format!("INSERT INTO debt (id, kind, subject, detail, create_time) VALUES {values}");
    let mut query = sqlx::query(AssertSqlSafe(insert));
    for debt in debts {
        let (word, subject, detail) = debt.columns();
        // The id generator needs Redis, which is away.
        let row = (rand::random::<u64>() >> 1).cast_signed();
        query = query.bind(row).bind(word).bind(subject).bind(detail).bind(now);
    }
    let mut tx = db.write().await?;
    query.execute(tx.query()).await?;
    tx.commit().await
}

/// Returns debts of known kinds, ordered by row, after a row.
pub(super) async fn after(db: &Db, row: i64, most: i64) -> Result<Vec<Owed>> {
    let select = format!(
        "SELECT id, kind, subject, detail FROM debt WHERE id > ? AND kind IN ({}) \
         ORDER BY id LIMIT ?",
        marks(KINDS.len())
    );
    let mut query = sqlx::query(AssertSqlSafe(select)).bind(row);
    for kind in KINDS {
        query = query.bind(kind);
    }
    let mut owed = Vec::new();
    for found in query.bind(most).fetch_all(db.read()).await? {
        let word: String = found.try_get("kind")?;
        let subject = unsigned(found.try_get("subject")?);
        if let Some(debt) = Debt::of_columns(&word, subject, found.try_get("detail")?) {
            owed.push(Owed { row: found.try_get("id")?, debt });
        }
    }
    Ok(owed)
}

/// Deletes settled debts.
pub(super) async fn delete(db: &Db, rows: &[i64]) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let delete = format!("DELETE FROM debt WHERE id IN ({})", marks(rows.len()));
    let mut query = sqlx::query(AssertSqlSafe(delete));
    for row in rows {
        query = query.bind(row);
    }
    let mut tx = db.write().await?;
    query.execute(tx.query()).await?;
    tx.commit().await
}
