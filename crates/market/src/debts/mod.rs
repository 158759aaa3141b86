//! What Redis could not be told of a change: a row for each copy that is behind, in the database.
//!
//! A change is committed, then Redis is told. Whoever cannot reach Redis writes a debt before the
//! change is answered, and answers with an error when even that fails: what was answered well is
//! therefore either in Redis or owed. Every process looks for debts ([`settle`]), so it does not
//! matter whether the one that made them still lives. What a process notes in its own memory beside
//! that ([`Stale`](crate::stale::Stale), the cache's repair queue) only keeps that process from
//! believing copies of which it knows better.
//!
//! Invariant: a debt says that a copy is to be thrown away, never what it should become. Settling it
//! is right at any time after the change, any number of times, by any number of processes. A debt is
//! a row of its own, not one per copy: who settles one takes out just that row, and not another that
//! was written for a later change meanwhile.
//!
//! Not covered: a process that dies after the commit and before it has told or owed. Nobody was
//! answered then; what it changed is seen when the copy's lifetime ends, or by the next change. A debt
//! in every transaction would close that, for one more write with every change.

pub(crate) mod settle;
mod store;

use std::sync::Arc;

use seawall::{Client, cache::Invalidation};

use crate::{
    db::{Db, id},
    error::Result,
};

/// A copy that did not follow the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Debt {
    /// What is cached of a user, and what the user's sessions say.
    Profile(u64),
    /// A cached shop.
    Shop(u64),
    /// Where the shops of a kind are.
    Map(u64),
    /// A cached note.
    Note(u64),
    /// The cached pages of an author, who has or had so many notes.
    Pages { author: u64, notes: u64 },
    /// Who likes a note.
    Likes(u64),
    /// Whom a user follows.
    Follows(u64),
    /// A reader's inbox, and whose notes the reader pulls.
    Feed(u64),
    /// An author's notes go to the fans' inboxes again, since this time.
    Backfill { author: u64, time: i64 },
}

/// The words by which debts are told apart; this process leaves others to those who know them.
const KINDS: [&str; 9] =
    ["PROFILE", "SHOP", "MAP", "NOTE", "PAGES", "LIKES", "FOLLOWS", "FEED", "BACKFILL"];

impl Debt {
    /// The columns: word, subject, detail.
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

/// Where debts are written; a cheap clone.
#[derive(Debug, Clone)]
pub(crate) struct Debts {
    db: Arc<Db>,
    client: Client,
}

impl Debts {
    pub(crate) fn new(db: &Arc<Db>, client: &Client) -> Self {
        Debts { db: Arc::clone(db), client: client.clone() }
    }

    /// Writes what Redis could not be told. To be called after the commit and before the answer,
    /// which is an error when this is.
    pub(crate) async fn owe(&self, debts: &[Debt]) -> Result<()> {
        if debts.is_empty() {
            return Ok(());
        }
        tracing::debug!(?debts, "Redis is told later");
        store::insert(&self.db, debts, self.client.server_millis()).await
    }

    /// The same, unless Redis took the invalidation.
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
