//! Idempotent submissions. A client names a submission with the header `Idempotency-Key`; the same
//! key of the same user creates the same object once, whatever else the repetition contains. The
//! target of a submission is stored with its key: a key reused for another note, or another kind of
//! voucher, is refused.
//!
//! A key is stored in the transaction that creates the object, so it exists if and only if the
//! object was created. Keys are kept for a day: longer than any client repeats a request.
//!
//! Orders of goods and notes have their own unique keys, which last as long as they do.

use std::{sync::Arc, time::Duration};

use sqlx::{AnyConnection, Row as _};

use crate::{
    app::Context,
    db::{Db, id, is_taken, unsigned},
    error::{Error, Result},
    jobs::Jobs,
};

/// Maximum length of a client's key.
const KEY_CHARS: usize = 64;
/// Lifetime of a key, in milliseconds.
pub(crate) const KEPT_MS: i64 = 24 * 3_600_000;
/// Interval between deletions of old keys.
const PURGE_EVERY: Duration = Duration::from_secs(3600);
/// Maximum keys of one user and kind per query.
const READ: i64 = 1_000;

/// A client's key for a submission, which makes it repeatable: 1 to 64 printable characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Parses a key.
    ///
    /// # Errors
    /// [`Error::BadInput`] if it is invalid.
    pub fn parse(text: &str) -> Result<Self> {
        let fits = (1..=KEY_CHARS).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits {
            let msg = "Idempotency-Key is 1 to 64 printable characters without spaces";
            return Err(Error::bad("BAD_IDEMPOTENCY_KEY", msg));
        }
        Ok(IdempotencyKey(text.to_owned()))
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Kind of submission, and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Units added to a cart.
    Cart,
    /// A comment.
    Comment {
        /// Note that it belongs to.
        note: u64,
        /// Comment that it answers; 0 for none.
        answered: u64,
    },
    /// A shop.
    Shop,
    /// A voucher that is sold at any time.
    Voucher {
        /// Shop of the voucher.
        shop: u64,
    },
    /// A voucher with a flash sale; shares its keys with [`Kind::Voucher`].
    FlashSale {
        /// Shop of the voucher.
        shop: u64,
    },
}

impl Kind {
    /// Returns the word of the key space.
    fn word(self) -> &'static str {
        match self {
            Kind::Cart => "CART",
            Kind::Comment { .. } => "COMMENT",
            Kind::Shop => "SHOP",
            Kind::Voucher { .. } | Kind::FlashSale { .. } => "VOUCHER",
        }
    }

    /// Returns the target stored with a key; empty if any target is allowed.
    fn target(self) -> String {
        match self {
            Kind::Cart | Kind::Shop => String::new(),
            Kind::Comment { note, answered } => format!("{note}:{answered}"),
            Kind::Voucher { shop } => format!("{shop}"),
            Kind::FlashSale { shop } => format!("{shop}:flash"),
        }
    }
}

/// A submission of a user, with its key, if any.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission<'a> {
    pub(crate) user: u64,
    pub(crate) kind: Kind,
    pub(crate) key: Option<&'a IdempotencyKey>,
}

/// Outcome of [`note`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Noted {
    /// It is part of the transaction now.
    Now,
    /// It was made before, with this result; the caller must roll the transaction back.
    Before(u64),
}

/// Records a submission as part of the transaction that creates its result.
///
/// # Errors
/// [`Error::Conflict`] if its key was used for something else; the caller must roll the transaction
/// back.
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
    // Keys of an earlier version have no target.
    if !kept.is_empty() && kept != target {
        return Err(Error::Conflict {
            code: "IDEMPOTENCY_KEY_REUSED",
            msg: "this key was used for something else",
            data: Some(first),
        });
    }
    Ok(Noted::Before(first))
}

/// Returns the newest keys of a user's submissions since a time, each with its time.
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

/// Starts the job that deletes old keys.
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
