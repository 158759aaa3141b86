//! The contents of the recovery queue: entries to invalidate, generations to end, or every entry.
//!
//! Invariants: the queue is bounded by number and by bytes, and what does not fit is not forgotten: it
//! collapses into "every entry". What is added again while it is being carried out stays, because the
//! later one may be about a later write. A row of a log goes only with the addition that it came with.

use std::{collections::BTreeMap, ops::Bound};

use crate::{
    backplane::message::{about_all, about_tag, tag_hash},
    recovery::log::RecoveryRow,
    store::keys::Names,
};

/// How many entries are carried out in one go.
const BATCH: usize = 256;
/// How many bytes of entries are kept.
pub(crate) const MAX_BYTES: usize = 32 << 20;
/// What stands for every entry in a log.
const EVERYTHING: &[u8] = b"";

/// A tag or namespace that is to be cleared, and how local tiers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bump {
    /// The generation that ends, where keys have tags or it is the namespace's.
    pub(crate) generation: Option<Vec<u8>>,
    /// The hash of the tag, where values carry tags.
    pub(crate) value_tag: Option<u64>,
    pub(crate) message: Vec<u8>,
}

impl Bump {
    /// Clears the whole namespace.
    pub(crate) fn everything(names: &Names) -> Self {
        let generation = Some(names.generation().to_vec());
        Bump { generation, value_tag: None, message: about_all() }
    }

    /// Clears a tag: of keys, of values, or both.
    pub(crate) fn tag(names: &Names, tag: &str, of_keys: bool, of_values: bool) -> Self {
        Bump {
            generation: of_keys.then(|| names.tag(tag)),
            value_tag: of_values.then(|| tag_hash(tag)),
            message: about_tag(tag),
        }
    }
}

/// One entry's place in the queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Of its last addition.
    number: u64,
    /// The rows of the log that ask for it.
    rows: Vec<u64>,
}

/// What is to be carried out next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Batch {
    Nothing,
    Entries(Vec<(Vec<u8>, Waiting)>),
    Generation(Bump, u64),
    /// Every entry, which covers all additions up to this one.
    Everything(u64, Vec<u64>),
}

pub(crate) struct Queue {
    entries: BTreeMap<Vec<u8>, Waiting>,
    /// By their messages, which tell them apart.
    generations: BTreeMap<Vec<u8>, (Bump, u64)>,
    bytes: usize,
    limit: usize,
    /// Set when every entry has to be invalidated: the number of the addition that asked for it.
    everything: Option<u64>,
    /// Rows of the log that ask for every entry.
    everything_rows: Vec<u64>,
    additions: u64,
    /// Where the last batch that failed ended: the next one begins behind it.
    failed_at: Vec<u8>,
}

impl Queue {
    pub(crate) fn new(limit: usize) -> Self {
        Queue {
            entries: BTreeMap::new(),
            generations: BTreeMap::new(),
            bytes: 0,
            limit,
            everything: None,
            everything_rows: Vec::new(),
            additions: 0,
            failed_at: Vec::new(),
        }
    }

    /// Adds entries. Returns whether they were too much.
    pub(crate) fn extend(&mut self, entries: impl IntoIterator<Item = Vec<u8>>) -> bool {
        self.additions += 1;
        for entry in entries {
            self.put(entry);
        }
        self.collapse_if_full()
    }

    /// Adds rows of the log; those that are known already change nothing.
    pub(crate) fn extend_by_rows(&mut self, rows: Vec<RecoveryRow>) -> bool {
        self.additions += 1;
        for RecoveryRow { id, entry } in rows {
            if entry == EVERYTHING {
                if !self.everything_rows.contains(&id) {
                    self.everything_rows.push(id);
                    self.everything = Some(self.additions);
                }
                continue;
            }
            if self.entries.get(&entry).is_some_and(|waiting| waiting.rows.contains(&id)) {
                continue;
            }
            self.put(entry).rows.push(id);
        }
        self.collapse_if_full()
    }

