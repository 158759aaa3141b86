//! Sorted integers in the narrowest width that holds them all: 2, 4 or 8 bytes each.
//!
//! The width only grows, as in Redis: taking out the one large number is rare, and checking for it
//! would cost every removal a pass.

use super::super::alloc_bytes;

/// A set of integers.
#[derive(Clone)]
pub(super) enum IntSet {
    Narrow(Vec<i16>),
    Middle(Vec<i32>),
    Wide(Vec<i64>),
}

/// Runs the same code on whichever vector there is.
macro_rules! each {
    ($set:expr, $v:ident => $code:expr) => {
        match $set {
            IntSet::Narrow($v) => $code,
            IntSet::Middle($v) => $code,
            IntSet::Wide($v) => $code,
        }
    };
}

impl IntSet {
    pub(super) const fn new() -> Self {
        Self::Narrow(Vec::new())
    }

    pub(super) const fn len(&self) -> usize {
        each!(self, v => v.len())
    }

    pub(super) const fn mem_bytes(&self) -> usize {
        alloc_bytes(each!(self, v => v.capacity()) * self.width())
    }

    const fn width(&self) -> usize {
        match self {
            Self::Narrow(_) => 2,
            Self::Middle(_) => 4,
            Self::Wide(_) => 8,
        }
    }

    /// Where a number is, or where it would be.
    fn search(&self, n: i64) -> Result<usize, usize> {
        each!(self, v => v.binary_search_by(|&x| widen(x).cmp(&n)))
    }

    pub(super) fn contains(&self, n: i64) -> bool {
        self.search(n).is_ok()
    }

    pub(super) fn insert(&mut self, n: i64) -> bool {
        let Err(at) = self.search(n) else { return false };
        let needed = if i16::try_from(n).is_ok() {
            2
        } else if i32::try_from(n).is_ok() {
            4
        } else {
            8
        };
        if needed > self.width() {
            *self = if needed == 4 {
                Self::Middle(self.iter().map(|x| x as i32).collect())
            } else {
                Self::Wide(self.iter().collect())
            };
        }
        // Invariant: the width was just made sufficient, so nothing is cut off.
        match self {
            Self::Narrow(v) => v.insert(at, n as i16),
            Self::Middle(v) => v.insert(at, n as i32),
            Self::Wide(v) => v.insert(at, n),
        }
        true
    }

    pub(super) fn remove(&mut self, n: i64) -> bool {
        let Ok(at) = self.search(n) else { return false };
        each!(self, v => {
            v.remove(at);
            if v.len() * 4 < v.capacity() {
                v.shrink_to(v.len() * 2);
            }
        });
        true
    }

    pub(super) fn get(&self, index: usize) -> Option<i64> {
        each!(self, v => v.get(index).map(|&x| widen(x)))
    }

    /// All numbers in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).map_while(|i| self.get(i))
    }
}

fn widen(n: impl Into<i64>) -> i64 {
    n.into()
}
