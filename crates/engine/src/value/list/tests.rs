//! The list against a deque of vectors.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn item() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (0..9i64).prop_map(|n| n.to_string().into_bytes()),
        3 => (0..60usize).prop_map(|n| vec![b'x'; n]),
        1 => (0..9000usize).prop_map(|n| vec![b'y'; n]),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Push(End, Vec<u8>),
    Pop(End),
    Set(usize, Vec<u8>),
    Insert(Side, Vec<u8>, Vec<u8>),
    Remove(Vec<u8>, usize, End),
    Trim(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let end = prop_oneof![Just(End::Head), Just(End::Tail)];
    let side = prop_oneof![Just(Side::Before), Just(Side::After)];
    let step = prop_oneof![
        9 => (end.clone(), item()).prop_map(|(e, v)| Step::Push(e, v)),
        2 => end.clone().prop_map(Step::Pop),
        3 => (0..60usize, item()).prop_map(|(i, v)| Step::Set(i, v)),
        4 => (side, item(), item()).prop_map(|(s, p, v)| Step::Insert(s, p, v)),
        1 => (item(), prop_oneof![1..4usize, Just(usize::MAX)], end)
            .prop_map(|(v, n, e)| Step::Remove(v, n, e)),
        1 => (0..5usize, 0..70usize).prop_map(|(s, n)| Step::Trim(s, n)),
    ];
    proptest::collection::vec(step, 0..120)
}

fn apply(list: &mut List, model: &mut VecDeque<Vec<u8>>, limit: ChunkLimit, step: Step) {
    match step {
        Step::Push(end, v) => {
            list.push(end, &v, limit);
            match end {
                End::Head => model.push_front(v),
                End::Tail => model.push_back(v),
            }
        }
        Step::Pop(end) => {
            let expected = match end {
                End::Head => model.pop_front(),
                End::Tail => model.pop_back(),
            };
            assert_eq!(list.peek(end).map(|e| e.to_vec()), expected);
            list.pop(end);
        }
        Step::Set(i, v) => {
            assert_eq!(list.set(i, &v, limit), i < model.len());
            if let Some(slot) = model.get_mut(i) {
                *slot = v;
            }
        }
        Step::Insert(side, pivot, v) => {
            let at = model.iter().position(|m| *m == pivot);
            assert_eq!(list.insert(side, &pivot, &v, limit), at.is_some());
            if let Some(at) = at {
                model.insert(at + usize::from(side == Side::After), v);
            }
        }
        Step::Remove(v, max, from) => {
            let mut matches: Vec<_> = (0..model.len()).filter(|&i| model[i] == v).collect();
            if from == End::Tail {
                matches.reverse();
            }
            matches.truncate(max);
            matches.sort_unstable();
            assert_eq!(list.remove(&v, max, from), matches.len());
            matches.into_iter().rev().for_each(|i| drop(model.remove(i)));
        }
        Step::Trim(start, count) => {
            list.trim(start, count);
            *model = std::mem::take(model).into_iter().skip(start).take(count).collect();
        }
    }
}

proptest! {
    #[test]
    fn behaves_as_a_deque(steps in steps(), fill in prop_oneof![Just(-2i64), Just(-1), 1..6i64]) {
        let limit = ChunkLimit::from_config(fill);
        let mut list = List::new();
        let mut model = VecDeque::<Vec<u8>>::new();
        for step in steps {
            apply(&mut list, &mut model, limit, step);
            prop_assert_eq!(list.len(), model.len());
            prop_assert!(list.iter().map(|e| e.to_vec()).eq(model.iter().cloned()));
            prop_assert!(list.iter_rev().map(|e| e.to_vec()).eq(model.iter().rev().cloned()));
            let bytes: usize = list.chunks.iter().map(Packed::mem_bytes).sum();
            prop_assert_eq!(list.chunk_bytes, bytes);
            for chunk in &list.chunks {
                prop_assert!(!chunk.is_empty());
                prop_assert!(chunk.byte_len() <= limit.max_bytes || chunk.len() == 1);
                prop_assert!(chunk.len() <= limit.max_entries);
            }
        }
        for i in 0..=model.len() {
            prop_assert_eq!(list.get(i).map(|e| e.to_vec()), model.get(i).cloned());
            let rest = model.iter().skip(i).cloned();
            prop_assert!(list.iter_from(i).map(|e| e.to_vec()).eq(rest));
        }
    }
}

#[test]
fn memory_stays_near_the_bytes_stored() {
    for end in [End::Head, End::Tail] {
        let mut list = List::new();
        let mut stored = 0;
        for n in 0..100_000 {
            let item = format!("element:{n}");
            stored += item.len() + 2;
            list.push(end, item.as_bytes(), ChunkLimit::default());
        }
        assert!(list.mem_bytes() < stored * 11 / 10, "{} {stored}", list.mem_bytes());
        list.trim(10, 5);
        assert_eq!(list.len(), 5);
        assert!(list.mem_bytes() < 20_000, "{}", list.mem_bytes());
    }
}

#[test]
fn settings_choose_the_bound() {
    let mut list = List::new();
    (0..10).for_each(|_| list.push(End::Tail, &[b'x'; 3000], ChunkLimit::from_config(-5)));
    assert_eq!(list.chunks.len(), 1);
    let mut list = List::new();
    (0..10).for_each(|_| list.push(End::Tail, b"x", ChunkLimit::from_config(3)));
    assert_eq!(list.chunks.len(), 4);
    list.push(End::Head, &vec![b'x'; 100_000], ChunkLimit::from_config(3));
    assert_eq!((list.chunks.len(), list.get(0).map(|e| e.len())), (5, Some(100_000)));
}
