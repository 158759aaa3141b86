//! How many nodes Redis' radix tree would have, for `XINFO STREAM`.
//!
//! Redis keys its macro nodes by their first id in a tree that compresses chains. For keys of
//! one length the shape follows from the keys alone: a leaf per key, a parting wherever keys
//! diverge, and a chain above each of them if at least one byte lies between it and the parting
//! above (the byte right after a parting belongs to that parting). Walking the sorted keys with
//! a stack of the open partings meets each leaf and parting once.

use super::id::StreamId;

const KEY_BYTES: usize = 16;

/// The number of radix tree nodes for the given ascending, distinct ids.
pub(super) fn node_count(ids: impl Iterator<Item = StreamId>) -> u64 {
    let mut open: Vec<usize> = Vec::with_capacity(KEY_BYTES);
    let mut previous: Option<(u128, Option<usize>)> = None;
    let mut count = 0;
    for id in ids {
        let key = id.to_u128();
        let mut common = None;
        if let Some((before, before_common)) = previous {
            let depth = (before ^ key).leading_zeros() as usize / 8;
            common = Some(depth);
            count += with_chain(KEY_BYTES, before_common.max(common));
            close_below(&mut open, common, &mut count);
            if open.last() != Some(&depth) {
                open.push(depth);
            }
        }
        previous = Some((key, common));
    }
    let Some((_, common)) = previous else {
        return 1; // The empty root.
    };
    count += with_chain(KEY_BYTES, common);
    close_below(&mut open, None, &mut count);
    count
}

/// Counts the open partings that lie deeper than where the next key branches off.
fn close_below(open: &mut Vec<usize>, next: Option<usize>, count: &mut u64) {
    while let Some(depth) = open.pop_if(|depth| Some(*depth) > next) {
        *count += with_chain(depth, open.last().copied().max(next));
    }
}

/// A leaf or parting at `depth`, and the chain that leads to it from the parting above.
fn with_chain(depth: usize, parting_above: Option<usize>) -> u64 {
    let start = parting_above.map_or(0, |above| above + 1);
    1 + u64::from(depth > start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(ids: &[(u64, u64)]) -> u64 {
        node_count(ids.iter().map(|&(ms, seq)| StreamId::new(ms, seq)))
    }

    #[test]
    fn counts_match_redis() {
        // Observed with redis-server 7.0.15, stream-node-max-entries 1.
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&[(1, 1)]), 2);
        assert_eq!(count(&[(1, 1), (1, 2)]), 4);
        assert_eq!(count(&[(1, 1), (2, 1)]), 6);
        assert_eq!(count(&[(1, 1), (1, 2), (2, 1)]), 8);
        assert_eq!(count(&[(1, 1), (1, 2), (1, 300), (2, 1), (1 << 60, 5)]), 14);
    }
}
