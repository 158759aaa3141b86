//! Follows of the demo data. `people` counts the followers afterwards.

use sqlx::{Any, QueryBuilder};

use crate::{db::WriteTx, error::Result};

/// Follower and followed user.
const FOLLOWS: [(i64, i64); 17] = [
    (1, 2),
    (1, 3),
    (2, 3),
    (2, 1),
    (3, 1),
    (3, 2),
    (3, 4),
    (4, 3),
    (4, 6),
    (5, 1),
    (5, 8),
    (6, 4),
    (6, 7),
    (7, 1),
    (7, 3),
    (7, 8),
    (8, 1),
];
/// Users who all follow Hugo, and Hugo's id.
const FANS: std::ops::RangeInclusive<i64> = 1_001..=3_000;
const HUGO: i64 = 8;
/// Rows per statement.
const ROWS: usize = 500;

pub(super) async fn fill(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    let fans = FANS.map(|fan| (fan, HUGO));
    let all: Vec<(i64, i64)> = FOLLOWS.into_iter().chain(fans).collect();
    for some in all.chunks(ROWS) {
        let mut insert = QueryBuilder::<Any>::new(
            "INSERT INTO follow (user_id, follow_user_id, create_time, update_time) ",
        );
        insert.push_values(some, |mut row, &(user, whom)| {
            row.push_bind(user).push_bind(whom).push_bind(now).push_bind(now);
        });
        insert.build().execute(tx.query()).await?;
    }
    Ok(())
}
