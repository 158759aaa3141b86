//! Walking a table whose elements are written one at a time.
//!
//! mlua keeps every value that Rust holds in a slot of an internal stack of
//! about 8000; a script can make tables with more pairs than that. Few values
//! are held directly; many are copied into a Lua array and fetched one by one.

use mlua::{Lua, Table, Value};

/// Values of one table that may be held directly.
const FEW: usize = 128;
/// Nested tables that may hold values directly; [`FEW`] for each fits easily.
const SHALLOW: usize = 32;

/// The values of a table in order: keys with their values, or keys alone.
pub(crate) enum Items {
    Few(std::vec::IntoIter<Value>),
    Many { flat: Table, next: usize, count: usize },
}

/// What to take from each pair of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    KeysAndValues,
    Keys,
}

impl Items {
    /// Collects the values of a table that is nested `depth` deep.
    pub(crate) fn of(lua: &Lua, table: &Table, take: Take, depth: usize) -> mlua::Result<Self> {
        let mut few = Vec::new();
        let mut many: Option<(Table, usize)> = None;
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair?;
            let value = (take == Take::KeysAndValues).then_some(value);
            let (flat, count) = match &mut many {
                Some(many) => (&many.0, &mut many.1),
                None if depth < SHALLOW && few.len() + 2 <= FEW => {
                    few.push(key);
                    few.extend(value);
                    continue;
                }
                None => {
                    let flat = lua.create_table()?;
                    let count = few.len();
                    for (index, item) in few.drain(..).enumerate() {
                        flat.raw_set(index + 1, item)?;
                    }
                    let many = many.insert((flat, count));
                    (&many.0, &mut many.1)
                }
            };
            for item in std::iter::once(key).chain(value) {
                *count += 1;
                flat.raw_set(*count, item)?;
            }
        }
        Ok(match many {
            Some((flat, count)) => Items::Many { flat, next: 1, count },
            None => Items::Few(few.into_iter()),
        })
    }

    /// How many values are left.
    pub(crate) fn len(&self) -> usize {
        match self {
            Items::Few(items) => items.len(),
            Items::Many { next, count, .. } => *count + 1 - *next,
        }
    }

    /// The next value.
    pub(crate) fn next(&mut self) -> mlua::Result<Option<Value>> {
        match self {
            Items::Few(items) => Ok(items.next()),
            Items::Many { next, count, .. } if *next > *count => Ok(None),
            Items::Many { flat, next, .. } => {
                let value = flat.raw_get(*next)?;
                *next += 1;
                Ok(Some(value))
            }
        }
    }
}
