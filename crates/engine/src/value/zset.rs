//! Sorted sets: members with scores, ordered by (score, bytes).
//!
//! A small set is one sorted buffer (`small.rs`, Redis' "listpack"); a large one is a hash index
//! from member to score beside an order tree (`large.rs`, Redis' "skiplist"). A set becomes large
//! when a member is added beyond the [`Limits`] in force, and never small again by itself, as in
//! Redis; results that are stored whole choose their form in [`ZSet::from_pairs`].
//!
//! Ranges by score and by bytes are turned into ranges of ranks first, so that offset and limit
//! cost nothing and there is one kind of walk. Invariant: no score is NaN.

mod bounds;
mod large;
mod small;

#[cfg(test)]
mod tests;

use std::ops::Range;

use super::member::Member;
use crate::rng::Rng;
pub(crate) use bounds::{LexRange, ScoreRange};
pub(crate) use large::Scored;
use large::{Large, LargeWalk};
use small::{Small, SmallWalk};

/// Up to where a set stays small, and the seed of the index when it does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// `zset-max-listpack-entries`.
    pub(crate) entries: usize,
    /// `zset-max-listpack-value`, in bytes.
    pub(crate) value: usize,
    /// Seed of the hash index.
    pub(crate) seed: u64,
}

/// The conditions of ZADD.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddRule {
    /// NX: only new members.
    pub(crate) only_new: bool,
    /// XX: only members that exist.
    pub(crate) only_existing: bool,
    /// GT: change a score only upwards.
    pub(crate) only_greater: bool,
    /// LT: change a score only downwards.
    pub(crate) only_less: bool,
    /// INCR: the number is added to the score.
    pub(crate) increment: bool,
}

/// What ZADD did with one member; the number is the score afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Added {
    /// It was not there.
    New(f64),
    /// Its score has changed.
    Changed(f64),
    /// It has the same score as before.
    Same(f64),
    /// A condition did not hold.
    Skipped,
    /// The sum would be infinity minus infinity; nothing was changed.
    NotANumber,
}

impl AddRule {
    /// What to do with a member that has `current` as its score.
    fn decide(self, current: f64, given: f64) -> Added {
        if self.only_new {
            return Added::Skipped;
        }
        let score = if self.increment { current + given } else { given };
        if score.is_nan() {
            Added::NotANumber
        } else if (self.only_less && score >= current) || (self.only_greater && score <= current) {
            Added::Skipped
        } else if score == current {
            Added::Same(score)
        } else {
            Added::Changed(score)
        }
    }
}

/// The low or the high end of the order, or the direction of a walk that begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The lowest score.
    Min,
    /// The highest score.
    Max,
}

/// A sorted set.
#[derive(Clone)]
pub(crate) struct ZSet(Form);

#[derive(Clone)]
enum Form {
    Small(Small),
    Large(Box<Large>),
}

impl ZSet {
    /// An empty small set.
    pub(crate) fn new() -> Self {
        Self(Form::Small(Small::new()))
    }

    /// An empty large set.
    pub(crate) fn new_large(seed: u64) -> Self {
        Self(Form::Large(Box::new(Large::new(seed))))
    }

    /// A set of distinct members in any order, in the form that fits.
    pub(crate) fn from_pairs(mut pairs: Vec<(Member, f64)>, limits: &Limits) -> Self {
        sort_pairs(&mut pairs);
        let fits = pairs.len() <= limits.entries
            && pairs.iter().all(|(member, _)| member.as_bytes().len() <= limits.value);
        if fits {
            let mut small = Small::new();
            pairs.iter().for_each(|(member, score)| small.push(*score, member.as_bytes()));
            return Self(Form::Small(small));
        }
        let mut large = Large::new(limits.seed);
        pairs.into_iter().for_each(|(member, score)| large.insert_new(member, score));
        Self(Form::Large(Box::new(large)))
    }

