//! The large form: a hash index from member to score, and the order tree.
//!
//! Invariant: both hold the same members with the same scores. A long member's bytes are shared
//! by the two, and counted by the index alone.

use std::ops::Range;

use super::super::member::Member;
use super::super::order::{Entry, Iter, OrderTree};
use super::super::table::{Item, Table};
use super::{AddRule, Added, End};

/// A member in an index, with its score.
#[derive(Clone)]
pub(crate) struct Scored {
    /// The member.
    pub(crate) member: Member,
    /// Its score.
    pub(crate) score: f64,
}

impl Item for Scored {
    #[inline]
    fn key(&self) -> &[u8] {
        self.member.as_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.member.heap_bytes()
    }
}

/// A large sorted set.
#[derive(Clone)]
pub(super) struct Large {
    index: Table<Scored>,
    order: OrderTree,
}

impl Large {
    pub(super) fn new(seed: u64) -> Self {
        Self { index: Table::new(seed), order: OrderTree::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn mem_bytes(&self) -> usize {
        self.index.mem_bytes() + self.order.mem_bytes()
    }

    pub(super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.index.get(member).map(|scored| scored.score)
    }

    pub(super) fn rank(&self, member: &[u8]) -> Option<usize> {
        self.score(member).map(|score| self.order.rank(score, member))
    }

    pub(super) fn nth(&self, rank: usize) -> Option<(&[u8], f64)> {
        self.order.nth(rank).map(|entry| (entry.member.as_bytes(), entry.score))
    }

    /// Adds a member that is known to be absent.
    pub(super) fn insert_new(&mut self, member: Member, score: f64) {
        let hash = self.index.hash_of(member.as_bytes());
        self.order.insert(score, member.clone());
        self.index.insert_new(hash, Scored { member, score });
    }

    pub(super) fn add(&mut self, member: &[u8], score: f64, rule: AddRule) -> Added {
        let hash = self.index.hash_of(member);
        if let Some(scored) = self.index.get_mut_hashed(hash, member) {
            let outcome = rule.decide(scored.score, score);
            if let Added::Changed(score) = outcome {
                let old = std::mem::replace(&mut scored.score, score);
                let moved = self.order.rescore(old, member, score);
                debug_assert!(moved, "the index and the tree hold the same members");
            }
            return outcome;
        }
        if rule.only_existing {
            return Added::Skipped;
        }
        let member = Member::new(member);
        self.order.insert(score, member.clone());
        self.index.insert_new(hash, Scored { member, score });
        Added::New(score)
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let score = self.index.remove(member)?.score;
        let removed = self.order.remove(score, member);
        debug_assert!(removed, "the index and the tree hold the same members");
        Some(score)
    }

    pub(super) fn remove_ranks(&mut self, ranks: Range<usize>) {
        let index = &mut self.index;
        self.order.remove_ranks(ranks.start, ranks.end.saturating_sub(ranks.start), |entry| {
            index.remove(entry.member.as_bytes());
        });
    }

    pub(super) fn ranks(
        &self,
        misses: impl Fn(&Entry) -> bool,
        reaches: impl Fn(&Entry) -> bool,
    ) -> Range<usize> {
        let start = self.order.count_while(misses);
        start..self.order.count_while(reaches).max(start)
    }

    pub(super) fn walk(&self, ranks: Range<usize>, from: End) -> LargeWalk<'_> {
        LargeWalk { entries: self.order.range(ranks), from }
    }

    pub(super) fn position_of(&self, member: &[u8]) -> u64 {
        self.index.position_of(member)
    }

    pub(super) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], f64)) -> u64 {
        self.index.scan(cursor, count, |scored| f(scored.member.as_bytes(), scored.score))
    }
}

/// A walk over the tree from one end of a range.
pub(super) struct LargeWalk<'a> {
    entries: Iter<'a>,
    from: End,
}

impl<'a> Iterator for LargeWalk<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let entry = match self.from {
            End::Min => self.entries.next(),
            End::Max => self.entries.next_back(),
        };
        entry.map(|entry| (entry.member.as_bytes(), entry.score))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.entries.size_hint()
    }
}
