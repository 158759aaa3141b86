//! Sixty demo notes with comments and likes.
//!
//! Twelve in the middle share one millisecond, more than a feed page holds; three more share
//! another one.

use sqlx::{Any, QueryBuilder};

use super::{MINUTE_MS, seed::Seed};
use crate::{db::WriteTx, error::Result};

/// Number of notes.
const NOTES: i64 = 60;
/// The twelve notes of one millisecond, by authors 2 and 3.
const TOGETHER: std::ops::RangeInclusive<i64> = 21..=32;
/// The three notes of another millisecond.
const THREE: std::ops::RangeInclusive<i64> = 45..=47;
/// Time between two notes.
const STEP_MS: i64 = 7 * 60 * MINUTE_MS + 123;
/// Named users, who write and like.
const PEOPLE: i64 = 8;
const SHOPS: i64 = 48;
/// Rows per statement.
const ROWS: usize = 100;

const OPENINGS: [&str; 6] = [
    "An evening at",
    "Why I keep going back to",
    "A first visit to",
    "Rainy day at",
    "With friends at",
    "The quiet side of",
];
const PLACES: [&str; 5] =
    ["the harbour", "the corner by the mill", "the night market", "the old quarter", "the weir"];
const TEXTS: [&str; 6] = [
    "We came for one dish and stayed for four. Ask for the table at the window.",
    "Small, warm and never in a hurry. The tea alone is worth the walk.",
    "It was full, and still nobody was kept waiting. Bring cash for the market next door.",
    "The light in the late afternoon is something else. I took too many pictures.",
    "Friendly people, fair prices, and a cat that owns the place.",
    "Go early. By noon the best of it is gone.",
];
const COMMENTS: [&str; 6] = [
    "I was there, too. Everything you say is true.",
    "Is it open on Mondays?",
    "The cat has a name, by the way.",
    "Thank you, this is going on my list.",
    "It was better last year.",
    "Who took the second picture?",
];
const REPLIES: [&str; 4] = [
    "Yes, from ten o'clock.",
    "I do not agree at all.",
    "See you there on Friday?",
    "A friend did.",
];

struct Row {
    id: i64,
    author: i64,
    time: i64,
    likers: Vec<i64>,
    /// Id, author, root, answered comment, text.
    comments: Vec<(i64, i64, i64, i64, &'static str)>,
}

pub(super) async fn fill(tx: &mut WriteTx<'_>, now: i64) -> Result<()> {
    let rows = rows(now);
    notes(tx, &rows).await?;
    comments(tx, &rows).await?;
    likes(tx, &rows).await
}

fn rows(now: i64) -> Vec<Row> {
    let mut seed = Seed::new(4);
    let mut comment = 0;
    let mut row = |id: i64| {
        let author = if TOGETHER.contains(&id) { 2 + id % 2 } else { 1 + id % PEOPLE };
        let place = match id {
            id if TOGETHER.contains(&id) => *TOGETHER.start(),
            id if THREE.contains(&id) => *THREE.start(),
            id => id,
        };
        let time = now - (NOTES + 1 - place) * STEP_MS;
        let likers = (1..=PEOPLE).filter(|_| seed.part() < 0.35).collect();
        let mut comments = Vec::new();
        for _ in 0..if id % 3 == 0 { seed.between(1, 4) } else { 0 } {
            comment += 1;
            let root = comment;
            comments.push((root, seed.between(1, PEOPLE), 0, 0, seed.pick(&COMMENTS)));
            let mut answered = root;
            for _ in 0..seed.between(0, 3) {
                comment += 1;
                comments.push((
                    comment,
                    seed.between(1, PEOPLE),
                    root,
                    answered,
                    seed.pick(&REPLIES),
                ));
                answered = comment;
            }
        }
        Row { id, author, time, likers, comments }
    };
    (1..=NOTES).map(&mut row).collect()
}

async fn notes(tx: &mut WriteTx<'_>, rows: &[Row]) -> Result<()> {
    let mut seed = Seed::new(5);
    let mut insert = QueryBuilder::<Any>::new(
        "INSERT INTO blog (id, shop_id, user_id, title, images, content, liked, comments, \
         create_time, update_time) ",
    );
    insert.push_values(rows, |mut values, row| {
        let shop = seed.between(1, SHOPS);
        let count = |rows: usize| i64::try_from(rows).unwrap_or(0);
        values
            .push_bind(row.id)
            .push_bind(shop)
            .push_bind(row.author)
            .push_bind(format!("{} {}", seed.pick(&OPENINGS), seed.pick(&PLACES)))
            .push_bind(format!("/pictures/note/{}.svg,/pictures/shop/{shop}.svg", row.id))
            .push_bind(seed.pick(&TEXTS))
            .push_bind(count(row.likers.len()))
            .push_bind(count(row.comments.len()))
            .push_bind(row.time)
            .push_bind(row.time);
    });
    insert.build().execute(tx.query()).await?;
    Ok(())
}

async fn comments(tx: &mut WriteTx<'_>, rows: &[Row]) -> Result<()> {
    let all: Vec<_> = rows
        .iter()
        .flat_map(|row| row.comments.iter().map(move |comment| (row, comment)))
        .collect();
    for some in all.chunks(ROWS) {
        let mut insert = QueryBuilder::<Any>::new(
            "INSERT INTO blog_comment (id, user_id, blog_id, parent_id, answer_id, content, liked, \
             status, create_time, update_time) ",
        );
        insert.push_values(some, |mut values, (row, comment)| {
            let &(id, author, root, answered, text) = *comment;
            let time = row.time + id * MINUTE_MS;
            values
                .push_bind(id)
                .push_bind(author)
                .push_bind(row.id)
                .push_bind(root)
                .push_bind(answered)
                .push_bind(text)
                .push_bind(0_i64)
                .push_bind(0_i64)
                .push_bind(time)
                .push_bind(time);
        });
        insert.build().execute(tx.query()).await?;
    }
    Ok(())
}

async fn likes(tx: &mut WriteTx<'_>, rows: &[Row]) -> Result<()> {
    let all: Vec<(i64, i64, i64)> = rows
        .iter()
        .flat_map(|row| row.likers.iter().map(|user| (row.id, *user, row.time + user * 1_000)))
        .collect();
    for some in all.chunks(ROWS) {
        let mut insert = QueryBuilder::<Any>::new(
            "INSERT INTO blog_like (blog_id, user_id, time, create_time, update_time) ",
        );
        insert.push_values(some, |mut values, &(note, user, time)| {
            values.push_bind(note).push_bind(user).push_bind(time).push_bind(time).push_bind(time);
        });
        insert.build().execute(tx.query()).await?;
    }
    Ok(())
}
