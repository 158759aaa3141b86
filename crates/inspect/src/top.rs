//! The N largest of any number of items, in memory for N.
//!
//! Invariant: a key is in it once. If a key is offered again (a scan may return it twice, with
//! another size by then), the larger rank is kept.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

type Name = (u32, Arc<[u8]>);

/// The largest of some items, each with the name of a key.
#[derive(Debug)]
pub(super) struct Top<T> {
    limit: usize,
    order: BTreeSet<(u64, Name)>,
    held: BTreeMap<Name, (u64, T)>,
}

impl<T> Top<T> {
    pub(super) fn new(limit: usize) -> Self {
        Top { limit, order: BTreeSet::new(), held: BTreeMap::new() }
    }

    /// Returns `true` if an item of this rank would be kept now.
    pub(super) fn wants(&self, rank: u64) -> bool {
        self.limit > 0
            && (self.order.len() < self.limit
                || self.order.first().is_some_and(|(least, _)| rank > *least))
    }

    pub(super) fn offer(&mut self, rank: u64, name: Name, value: T) {
        if !self.wants(rank) {
            return;
        }
        if let Some((old, _)) = self.held.get(&name) {
            if *old >= rank {
                return;
            }
            self.order.remove(&(*old, name.clone()));
        } else if self.order.len() >= self.limit
            && let Some((_, least)) = self.order.pop_first()
        {
            self.held.remove(&least);
        }
        self.order.insert((rank, name.clone()));
        self.held.insert(name, (rank, value));
    }

    /// Returns the items, largest first; equal ones by key.
    pub(super) fn into_sorted(mut self) -> Vec<T> {
        let mut names: Vec<_> = self.order.into_iter().collect();
        names.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| x.cmp(y)));
        names.into_iter().filter_map(|(_, name)| Some(self.held.remove(&name)?.1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(top: &mut Top<u64>, key: &str, rank: u64) {
        top.offer(rank, (0, key.as_bytes().into()), rank);
    }

    #[test]
    fn it_keeps_the_largest_whatever_the_order_and_each_once() {
        let mut top = Top::new(3);
        for step in 0..1_000u64 {
            let rank = step * 7_919 % 1_009;
            offer(&mut top, &format!("k{rank}"), rank);
            offer(&mut top, &format!("k{rank}"), rank);
        }
        offer(&mut top, "k1008", 5_000);
        assert_eq!(top.into_sorted(), [5_000, 1_007, 1_006]);
    }

    #[test]
    fn a_top_of_nothing_keeps_nothing() {
        let mut top = Top::new(0);
        offer(&mut top, "k", 1);
        assert!(top.into_sorted().is_empty());
    }
}