    /// How many members there are.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Form::Small(small) => small.len(),
            Form::Large(large) => large.len(),
        }
    }

    /// What OBJECT ENCODING answers.
    pub(crate) fn encoding(&self) -> &'static str {
        match &self.0 {
            Form::Small(_) => "listpack",
            Form::Large(_) => "skiplist",
        }
    }

    /// Whether the set is in the small form.
    pub(crate) fn is_compact(&self) -> bool {
        matches!(self.0, Form::Small(_))
    }

    /// Bytes on the heap.
    pub(crate) fn mem_bytes(&self) -> usize {
        match &self.0 {
            Form::Small(small) => small.mem_bytes(),
            Form::Large(large) => size_of::<Large>() + large.mem_bytes(),
        }
    }

    /// The score of a member.
    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Form::Small(small) => small.find(member).map(|found| found.score),
            Form::Large(large) => large.score(member),
        }
    }

    /// The rank of a member, counted from the low end.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        match &self.0 {
            Form::Small(small) => small.find(member).map(|found| found.rank),
            Form::Large(large) => large.rank(member),
        }
    }

    /// Adds a member or changes its score, as far as `rule` lets it. `score` must not be NaN.
    pub(crate) fn add(
        &mut self,
        member: &[u8],
        score: f64,
        rule: AddRule,
        limits: &Limits,
    ) -> Added {
        if let Form::Small(small) = &mut self.0 {
            if let Some(found) = small.find(member) {
                let outcome = rule.decide(found.score, score);
                if let Added::Changed(score) = outcome {
                    small.remove(found);
                    small.insert(score, member);
                }
                return outcome;
            }
            if rule.only_existing {
                return Added::Skipped;
            }
            if small.len() < limits.entries && member.len() <= limits.value {
                small.insert(score, member);
                return Added::New(score);
            }
        }
        self.enlarge(limits.seed).add(member, score, rule)
    }

    /// Removes a member; returns its score if it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Form::Small(small) => {
                let found = small.find(member)?;
                let score = found.score;
                small.remove(found);
                Some(score)
            }
            Form::Large(large) => large.remove(member),
        }
    }

    /// Removes a range of ranks; returns how many members that were.
    pub(crate) fn remove_ranks(&mut self, ranks: Range<usize>) -> usize {
        let before = self.len();
        match &mut self.0 {
            Form::Small(small) => small.remove_ranks(ranks),
            Form::Large(large) => large.remove_ranks(ranks),
        }
        before - self.len()
    }

    /// The ranks whose scores are in a range.
    pub(crate) fn score_ranks(&self, range: &ScoreRange) -> Range<usize> {
        match &self.0 {
            Form::Small(small) => small.ranks(|_, s| range.misses(s), |_, s| range.reaches(s)),
            Form::Large(large) => {
                large.ranks(|e| range.misses(e.score), |e| range.reaches(e.score))
            }
        }
    }

    /// The ranks whose members are in a range of bytes, looked for from one end.
    ///
    /// The end matters only where scores differ, which the commands do not promise anything about:
    /// members are in no order of bytes then, and the first one outside ends the range.
    pub(crate) fn lex_ranks(&self, range: &LexRange<'_>, from: End) -> Range<usize> {
        // Redis: a range that the ends of the set are outside of is empty, whatever is between.
        let ends = (self.nth(0), self.nth(self.len().saturating_sub(1)));
        if let (Some((first, _)), Some((last, _))) = ends
            && (!range.reaches(first) || range.misses(last))
        {
            return 0..0;
        }
        let (misses, reaches) =
            (|m: &[u8], _: f64| range.misses(m), |m: &[u8], _: f64| range.reaches(m));
        match (&self.0, from) {
            (Form::Small(small), End::Min) => small.ranks(misses, reaches),
            (Form::Small(small), End::Max) => small.ranks_back(misses, reaches),
            (Form::Large(large), _) => large.ranks(
                |e| range.misses(e.member.as_bytes()),
                |e| range.reaches(e.member.as_bytes()),
            ),
        }
    }

    /// The members of a range of ranks, walked from one of its ends.
    pub(crate) fn range(&self, ranks: Range<usize>, from: End) -> Walk<'_> {
        let ranks = ranks.start..ranks.end.min(self.len());
        Walk(match (&self.0, from) {
            (Form::Small(small), End::Min) => WalkForm::Small(small.walk(ranks)),
            (Form::Small(small), End::Max) => {
                let mut pairs: Vec<_> = small.walk(ranks).collect();
                pairs.reverse();
                WalkForm::SmallBack(pairs.into_iter())
            }
            (Form::Large(large), from) => WalkForm::Large(large.walk(ranks, from)),
        })
    }

    /// All members in order.
    pub(crate) fn iter(&self) -> Walk<'_> {
        self.range(0..self.len(), End::Min)
    }

    /// The member at a rank.
    pub(crate) fn nth(&self, rank: usize) -> Option<(&[u8], f64)> {
        match &self.0 {
            Form::Small(small) => small.walk(rank..rank.saturating_add(1)).next(),
            Form::Large(large) => large.nth(rank),
        }
    }

    /// A member chosen at random, each with the same chance.
    pub(crate) fn random(&self, rng: &mut Rng) -> Option<(&[u8], f64)> {
        self.nth(rng.index(self.len()))
    }

    /// Shows about `count` members from a cursor on; returns the next cursor, 0 at the end.
    ///
    /// A small set is shown whole, whatever the cursor, as Redis does.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], f64)) -> u64 {
        match &self.0 {
            Form::Small(small) => {
                small.walk(0..small.len()).for_each(|(member, score)| f(member, score));
                0
            }
            Form::Large(large) => large.scan(cursor, count, f),
        }
    }

    /// Where in the order of a scan a member stands, or would stand; `None` in the compact form.
    pub(crate) fn position_of(&self, member: &[u8]) -> Option<u64> {
        match &self.0 {
            Form::Small(_) => None,
            Form::Large(large) => Some(large.position_of(member)),
        }
    }

    /// Leaves the compact form for good.
    pub(crate) fn make_large(&mut self, seed: u64) {
        self.enlarge(seed);
    }

    /// Makes the set large, if it is not.
    fn enlarge(&mut self, seed: u64) -> &mut Large {
        if let Form::Small(small) = &self.0 {
            let mut large = Large::new(seed);
            for (member, score) in small.walk(0..small.len()) {
                large.insert_new(Member::new(member), score);
            }
            self.0 = Form::Large(Box::new(large));
        }
        match &mut self.0 {
            Form::Large(large) => large,
            Form::Small(_) => unreachable!("it was made large above"),
        }
    }
}

/// Puts members in the order of a sorted set.
pub(crate) fn sort_pairs(pairs: &mut [(Member, f64)]) {
    pairs.sort_unstable_by(|a, b| {
        let order = a.1.partial_cmp(&b.1).expect("no score is NaN");
        order.then_with(|| a.0.cmp(&b.0))
    });
}

impl std::fmt::Debug for ZSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZSet({} × {})", self.encoding(), self.len())
    }
}

/// Members with their scores, along the order or against it.
pub(crate) struct Walk<'a>(WalkForm<'a>);

enum WalkForm<'a> {
    Small(SmallWalk<'a>),
    SmallBack(std::vec::IntoIter<(&'a [u8], f64)>),
    Large(LargeWalk<'a>),
}

impl<'a> Iterator for Walk<'a> {
    type Item = (&'a [u8], f64);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            WalkForm::Small(walk) => walk.next(),
            WalkForm::SmallBack(walk) => walk.next(),
            WalkForm::Large(walk) => walk.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            WalkForm::Small(walk) => walk.size_hint(),
            WalkForm::SmallBack(walk) => walk.size_hint(),
            WalkForm::Large(walk) => walk.size_hint(),
        }
    }
}

impl ExactSizeIterator for Walk<'_> {}
