//! The tree against a sorted vector, with its invariants checked after every step.

use proptest::prelude::*;

use super::*;

impl OrderTree {
    fn check(&self) {
        let mut leaves = Vec::new();
        let room = self.check_node(self.root, self.height, &mut leaves);
        assert_eq!(room.0, self.len);
        assert_eq!(room.1, self.leaf_room);
        assert_eq!(self.leaves.len(), leaves.len());
        assert_eq!((self.first, self.last), (leaves[0], leaves[leaves.len() - 1]));
        for (i, id) in leaves.iter().enumerate() {
            let leaf = &self.leaves[*id as usize];
            assert_eq!(leaf.prev, if i == 0 { NONE } else { leaves[i - 1] });
            assert_eq!(leaf.next, leaves.get(i + 1).copied().unwrap_or(NONE));
        }
    }

    /// Checks a subtree; returns its entries and its room.
    fn check_node(&self, node: u32, height: u32, leaves: &mut Vec<u32>) -> (usize, usize) {
        if height == 0 {
            leaves.push(node);
            let entries = &self.leaves[node as usize].entries;
            assert!(entries.len() <= NODE_MAX && (!entries.is_empty() || self.height == 0));
            assert!(
                entries.is_sorted_by(|a, b| a.compare(b.score, b.member.as_bytes()).is_lt()),
                "a leaf is out of order"
            );
            return (entries.len(), entries.capacity());
        }
        let children = &self.inners[node as usize].children;
        assert!(!children.is_empty() && children.len() <= NODE_MAX);
        let mut sum = (0, 0);
        for (i, child) in children.iter().enumerate() {
            let from = leaves.len();
            let (len, room) = self.check_node(child.node, height - 1, leaves);
            assert_eq!(len, child.count);
            sum = (sum.0 + len, sum.1 + room);
            for leaf in &leaves[from..] {
                for entry in &self.leaves[*leaf as usize].entries {
                    let (score, member) = (entry.score, entry.member.as_bytes());
                    assert!(i == 0 || child.low.compare(score, member).is_le());
                    let next = children.get(i + 1);
                    assert!(next.is_none_or(|next| next.low.compare(score, member).is_gt()));
                }
            }
        }
        sum
    }
}

fn model_insert(model: &mut Vec<(f64, Vec<u8>)>, score: f64, member: &[u8]) {
    let at = model.partition_point(|(s, m)| (*s, m.as_slice()) < (score, member));
    model.insert(at, (score, member.to_vec()));
}

#[derive(Clone, Debug)]
enum Op {
    Add(u16, u8),
    Remove(u16),
    Rescore(u16, u8),
    Cut(u16, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<u16>(), any::<u8>()).prop_map(|(m, s)| Op::Add(m % 4000, s)),
        3 => any::<u16>().prop_map(Op::Remove),
        2 => (any::<u16>(), any::<u8>()).prop_map(|(m, s)| Op::Rescore(m, s)),
        1 => (any::<u16>(), any::<u8>()).prop_map(|(r, n)| Op::Cut(r, n)),
    ]
}

fn apply(tree: &mut OrderTree, model: &mut Vec<(f64, Vec<u8>)>, op: &Op) {
    let pick = |at: u16, len: usize| (len > 0).then(|| usize::from(at) % len);
    match *op {
        Op::Add(member, score) => {
            let member = format!("m{member}").into_bytes();
            if !model.iter().any(|(_, m)| *m == member) {
                tree.insert(f64::from(score), Member::new(&member));
                model_insert(model, f64::from(score), &member);
            }
        }
        Op::Remove(at) => {
            if let Some(at) = pick(at, model.len()) {
                let (score, member) = model.remove(at);
                assert!(tree.remove(score, &member));
                assert!(!tree.remove(score, &member));
            }
        }
        Op::Rescore(at, to) => {
            if let Some(at) = pick(at, model.len()) {
                let (score, member) = model.remove(at);
                assert!(tree.rescore(score, &member, f64::from(to)));
                model_insert(model, f64::from(to), &member);
            }
        }
        Op::Cut(at, count) => {
            if let Some(at) = pick(at, model.len()) {
                let end = model.len().min(at + usize::from(count));
                let expected: Vec<_> = model.drain(at..end).collect();
                let mut got = Vec::new();
                tree.remove_ranks(at, usize::from(count), |e| {
                    got.push((e.score, e.member.as_bytes().to_vec()));
                });
                assert_eq!(got, expected);
            }
        }
    }
}

