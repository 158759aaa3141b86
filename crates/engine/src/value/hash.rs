//! The hash type: pairs in one packed run of bytes while it is small, a hash table otherwise.
//!
//! In the table, a field and its value share one allocation.

#[cfg(test)]
mod tests;

use super::{
    alloc_bytes,
    elem::Elem,
    packed::Packed,
    table::{Item, Table},
};
use crate::rng::Rng;

/// When a hash changes its encoding, and the seed of its hash table when it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashLimits {
    /// `hash-max-listpack-entries`.
    pub(crate) max_entries: usize,
    /// `hash-max-listpack-value`, of fields as well as of values.
    pub(crate) max_value: usize,
    /// The seed of a table that has to be made.
    pub(crate) seed: u64,
}

/// A field with its value, in one allocation.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    bytes: Box<[u8]>,
    field_len: usize,
}

impl Field {
    fn new(field: &[u8], value: &[u8]) -> Self {
        Self { bytes: [field, value].concat().into(), field_len: field.len() }
    }

    #[inline]
    fn value(&self) -> &[u8] {
        &self.bytes[self.field_len..]
    }
}

impl Item for Field {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.bytes[..self.field_len]
    }

    fn heap_bytes(&self) -> usize {
        alloc_bytes(self.bytes.len())
    }
}

/// A map from fields to values.
#[derive(Clone)]
pub(crate) struct Hash(Repr);

#[derive(Clone)]
enum Repr {
    /// Field, value, field, value.
    Packed(Packed),
    /// Boxed, so that a small hash is not as large as a table.
    Table(Box<Table<Field>>),
}

impl Hash {
    /// An empty hash.
    pub(crate) const fn new() -> Self {
        Self(Repr::Packed(Packed::new()))
    }

    /// How many fields it has.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        match &self.0 {
            Repr::Packed(packed) => packed.len() / 2,
            Repr::Table(table) => table.len(),
        }
    }

    /// What OBJECT ENCODING says.
    pub(crate) const fn encoding(&self) -> &'static str {
        match &self.0 {
            Repr::Packed(_) => "listpack",
            Repr::Table(_) => "hashtable",
        }
    }

    /// Bytes allocated, beyond the hash's own size.
    pub(crate) fn mem_bytes(&self) -> usize {
        match &self.0 {
            Repr::Packed(packed) => packed.mem_bytes(),
            Repr::Table(table) => size_of::<Table<Field>>() + table.mem_bytes(),
        }
    }

    /// The value of a field.
    #[inline]
    pub(crate) fn get(&self, field: &[u8]) -> Option<Elem<'_>> {
        match &self.0 {
            Repr::Packed(packed) => packed.at(packed.next(packed.find(field, 1)?)),
            Repr::Table(table) => table.get(field).map(|f| Elem::Bytes(f.value())),
        }
    }

    /// Whether there is such a field.
    #[inline]
    pub(crate) fn contains(&self, field: &[u8]) -> bool {
        match &self.0 {
            Repr::Packed(packed) => packed.find(field, 1).is_some(),
            Repr::Table(table) => table.contains(field),
        }
    }

    /// Gives a field a value; `true` if the field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: &[u8], limits: &HashLimits) -> bool {
        if field.len().max(value.len()) > limits.max_value {
            self.become_table(limits.seed);
        }
        match &mut self.0 {
            Repr::Packed(packed) => {
                let found = packed.find(field, 1);
                if let Some(place) = found {
                    let place = packed.next(place);
                    packed.replace(place, value);
                } else {
                    packed.push_back(field);
                    packed.push_back(value);
                }
                // Redis: a limit that was lowered takes effect when a field is overwritten, too.
                if packed.len() / 2 > limits.max_entries {
                    self.become_table(limits.seed);
                }
                found.is_none()
            }
            Repr::Table(table) => {
                let hash = table.hash_of(field);
                // A value of the same length (counters, flags, ids) is overwritten in place.
                match table.get_mut_hashed(hash, field) {
                    Some(old) if old.value().len() == value.len() => {
                        old.bytes[old.field_len..].copy_from_slice(value);
                        false
                    }
                    Some(_) => {
                        table.insert_hashed(hash, Field::new(field, value));
                        false
                    }
                    None => {
                        table.insert_new(hash, Field::new(field, value));
                        true
                    }
                }
            }
        }
    }

    /// Takes a field out; `false` if it was not there.
    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Packed(packed) => {
                let found = packed.find(field, 1);
                found.inspect(|&place| packed.remove(place, 2)).is_some()
            }
            Repr::Table(table) => table.remove(field).is_some(),
        }
    }

    /// All fields with their values, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Elem<'_>, Elem<'_>)> {
        let (packed, table) = match &self.0 {
            Repr::Packed(packed) => (Some(packed), None),
            Repr::Table(table) => (None, Some(&**table)),
        };
        let pairs = packed.into_iter().flat_map(|packed| {
            let mut entries = packed.iter();
            std::iter::from_fn(move || Some((entries.next()?, entries.next()?)))
        });
        pairs.chain(table.into_iter().flat_map(Table::iter).map(pair))
    }

    /// Shows about `count` pairs from a cursor on; returns the next cursor, 0 at the end. Small
    /// hashes are shown at once.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], &[u8])) -> u64 {
        match &self.0 {
            Repr::Packed(_) => {
                self.iter().for_each(|(field, value)| f(&field, &value));
                0
            }
            Repr::Table(table) => table.scan(cursor, count, |item| f(item.key(), item.value())),
        }
    }

    /// Where in the order of a scan an element stands, or would stand; `None` in a small form.
    pub(crate) fn position_of(&self, field: &[u8]) -> Option<u64> {
        match &self.0 {
            Repr::Packed(_) => None,
            Repr::Table(table) => Some(table.position_of(field)),
        }
    }

    /// A field chosen at random, each with the same chance, and its value.
    pub(crate) fn random(&self, rng: &mut Rng) -> Option<(Elem<'_>, Elem<'_>)> {
        match &self.0 {
            Repr::Packed(packed) => {
                let place = packed.place(rng.index(packed.len() / 2) * 2);
                let mut entries = packed.iter_from(place);
                Some((entries.next()?, entries.next()?))
            }
            Repr::Table(table) => table.random(rng).map(pair),
        }
    }

    fn become_table(&mut self, seed: u64) {
        if let Repr::Packed(_) = &self.0 {
            let mut table = Table::new(seed);
            for (field, value) in self.iter() {
                table.insert(Field::new(&field, &value));
            }
            self.0 = Repr::Table(Box::new(table));
        }
    }
}

fn pair(item: &Field) -> (Elem<'_>, Elem<'_>) {
    (Elem::Bytes(item.key()), Elem::Bytes(item.value()))
}
