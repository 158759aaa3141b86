//! Demo users: eight named ones, an admin, and two thousand followers of one of them.

use sqlx::{Any, QueryBuilder};

use crate::{db::WriteTx, error::Result};

/// Id, phone, name, role, city, introduction, gender, birthday, credits, level.
type Person = (
    i64,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    i64,
    Option<&'static str>,
    i64,
    i64,
);

const PEOPLE: [Person; 9] = [
    (
        1,
        "10000000001",
        "Ada",
        "user",
        "Hangzhou",
        "Eats her way through the harbour.",
        2,
        Some("1994-03-08"),
        420,
        3,
    ),
    (2, "10000000002", "Bo", "user", "Hangzhou", "Noodles first.", 1, Some("1991-12-31"), 260, 2),
    (3, "10000000003", "Chen", "user", "Ningbo", "Tea, books, rain.", 0, None, 515, 4),
    (4, "10000000004", "Dora", "user", "Shanghai", "Here for the weekend.", 2, None, 80, 1),
    (5, "10000000005", "Emil", "merchant", "Hangzhou", "Keeps the shops.", 1, None, 900, 6),
    (6, "10000000006", "Fang", "user", "Suzhou", "", 0, Some("2000-02-29"), 0, 0),
    (7, "10000000007", "Gita", "user", "Hangzhou", "Sings on Fridays.", 2, None, 150, 1),
    (
        8,
        "10000000008",
        "Hugo",
        "user",
        "Hangzhou",
        "Writes about everything with a roof.",
        1,
        Some("1988-07-19"),
        2300,
        9,
    ),
    (9, "10000000000", "Admin", "admin", "", "", 0, None, 0, 0),
];

/// Ids of Hugo's followers.
pub(super) const FANS: std::ops::RangeInclusive<i64> = 1001..=3000;
/// A follower's phone is this number plus the id.
const FAN_PHONES: i64 = 20_000_000_000;
/// Rows per statement.
const SLICE: usize = 500;

/// Inserts all users with their rows of `user_info`.
pub(super) async fn fill(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    let fans: Vec<i64> = FANS.collect();
    let mut users = QueryBuilder::<Any>::new(USERS);
    users.push_values(PEOPLE, |mut row, (id, phone, name, role, ..)| {
        row.push_bind(id).push_bind(phone).push_bind(name);
        row.push_bind(format!("/pictures/user/{id}.svg")).push_bind(role);
        row.push_bind(now).push_bind(now);
    });
    users.build().execute(tx.query()).await?;
    let mut infos = QueryBuilder::<Any>::new(INFOS);
    infos.push_values(PEOPLE, |mut row, person| {
        let (id, _, _, _, city, words, gender, birthday, credits, level) = person;
        row.push_bind(id).push_bind(city).push_bind(words).push("0, 0").push_bind(gender);
        row.push_bind(birthday).push_bind(credits).push_bind(level);
        row.push_bind(now).push_bind(now);
    });
    infos.build().execute(tx.query()).await?;
    for slice in fans.chunks(SLICE) {
        fill_fans(tx, slice, now).await?;
    }
    Ok(())
}

const USERS: &str =
    "INSERT INTO user (id, phone, nick_name, icon, role, create_time, update_time) ";
const INFOS: &str = "INSERT INTO user_info (user_id, city, introduce, fans, followee, gender, \
     birthday, credits, level, create_time, update_time) ";

/// Inserts the followers. The values are numbers only, so they are inlined: thousands of parameters
/// would take longer than everything else.
async fn fill_fans(tx: &mut WriteTx<'_>, fans: &[i64], now: i64) -> Result<()> {
    let mut users = QueryBuilder::<Any>::new(USERS);
    users.push_values(fans, |mut row, fan| {
        let phone = FAN_PHONES + fan;
        row.push(format_args!("{fan}, '{phone}', 'fan_{fan}', '', 'user', {now}, {now}"));
    });
    users.build().execute(tx.query()).await?;
    let mut infos = QueryBuilder::<Any>::new(INFOS);
    infos.push_values(fans, |mut row, fan| {
        row.push(format_args!("{fan}, '', '', 0, 0, 0, NULL, 0, 0, {now}, {now}"));
    });
    infos.build().execute(tx.query()).await?;
    Ok(())
}

/// Computes the counts in `user_info` from `follow`; the last step, after all follows are inserted.
pub(super) async fn count_follows(tx: &mut WriteTx<'_>) -> Result<()> {
    sqlx::query(
        "UPDATE user_info SET \
         fans = (SELECT COUNT(*) FROM follow f WHERE f.follow_user_id = user_info.user_id), \
         followee = (SELECT COUNT(*) FROM follow f WHERE f.user_id = user_info.user_id)",
    )
    .execute(tx.query())
    .await?;
    Ok(())
}
