//! Debts: one row in the database for each copy in Redis that missed a change.
//!
//! A change is committed, then Redis is told. A process that cannot reach Redis writes a debt
//! before it answers the request; if even that fails, the answer is an error. So every acknowledged
//! change is either in Redis or recorded as a debt. Every process looks for debts ([`settle`]), so
//! it does not matter whether the process that wrote one still lives. What a process additionally
//! keeps in memory ([`Stale`](crate::stale::Stale), the cache's repair queue) only prevents that
//! process from trusting copies it knows to be outdated.
//!
//! Invariant: a debt says that a copy must be deleted, never what it should become. Settling it is
//! correct at any time after the change, any number of times, by any number of processes. Each debt
//! is its own row, not one row per copy: settling it deletes exactly that row, and not another one
//! written for a later change.
//!
//! Not covered: a process that dies after the commit, before it has told Redis or written a debt.
//! The request was not answered then; the change becomes visible when the copy's lifetime ends, or
//! with the next change. A debt in every transaction would close that gap, at the cost of one more
//! write per change.

pub(crate) mod settle;
mod store;

use std::sync::Arc;

use seawall::{Client, cache::Invalidation};

use crate::{
    db::{Db, id},
    error::Result,
};

/// A copy that missed a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Debt {
    /// Cached profile of a user, and the user's session copies.
    Profile(u64),
    /// Cached shop.
    Shop(u64),
    /// Map of the shops of a type.
    Map(u64),
    /// Cached note.
    Note(u64),
    /// Cached pages of an author who has, or had, this number of notes.
    Pages { author: u64, notes: u64 },
    /// Users who like a note.
    Likes(u64),
    /// Users that a user follows.
    Follows(u64),
    /// A reader's inbox, and the list of authors the reader pulls from.
    Feed(u64),
    /// An author fell below the pull threshold at this time: the followers' inboxes must be
    /// rebuilt.
    Backfill { author: u64, time: i64 },
}

/// Words that identify the kinds; this process leaves unknown kinds to processes that know them.
const KINDS: [&str; 9] =
    ["PROFILE", "SHOP", "MAP", "NOTE", "PAGES", "LIKES", "FOLLOWS", "FEED", "BACKFILL"];

impl Debt {
    /// Returns the columns: word, subject, detail.
    fn columns(self) -> (&'static str, i64, i64) {
        match self {
            Debt::Profile(user) => ("PROFILE", id(user), 0),
            Debt::Shop(shop) => ("SHOP", id(shop), 0),
            Debt::Map(kind) => ("MAP", id(kind), 0),
            Debt::Note(note) => ("NOTE", id(note), 0),
            Debt::Pages { author, notes } => ("PAGES", id(author), id(notes)),
            Debt::Likes(note) => ("LIKES", id(note), 0),
            Debt::Follows(user) => ("FOLLOWS", id(user), 0),
            Debt::Feed(reader) => ("FEED", id(reader), 0),
            Debt::Backfill { author, time } => ("BACKFILL", id(author), time),
        }
    }

    fn of_columns(word: &str, subject: u64, detail: i64) -> Option<Self> {
        Some(match word {
            "PROFILE" => Debt::Profile(subject),
            "SHOP" => Debt::Shop(subject),
            "MAP" => Debt::Map(subject),
            "NOTE" => Debt::Note(subject),
            "PAGES" => Debt::Pages { author: subject, notes: crate::db::unsigned(detail) },
            "LIKES" => Debt::Likes(subject),
            "FOLLOWS" => Debt::Follows(subject),
            "FEED" => Debt::Feed(subject),
            "BACKFILL" => Debt::Backfill { author: subject, time: detail },
            _ => return None,
        })
    }
}

/// Writes debts; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Debts {
    db: Arc<Db>,
    client: Client,
}

impl Debts {
    pub(crate) fn new(db: &Arc<Db>, client: &Client) -> Self {
        Debts { db: Arc::clone(db), client: client.clone() }
    }

    /// Records copies that Redis could not be told about. Call it after the commit and before the
    /// response; if it fails, the response must be an error.
    pub(crate) async fn owe(&self, debts: &[Debt]) -> Result<()> {
        if debts.is_empty() {
            return Ok(());
        }
        tracing::debug!(?debts, "Redis is told later");
        store::insert(&self.db, debts, self.client.server_millis()).await
    }

    /// Like [`Debts::owe`], unless Redis applied the invalidation.
    pub(crate) async fn unless_applied(&self, told: Invalidation, debts: &[Debt]) -> Result<()> {
        match told {
            Invalidation::Applied(_) => Ok(()),
            Invalidation::Queued => self.owe(debts).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_debt_comes_back_from_its_columns() {
        let all = [
            Debt::Profile(1),
            Debt::Shop(2),
            Debt::Map(3),
            Debt::Note(4),
            Debt::Pages { author: 5, notes: 50 },
            Debt::Likes(6),
            Debt::Follows(7),
            Debt::Feed(8),
            Debt::Backfill { author: 9, time: 90 },
        ];
        let words = all.map(|debt| debt.columns().0);
        assert_eq!(words, KINDS);
        for debt in all {
            let (word, subject, detail) = debt.columns();
            assert_eq!(Debt::of_columns(word, subject.unsigned_abs(), detail), Some(debt));
        }
        assert_eq!(Debt::of_columns("LATER", 1, 0), None);
    }
}
