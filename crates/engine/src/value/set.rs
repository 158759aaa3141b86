//! The set type: sorted integers while it is small and numeric, a hash table otherwise.

mod ints;
#[cfg(test)]
mod tests;

use ints::IntSet;

use super::{
    alloc_bytes,
    elem::Elem,
    table::{Item, Table},
};
use crate::{number::parse_i64, rng::Rng};

/// When a set changes its encoding, and the seed of its hash table when it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetLimits {
    /// `set-max-intset-entries`.
    pub(crate) max_intset_entries: usize,
    /// The seed of a table that has to be made.
    pub(crate) seed: u64,
}

/// A member of a set that is a hash table.
#[derive(Clone, Debug)]
pub(crate) struct Member(Box<[u8]>);

impl Item for Member {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.0
    }

    fn heap_bytes(&self) -> usize {
        alloc_bytes(self.0.len())
    }
}

/// A set of byte strings.
#[derive(Clone)]
pub(crate) struct Set(Repr);

#[derive(Clone)]
enum Repr {
    Ints(IntSet),
    /// Boxed, so that a small set is not as large as a table.
    Table(Box<Table<Member>>),
}

impl Set {
    /// An empty set.
    pub(crate) const fn new() -> Self {
        Self(Repr::Ints(IntSet::new()))
    }

    /// How many members it has.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        match &self.0 {
            Repr::Ints(ints) => ints.len(),
            Repr::Table(table) => table.len(),
        }
    }

    /// Whether it has none.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING says.
    pub(crate) const fn encoding(&self) -> &'static str {
        match &self.0 {
            Repr::Ints(_) => "intset",
            Repr::Table(_) => "hashtable",
        }
    }

    /// Bytes allocated, beyond the set's own size.
    pub(crate) fn mem_bytes(&self) -> usize {
        match &self.0 {
            Repr::Ints(ints) => ints.mem_bytes(),
            Repr::Table(table) => size_of::<Table<Member>>() + table.mem_bytes(),
        }
    }

    /// Whether this is a member.
    #[inline]
    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        match &self.0 {
            Repr::Ints(ints) => parse_i64(member).is_some_and(|n| ints.contains(n)),
            Repr::Table(table) => table.contains(member),
        }
    }

    /// Adds a member; `false` if it was there.
    pub(crate) fn add(&mut self, member: &[u8], limits: &SetLimits) -> bool {
        if let Repr::Ints(ints) = &mut self.0 {
            if let Some(n) = parse_i64(member) {
                let added = ints.insert(n);
                if added && ints.len() > limits.max_intset_entries {
                    self.become_table(limits.seed);
                }
                return added;
            }
            self.become_table(limits.seed);
        }
        let Repr::Table(table) = &mut self.0 else { return false };
        table.insert_if_absent(member, || Member(member.into()))
    }

    /// Takes a member out; `false` if it was not there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Ints(ints) => parse_i64(member).is_some_and(|n| ints.remove(n)),
            Repr::Table(table) => table.remove(member).is_some(),
        }
    }

    /// All members, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Elem<'_>> {
        let (ints, table) = match &self.0 {
            Repr::Ints(ints) => (Some(ints), None),
            Repr::Table(table) => (None, Some(&**table)),
        };
        let numbers = ints.into_iter().flat_map(IntSet::iter).map(Elem::int);
        numbers.chain(table.into_iter().flat_map(Table::iter).map(|m| Elem::Bytes(&m.0)))
    }

    /// Shows about `count` members from a cursor on; returns the next cursor, 0 at the end. Small
    /// sets are shown at once.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8])) -> u64 {
        match &self.0 {
            Repr::Ints(ints) => {
                ints.iter().for_each(|n| f(&Elem::int(n)));
                0
            }
            Repr::Table(table) => table.scan(cursor, count, |member| f(&member.0)),
        }
    }

    /// Where in the order of a scan an element stands, or would stand; `None` in a small form.
    pub(crate) fn position_of(&self, member: &[u8]) -> Option<u64> {
        match &self.0 {
            Repr::Ints(_) => None,
            Repr::Table(table) => Some(table.position_of(member)),
        }
    }

    /// A member chosen at random, each with the same chance.
    pub(crate) fn random(&self, rng: &mut Rng) -> Option<Elem<'_>> {
        match &self.0 {
            Repr::Ints(ints) => ints.get(rng.index(ints.len())).map(Elem::int),
            Repr::Table(table) => table.random(rng).map(|member| Elem::Bytes(&member.0)),
        }
    }

    fn become_table(&mut self, seed: u64) {
        let Repr::Ints(ints) = &self.0 else { return };
        let mut table = Table::new(seed);
        for n in ints.iter() {
            table.insert(Member((*Elem::int(n)).into()));
        }
        self.0 = Repr::Table(Box::new(table));
    }
}
