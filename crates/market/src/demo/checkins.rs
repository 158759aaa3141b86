//! Demo sign-ins: two months without a gap up to yesterday, which always cross the end of a month,
//! and a second calendar with gaps.

use seawall::social::Day;
use sqlx::{Any, QueryBuilder};

use crate::{db::WriteTx, error::Result};

/// Days without a gap.
const DAYS: usize = 61;
/// User who never misses a day.
const STEADY: i64 = 1;
/// User who misses every third day.
const LOOSE: i64 = 2;

/// Inserts sign-ins up to the day before `today`.
pub(super) async fn fill(tx: &mut WriteTx<'_>, today: Day, now: i64) -> Result<()> {
    let days = std::iter::successors(today.previous(), |day| day.previous()).take(DAYS);
    let mut rows = Vec::new();
    for (back, day) in days.enumerate() {
        rows.push((STEADY, day));
        if back % 3 != 2 {
            rows.push((LOOSE, day));
        }
    }
    let mut signs = QueryBuilder::<Any>::new(
        "INSERT INTO sign (user_id, date, is_backup, create_time, update_time) ",
    );
    signs.push_values(rows, |mut row, (user, day)| {
        row.push_bind(user).push_bind(day.dashed()).push("0").push_bind(now).push_bind(now);
    });
    signs.build().execute(tx.query()).await?;
    Ok(())
}
