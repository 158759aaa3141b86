//! Submissions that may be repeated. A client names one with the header `Idempotency-Key`; the same
//! name of the same user makes the same thing once, whatever else the repetition says. What it was for
//! is kept with the name: said of another note, or of another kind of voucher, it is refused.
//!
//! A name stands in the transaction that makes the thing, so it is taken if and only if that is there.
//! Names are kept for a day: longer than anybody repeats a request.
//!
//! Orders of goods and notes have unique keys of their own, which last as long as they do.

use std::{sync::Arc, time::Duration};

use sqlx::{AnyConnection, Row as _};

use crate::{
    app::Context,
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
    jobs::Jobs,
};

/// Longest key of a client.
const KEY_CHARS: usize = 64;
/// How long a name is kept, in milliseconds.
pub(crate) const KEPT_MS: i64 = 24 * 3_600_000;
/// How often older ones are taken out.
const PURGE_EVERY: Duration = Duration::from_secs(3600);
/// Names of one user and kind that are read at once.
const READ: i64 = 1_000;

/// What a client calls a submission, so that it may repeat it: 1 to 64 printable characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Checks a key.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let fits = (1..=KEY_CHARS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits {
            let msg = "Idempotency-Key is 1 to 64 printable characters without spaces";
            return Err(Error::bad("BAD_IDEMPOTENCY_KEY", msg));
        }
        Ok(IdempotencyKey(text.to_owned()))
    }

    /// The characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is submitted, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Units for a cart.
    Cart,
    /// A comment.
    Comment {
        /// The note that it is said to.
        note: u64,
        /// The comment that it answers; 0 for none.
        answered: u64,
    },
    /// A shop.
    Shop,
    /// A voucher that is sold at any time.
    Voucher {
        /// Whose.
        shop: u64,
    },
    /// A voucher with a flash sale; it shares its names with the other kind.
    FlashSale {
        /// Whose.
        shop: u64,
    },
}

impl Kind {
    /// Whose names it shares.
    fn word(self) -> &'static str {
        match self {
            Kind::Cart => "CART",
            Kind::Comment { .. } => "COMMENT",
            Kind::Shop => "SHOP",
            Kind::Voucher { .. } | Kind::FlashSale { .. } => "VOUCHER",
        }
    }

    /// What a name is kept for; empty where it may be for anything.
    fn target(self) -> String {
        match self {
            Kind::Cart | Kind::Shop => String::new(),
            Kind::Comment { note, answered } => format!("{note}:{answered}"),
            Kind::Voucher { shop } => format!("{shop}"),
            Kind::FlashSale { shop } => format!("{shop}:flash"),
        }
    }
}

/// A submission by somebody, if it has a name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission<'a> {
    pub(crate) user: u64,
    pub(crate) kind: Kind,
    pub(crate) key: Option<&'a IdempotencyKey>,
}

/// What noting a submission came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Noted {
    /// It is part of the transaction now.
    Now,
    /// It had made this; the transaction has to be rolled back.
    Before(u64),
}

/// Notes a submission as a part of the transaction that makes its result.
///
/// # Errors
/// [`Error::Conflict`] when its name was used for something else; the transaction has to be rolled back.
pub(crate) async fn note(
    connection: &mut AnyConnection,
    submission: Submission<'_>,
    result: u64,
    now: i64,
) -> Result<Noted> {
    let Some(key) = submission.key else { return Ok(Noted::Now) };
    let (user, kind) = (id(submission.user), submission.kind.word());
    let target = submission.kind.target();
    let inserted = sqlx::query(
        "INSERT INTO submission (user_id, kind, name, target, result, create_time, update_time) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(user)
    .bind(kind)
    .bind(key.as_str())
    .bind(target.as_str())
    .bind(id(result))
    .bind(now)
    .bind(now)
    .execute(&mut *connection)
    .await;
    match inserted {
        Ok(_) => return Ok(Noted::Now),
        Err(error) if is_taken(&error) => {}
        Err(error) => return Err(error.into()),
    }
    let row = sqlx::query(
        "SELECT result, target FROM submission WHERE user_id = ? AND kind = ? AND name = ?",
    )
    .bind(user)
    .bind(kind)
    .bind(key.as_str())
    .fetch_one(connection)
    .await?;
    let (first, kept) = (unsigned(row.try_get("result")?), row.try_get::<String, _>("target")?);
    // Names of an earlier version do not say what they are for.
    if !kept.is_empty() && kept != target {
        return Err(Error::Conflict {
            code: "IDEMPOTENCY_KEY_REUSED",
            msg: "this key was used for something else",
            data: Some(first),
        });
    }
    Ok(Noted::Before(first))
}

/// The newest names of somebody's submissions since a time, each with its time.
pub(crate) async fn names(
    db: &Db,
    user: u64,
    kind: Kind,
    since: i64,
) -> Result<Vec<(String, i64)>> {
    let rows = sqlx::query(
        "SELECT name, create_time FROM submission \
         WHERE user_id = ? AND kind = ? AND create_time > ? ORDER BY create_time DESC LIMIT ?",
    )
    .bind(id(user))
    .bind(kind.word())
    .bind(since)
    .bind(READ)
    .fetch_all(db.read())
    .await?;
    rows.iter().map(|row| Ok((row.try_get("name")?, row.try_get("create_time")?))).collect()
}

/// Starts what takes old names out.
pub(crate) fn start_jobs(context: &Context, jobs: &mut Jobs) {
    let context = Arc::new(context.clone());
    jobs.every("submissions", PURGE_EVERY, move || {
        let context = Arc::clone(&context);
        async move {
            let mut tx = context.db.write().await?;
            sqlx::query("DELETE FROM submission WHERE create_time < ?")
                .bind(context.now() - KEPT_MS)
                .execute(tx.query())
                .await?;
            tx.commit().await
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_printable_and_short() {
        for good in ["k", "0b9c1f6e-7d1b-4e0c-9a53-1a2b3c4d5e6f", "~!@", &"x".repeat(64)] {
            assert!(IdempotencyKey::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "ключ", "a\n", &"x".repeat(65)] {
            assert!(IdempotencyKey::parse(bad).is_err(), "{bad}");
        }
    }
}