    pub(crate) fn bump(&mut self, bump: Bump) -> bool {
        self.additions += 1;
        self.generations.insert(bump.message.clone(), (bump, self.additions));
        self.collapse_if_full()
    }

    /// Replaces everything by "every entry".
    pub(crate) fn collapse(&mut self) {
        self.additions += 1;
        self.entries = BTreeMap::new();
        self.generations = BTreeMap::new();
        self.bytes = 0;
        self.everything = Some(self.additions);
    }

    fn put(&mut self, entry: Vec<u8>) -> &mut Waiting {
        let bytes = entry.len();
        let (number, total) = (self.additions, &mut self.bytes);
        let waiting = self.entries.entry(entry).or_insert_with(|| {
            *total += bytes;
            Waiting::default()
        });
        waiting.number = number;
        waiting
    }

    fn collapse_if_full(&mut self) -> bool {
        let count = self.entries.len() + self.generations.len();
        let too_much = count > self.limit || self.bytes > MAX_BYTES;
        if too_much {
            self.collapse();
        }
        too_much
    }

    /// Returns how many more entries fit.
    pub(crate) fn room(&self) -> usize {
        match self.everything {
            Some(_) => 0,
            None => self.limit.saturating_sub(self.entries.len() + self.generations.len()),
        }
    }

    pub(crate) fn next_batch(&self) -> Batch {
        if self.everything.is_some() {
            return Batch::Everything(self.additions, self.everything_rows.clone());
        }
        if let Some((_, (bump, number))) = self.generations.first_key_value() {
            return Batch::Generation(bump.clone(), *number);
        }
        // What cannot be carried out (its server is away) does not keep the rest from its turn.
        let behind = (Bound::Excluded(&self.failed_at[..]), Bound::Unbounded);
        let mut some: Vec<_> = self.entries.range::<[u8], _>(behind).take(BATCH).collect();
        if some.is_empty() {
            some = self.entries.iter().take(BATCH).collect();
        }
        let some: Vec<_> = some.into_iter().map(|(key, at)| (key.clone(), at.clone())).collect();
        if some.is_empty() { Batch::Nothing } else { Batch::Entries(some) }
    }

    /// Forgets what was carried out. Returns the rows of the log that go with it.
    pub(crate) fn done(&mut self, batch: Batch) -> Vec<u64> {
        match batch {
            Batch::Nothing => Vec::new(),
            Batch::Entries(entries) => {
                let mut rows = Vec::new();
                for (entry, done) in entries {
                    if let Some(waiting) = self.entries.get_mut(&entry) {
                        waiting.rows.retain(|row| !done.rows.contains(row));
                        if waiting.number == done.number {
                            self.entries.remove(&entry);
                            self.bytes -= entry.len();
                        }
                    }
                    rows.extend(done.rows);
                }
                rows
            }
            Batch::Generation(bump, number) => {
                if self.generations.get(&bump.message).is_some_and(|(_, last)| *last == number) {
                    self.generations.remove(&bump.message);
                }
                Vec::new()
            }
            Batch::Everything(covered, rows) => {
                self.everything = self.everything.filter(|number| *number > covered);
                self.everything_rows.retain(|row| !rows.contains(row));
                self.generations.retain(|_, (_, number)| *number > covered);
                // Their rows, if they have any, are found in the log once more.
                self.entries.retain(|_, waiting| waiting.number > covered);
                self.bytes = self.entries.keys().map(Vec::len).sum();
                rows
            }
        }
    }

    /// Lets others have a turn before these are tried again.
    pub(crate) fn failed(&mut self, entries: &[(Vec<u8>, Waiting)]) {
        self.failed_at = entries.last().map(|(entry, _)| entry.clone()).unwrap_or_default();
    }

    pub(crate) fn has(&self, entry: &[u8]) -> bool {
        self.entries.contains_key(entry)
    }

