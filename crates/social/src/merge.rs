//! Merges several lists, each ordered newest first.
//!
//! A k-way merge with a heap of the lists' heads: `O(n log k)` for the `n` items that are taken,
//! however long the lists are. An item that is in several lists is returned once.

use std::collections::BinaryHeap;

use seawall_client::{error::Result, member::Member};

use super::Post;

/// Merges lists of posts that are ordered as inboxes are: by time, newest first, and then by their
/// bytes in Redis. Returns at most `count` posts, each once.
///
/// # Errors
/// [`Error::Invalid`](seawall_client::Error::Invalid) if a member cannot be stored in Redis.
///
/// ```
/// use seawall::social::{Post, merge};
///
/// let post = |author: u64, item: u64, time| Post { author, item, time };
/// let pushed = vec![post(1, 10, 500), post(1, 9, 300)];
/// let pulled = vec![post(2, 20, 400), post(2, 19, 300)];
/// let items: Vec<_> = merge(&[pushed, pulled], 3)?.iter().map(|post| post.item).collect();
/// assert_eq!(items, [10, 20, 19]);
/// # Ok::<(), seawall::Error>(())
/// ```
pub fn merge<M: Member>(lists: &[Vec<Post<M>>], count: usize) -> Result<Vec<Post<M>>> {
    let encode = |post: &Post<M>| Ok((post.encode()?, post.time));
    let lists = lists.iter().map(|list| list.iter().map(encode).collect::<Result<Vec<_>>>());
    merge_encoded(lists.collect::<Result<_>>()?, count).iter().map(Post::decode).collect()
}

/// Like [`merge`], for members as they are in Redis, with their scores.
pub(super) fn merge_encoded(lists: Vec<Vec<(Vec<u8>, i64)>>, count: usize) -> Vec<(Vec<u8>, i64)> {
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let count_of_lists = lists.len();
    let mut heads = BinaryHeap::with_capacity(count_of_lists);
    let mut advance = |heads: &mut BinaryHeap<_>, list: usize| {
        if let Some((member, score)) = lists[list].next() {
            heads.push((score, member, list));
        }
    };
    for list in 0..count_of_lists {
        advance(&mut heads, list);
    }
    let mut merged: Vec<(Vec<u8>, i64)> = Vec::new();
    while merged.len() < count {
        let Some((score, member, list)) = heads.pop() else { break };
        advance(&mut heads, list);
        if merged.last().is_none_or(|(last, time)| (last, *time) != (&member, score)) {
            merged.push((member, score));
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_sorting_and_cutting(lists in proptest::collection::vec(proptest::collection::vec((0_i64..20, 0_u64..30), 0..20), 0..6), count in 0_usize..40) {
            let mut all = Vec::new();
            let mut sorted = Vec::new();
            for list in lists {
                let mut list: Vec<_> = list.into_iter().map(|(time, item)| (time, item.to_string().into_bytes())).collect();
                list.sort();
                list.dedup();
                list.reverse();
                all.extend(list.clone());
                sorted.push(list.into_iter().map(|(time, item)| (item, time)).collect());
            }
            all.sort();
            all.dedup();
            let expected: Vec<_> = all.into_iter().rev().take(count).map(|(time, item)| (item, time)).collect();
            prop_assert_eq!(merge_encoded(sorted, count), expected);
        }
    }
}
