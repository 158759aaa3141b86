//! Candidates for the home feed.

use sqlx::{Row as _, any::AnyRow};

use super::Candidate;
use crate::{
    db::{Db, unsigned},
    error::Result,
};

/// Number of newest and number of most liked notes considered.
const LOOKED_AT: i64 = 400;

fn decode(row: &AnyRow) -> Result<Candidate> {
    Ok(Candidate {
        id: unsigned(row.try_get("id")?),
        liked: row.try_get("liked")?,
        create_time: row.try_get("create_time")?,
    })
}

/// Returns the newest and the most liked notes; some appear twice.
pub(super) async fn candidates(db: &Db) -> Result<Vec<Candidate>> {
    let newest =
        "SELECT id, liked, create_time FROM blog ORDER BY create_time DESC, id DESC LIMIT ?";
    let liked = "SELECT id, liked, create_time FROM blog ORDER BY liked DESC, id DESC LIMIT ?";
    let mut notes = Vec::new();
    for query in [newest, liked] {
        let rows = sqlx::query(query).bind(LOOKED_AT).fetch_all(db.read()).await?;
        for row in &rows {
            notes.push(decode(row)?);
        }
    }
    Ok(notes)
}