    /// Returns whether this entry is not to be trusted. Which entries a generation covers is not known
    /// here: while one waits, none is.
    pub(crate) fn concerns(&self, entry: &[u8]) -> bool {
        self.everything.is_some() || !self.generations.is_empty() || self.has(entry)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() + self.generations.len() + usize::from(self.everything.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(numbers: std::ops::Range<u64>) -> Vec<Vec<u8>> {
        numbers.map(|number| number.to_be_bytes().to_vec()).collect()
    }

    fn row(id: u64, number: u64) -> RecoveryRow {
        RecoveryRow { id, entry: number.to_be_bytes().to_vec() }
    }

    #[test]
    fn too_many_become_everything_and_later_ones_are_kept() {
        let mut queue = Queue::new(10);
        assert!(!queue.extend(entries(0..10)));
        assert!(!queue.extend(entries(5..10)), "the same once more");
        assert!(queue.extend(entries(10..11)));
        assert_eq!((queue.len(), queue.bytes), (1, 0), "no memory for what did not fit");
        let batch = queue.next_batch();
        assert!(matches!(batch, Batch::Everything(..)));
        // While everything is being invalidated another one comes.
        assert!(!queue.extend(entries(3..4)));
        queue.done(batch);
        let Batch::Entries(left) = queue.next_batch() else { panic!("one is left") };
        assert_eq!(left[0].0, 3_u64.to_be_bytes());
        queue.done(Batch::Entries(left));
        assert_eq!((queue.next_batch(), queue.bytes), (Batch::Nothing, 0));
    }

    #[test]
    fn large_entries_are_bounded_by_their_bytes() {
        let mut queue = Queue::new(1000);
        let large = |number: u8| vec![vec![number; MAX_BYTES / 2]];
        assert!(!queue.extend(large(1)));
        assert!(!queue.extend(large(2)));
        assert!(queue.extend(large(3)));
    }

    #[test]
    fn rows_go_with_the_addition_they_came_with() {
        let mut queue = Queue::new(10);
        queue.extend_by_rows(vec![row(1, 7), row(2, 7)]);
        queue.extend_by_rows(vec![row(1, 7)]);
        let batch = queue.next_batch();
        // Committed while the batch is under way: it may be about a later write.
        queue.extend_by_rows(vec![row(3, 7)]);
        assert_eq!(queue.done(batch), [1, 2]);
        let batch = queue.next_batch();
        assert_eq!(queue.done(batch), [3]);
        assert_eq!(queue.next_batch(), Batch::Nothing);
    }

    #[test]
    fn a_row_for_everything_is_one_sweep() {
        let mut queue = Queue::new(10);
        queue.extend_by_rows(vec![RecoveryRow { id: 4, entry: Vec::new() }, row(5, 1)]);
        assert!(queue.concerns(b"any"));
        let batch = queue.next_batch();
        assert_eq!(queue.done(batch), [4]);
        assert!(!queue.concerns(b"any"));
    }

    #[test]
    fn what_fails_lets_the_others_have_a_turn() {
        let mut queue = Queue::new(1000);
        queue.extend(entries(0..300));
        let Batch::Entries(first) = queue.next_batch() else { panic!("entries") };
        queue.failed(&first);
        let Batch::Entries(second) = queue.next_batch() else { panic!("entries") };
        assert_eq!(second.len(), 300 - BATCH);
        queue.failed(&second);
        assert_eq!(queue.next_batch(), Batch::Entries(first), "and then they have theirs again");
    }

    #[test]
    fn a_generation_is_ended_once_for_all_that_asked_before() {
        let mut queue = Queue::new(10);
        let bump =
            || Bump { generation: Some(b"g".to_vec()), value_tag: None, message: b"m".to_vec() };
        queue.bump(bump());
        assert!(queue.concerns(b"any"));
        let batch = queue.next_batch();
        queue.bump(bump());
        queue.done(batch);
        assert!(queue.concerns(b"any"), "asked for again while it was carried out");
        let batch = queue.next_batch();
        queue.done(batch);
        assert_eq!(queue.len(), 0);
    }
}