fn compare(tree: &OrderTree, model: &[(f64, Vec<u8>)]) {
    tree.check();
    assert_eq!(tree.len(), model.len());
    let pairs = |e: &Entry| (e.score, e.member.as_bytes().to_vec());
    let all: Vec<_> = tree.range(0..usize::MAX).map(pairs).collect();
    assert_eq!(all, model);
    let (from, to) = (model.len() / 3, model.len() / 2);
    let mut back: Vec<_> = tree.range(from..to).rev().map(pairs).collect();
    back.reverse();
    assert_eq!(back, model[from..to]);
    for (rank, (score, member)) in model.iter().enumerate().step_by(7) {
        assert_eq!(tree.rank(*score, member), rank);
        assert_eq!(tree.nth(rank).map(pairs).as_ref(), Some(&model[rank]));
    }
    assert!(tree.nth(model.len()).is_none());
    let limit = 100.0;
    let below = model.iter().filter(|(score, _)| *score < limit).count();
    assert_eq!(tree.count_while(|e| e.score < limit), below);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_changes_equal_a_sorted_vector(ops in prop::collection::vec(op(), 0..600)) {
        let (mut tree, mut model) = (OrderTree::new(), Vec::new());
        for (i, op) in ops.iter().enumerate() {
            apply(&mut tree, &mut model, op);
            if i % 50 == 0 {
                compare(&tree, &model);
            }
        }
        compare(&tree, &model);
    }
}

#[test]
fn what_was_removed_can_come_back_where_it_was() {
    let (mut tree, mut model) = (OrderTree::new(), Vec::new());
    for n in 0..1000u16 {
        let member = format!("m{n:04}").into_bytes();
        tree.insert(1.0, Member::new(&member));
        model_insert(&mut model, 1.0, &member);
    }
    // Among them are the entries that stand as low ends in the inner nodes.
    for (score, member) in model.clone() {
        assert!(tree.remove(score, &member));
        tree.insert(score, Member::new(&member));
        assert!(tree.rescore(score, &member, score), "it is found again");
    }
    compare(&tree, &model);
}

/// A cheap scatter of 0..n, so that no order of insertion is special.
fn scatter(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
}

#[test]
fn three_levels_fill_and_drain() {
    const N: u64 = 20_000;
    for order in 0..3 {
        let mut tree = OrderTree::new();
        let score = |i: u64| match order {
            0 => i as f64,
            1 => -(i as f64),
            _ => (scatter(i) % 1000) as f64,
        };
        for i in 0..N {
            tree.insert(score(i), Member::new(format!("member:{i}").as_bytes()));
        }
        tree.check();
        assert!(tree.height >= 2);
        for i in (0..N).map(|i| scatter(i) % N).chain(0..N) {
            tree.remove(score(i), format!("member:{i}").as_bytes());
            if i % 1999 == 0 {
                tree.check();
            }
        }
        tree.check();
        assert_eq!((tree.len(), tree.height, tree.inners.len()), (0, 0, 0));
        tree.insert(1.0, Member::new(b"again"));
        assert_eq!(tree.rank(1.0, b"again"), 0);
    }
}

#[test]
fn ordered_filling_leaves_no_holes() {
    let mut tree = OrderTree::new();
    for i in 0..10_000 {
        tree.insert(f64::from(i), Member::new(b"x"));
    }
    assert!(tree.leaf_room < 10_100, "{}", tree.leaf_room);
}
