//! The table against simple models, and its bounds on work.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

thread_local! {
    /// How often a key was looked at: a measure of the work that an operation did.
    static LOOKS: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: Box<[u8]>,
    value: u32,
    due: i64,
}

impl Item for Entry {
    fn key(&self) -> &[u8] {
        LOOKS.set(LOOKS.get() + 1);
        &self.key
    }

    fn heap_bytes(&self) -> usize {
        self.key.len() + self.value as usize
    }

    fn deadline(&self) -> i64 {
        self.due
    }
}

fn key(n: u32) -> Box<[u8]> {
    format!("key:{n}").into_bytes().into()
}

fn entry(n: u32, value: u32) -> Entry {
    Entry { key: key(n), value, due: i64::MAX }
}

fn timed(n: u32, due: i64) -> Entry {
    Entry { key: key(n), value: 0, due }
}

impl<T: Item> Table<T> {
    /// Recomputes every sum.
    fn check(&self) {
        let mut buckets = 0;
        for (index, segment) in self.segments.iter().enumerate() {
            buckets += segment.items.allocation_size();
            for item in segment.items.iter() {
                assert_eq!(self.segments.index_of(self.hash_of(item.key())), index);
                assert!(segment.min_deadline <= item.deadline());
            }
        }
        assert_eq!(self.len, self.iter().count());
        assert_eq!(self.heap_bytes, self.iter().map(Item::heap_bytes).sum::<usize>());
        assert_eq!(self.timed, self.iter().filter(|i| i.deadline() != i64::MAX).count());
        assert_eq!(self.bucket_bytes, buckets);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u32),
    InsertIfAbsent(u32, u32),
    Remove(u32),
    Update(u32, u32),
    SetDeadline(u32, i64),
    Expire(i64),
    RemoveRange(u32, u32),
    InsertRange(u32, u32),
    Clear,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let n = 0..400u32;
    let step = prop_oneof![
        8 => (n.clone(), 0..9u32).prop_map(|(n, v)| Step::Insert(n, v)),
        4 => (n.clone(), 0..9u32).prop_map(|(n, v)| Step::InsertIfAbsent(n, v)),
        6 => n.clone().prop_map(Step::Remove),
        4 => (n.clone(), 0..9u32).prop_map(|(n, v)| Step::Update(n, v)),
        4 => (n.clone(), 0..100i64).prop_map(|(n, d)| Step::SetDeadline(n, d)),
        1 => (0..100i64).prop_map(Step::Expire),
        1 => (n.clone(), 0..300u32).prop_map(|(n, l)| Step::RemoveRange(n, l)),
        2 => (n, 0..300u32).prop_map(|(n, l)| Step::InsertRange(n, l)),
        1 => Just(Step::Clear),
    ];
    proptest::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn behaves_as_a_map(steps in steps(), seed: u64) {
        let mut table = Table::new(seed);
        let mut model = BTreeMap::<Box<[u8]>, (u32, i64)>::new();
        for step in steps {
            match step {
                Step::Insert(n, v) => {
                    let old = table.insert(entry(n, v)).map(|e| (e.value, e.due));
                    prop_assert_eq!(old, model.insert(key(n), (v, i64::MAX)));
                }
                Step::InsertIfAbsent(n, v) => {
                    let absent = !model.contains_key(&key(n));
                    model.entry(key(n)).or_insert((v, i64::MAX));
                    prop_assert_eq!(table.insert_if_absent(&key(n), || entry(n, v)), absent);
                }
                Step::Remove(n) => {
                    let old = table.remove(&key(n)).map(|e| (e.value, e.due));
                    prop_assert_eq!(old, model.remove(&key(n)));
                }
                Step::Update(n, v) => {
                    let old = table.update(&key(n), |e| std::mem::replace(&mut e.value, v));
                    let expected = model.get_mut(&key(n));
                    prop_assert_eq!(old, expected.map(|e| std::mem::replace(&mut e.0, v)));
                }
                Step::SetDeadline(n, due) => {
                    table.update(&key(n), |e| e.due = due);
                    model.entry(key(n)).and_modify(|e| e.1 = due);
                }
                Step::Expire(now) => {
                    let mut gone = BTreeSet::new();
                    let mut from = 0;
                    loop {
                        let step = table.expire_step(now, from, 3, |e: Entry| {
                            gone.insert(e.key);
                        });
                        from = step.next_segment;
                        if from == 0 { break }
                    }
                    // A merge may carry items behind the walk: what is left waits for the next.
                    prop_assert!(gone.iter().all(|k| model[k].1 <= now));
                    model.retain(|k, _| !gone.contains(k));
                }
                Step::RemoveRange(from, len) => {
                    for n in from..from + len {
                        prop_assert_eq!(table.remove(&key(n)).is_some(), model.remove(&key(n)).is_some());
                    }
                }
                Step::InsertRange(from, len) => {
                    for n in from..from + len {
                        table.insert(entry(n, 0));
                        model.insert(key(n), (0, i64::MAX));
                    }
                }
                Step::Clear => {
                    prop_assert_eq!(table.drain().count(), model.len());
                    model.clear();
                }
            }
            table.check();
            prop_assert_eq!(table.len(), model.len());
            for n in 0..10 {
                let place = table.locate(&key(n));
                let found = place.map(|place| table.at(place).value);
                prop_assert_eq!(found, model.get(&key(n)).map(|e| e.0));
                prop_assert_eq!(found, place.map(|place| table.at_mut(place).0.value));
            }
        }
        let all: BTreeMap<_, _> = table.iter().map(|e| (e.key.clone(), (e.value, e.due))).collect();
        prop_assert_eq!(all, model);
    }

    #[test]
    fn scan_returns_whatever_stays(
        stay in 0..300u32,
        others in proptest::collection::vec((1000..3000u32, any::<bool>()), 0..2000),
        count in 1..40usize,
        burst in 1..200usize,
        seed: u64,
    ) {
        let mut table = Table::new(seed);
        (0..stay).for_each(|n| { table.insert(entry(n, 0)); });
        let mut others = others.chunks(burst);
        let mut seen = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = table.scan(cursor, count, |e| { seen.insert(e.key.clone()); });
            if cursor == 0 { break }
            for &(n, add) in others.next().unwrap_or(&[]) {
                if add { table.insert(entry(n, 0)); } else { table.remove(&key(n)); }
            }
        }
        prop_assert!((0..stay).all(|n| seen.contains(&key(n))));
    }
}

#[test]
fn scan_of_a_quiet_table_shows_each_item_once_in_steps_of_the_asked_size() {
    let mut table = Table::new(5);
    (0..10_000).for_each(|n| drop(table.insert(entry(n, 0))));
    let (mut seen, mut cursor, mut calls) = (Vec::new(), 0, 0);
    loop {
        let before = seen.len();
        cursor = table.scan(cursor, 10, |e| seen.push(e.key.clone()));
        calls += 1;
        if cursor == 0 {
            break;
        }
        assert_eq!(seen.len() - before, 10);
        assert!(cursor < 1 << 52);
    }
    assert_eq!((calls, seen.len()), (1000, 10_000));
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 10_000);
    assert_eq!(table.scan(u64::MAX, 10, |_| panic!("beyond the end")), 0);
}

#[test]
fn no_operation_touches_more_than_a_few_segments() {
    let mut table = Table::new(9);
    let mut worst = 0;
    let mut measure = |f: &mut dyn FnMut()| {
        LOOKS.set(0);
        f();
        worst = worst.max(LOOKS.get());
    };
    for n in 0..50_000 {
        measure(&mut || drop(table.insert(entry(n, 0))));
    }
    for n in 0..50_000 {
        measure(&mut || drop(table.remove(&key(n))));
    }
    // Each item of a segment is hashed at most thrice: to tell whether it moves, to place
    // it, and to fit the buckets to what is left.
    assert!(worst <= 3 * 64, "{worst}");
    assert_eq!(table.mem_bytes(), 0);
}

#[test]
fn loads_and_memory_are_bounded() {
    for (seed, prefix) in ["", "k:", "key:", "user:1000:session:", "00000000000000000000000000000"]
        .into_iter()
        .flat_map(|prefix| (0..4).map(move |seed| (seed, prefix)))
    {
        let mut table = Table::new(seed);
        for n in 0..50_000u32 {
            let key = format!("{prefix}{n:08}").into_bytes().into();
            table.insert(Entry { key, value: 0, due: i64::MAX });
        }
        let longest = table.segments.iter().map(|s| s.items.len()).max().unwrap_or(0);
        assert!(longest <= 64, "{prefix}: {longest}");
        let overhead = (table.mem_bytes() - table.heap_bytes) / table.len();
        assert!(overhead <= 72, "{prefix}: {overhead}");
    }
}

#[test]
fn random_is_even_within_and_across_segments() {
    for size in [10u32, 300] {
        let mut table = Table::new(3);
        (0..size).for_each(|n| drop(table.insert(entry(n, n))));
        let mut rng = Rng::new(4);
        let mut counts = vec![0f64; size as usize];
        for _ in 0..size * 1000 {
            counts[table.random(&mut rng).expect("not empty").value as usize] += 1.0;
        }
        let chi: f64 = counts.iter().map(|c| (c - 1000.0) * (c - 1000.0) / 1000.0).sum();
        assert!(chi < f64::from(size) * 1.5 + 20.0, "{size}: {chi}");
    }
    assert!(Table::<Entry>::new(1).random(&mut Rng::new(1)).is_none());
}

#[test]
fn expiry_finds_what_is_due_and_nothing_else() {
    let mut table = Table::new(8);
    (0..1000).for_each(|n| drop(table.insert(timed(n, i64::from(n)))));
    (1000..3000).for_each(|n| drop(table.insert(entry(n, 0))));
    assert_eq!(table.timed(), 1000);
    for now in [-1, 0, 10, 10, 499] {
        let due = table.iter().filter(|e| e.due <= now).count();
        let mut removed = 0;
        let mut from = 0;
        loop {
            let step = table.expire_step(now, from, 7, |e| assert!(e.due <= now));
            removed += step.removed;
            from = step.next_segment;
            if from == 0 {
                break;
            }
        }
        assert_eq!(removed, due);
        table.check();
    }
    assert_eq!((table.timed(), table.len()), (500, 2500));
    // Nothing is looked at once nothing is due.
    LOOKS.set(0);
    table.expire_step(499, 0, usize::MAX, |_| panic!("nothing is due"));
    assert_eq!(LOOKS.get(), 0);
}

#[test]
fn samples_find_the_only_candidate() {
    let mut table = Table::new(8);
    let mut rng = Rng::new(1);
    assert_eq!(table.sample_segment(&mut rng, false, |_| ()), 0);
    (0..5000).for_each(|n| drop(table.insert(entry(n, 0))));
    assert!(table.sample_segment(&mut rng, false, |_| ()) > 0);
    assert_eq!(table.sample_segment(&mut rng, true, |_| panic!("none has one")), 0);
    table.insert(timed(7, 5));
    let mut seen = Vec::new();
    assert_eq!(table.sample_segment(&mut rng, true, |e| seen.push(e.due)), 1);
    assert_eq!(seen, [5]);
}

#[test]
fn an_empty_table_and_a_clone_cost_what_they_should() {
    let mut table = Table::new(1);
    assert_eq!(table.mem_bytes(), 0);
    table.insert(entry(1, 10));
    let copy = table.clone();
    table.clear();
    assert_eq!((table.mem_bytes(), copy.len()), (0, 1));
    assert!(copy.contains(&key(1)) && table.get(&key(1)).is_none());
    copy.check();
}

#[test]
fn a_part_of_one_scan_fills_another_table_evenly() {
    let (mut whole, mut part) = (Table::new(1), Table::new(2));
    (0..50_000).for_each(|n| drop(whole.insert(entry(n, 0))));
    whole.scan(0, 2000, |item| drop(part.insert(item.clone())));
    let longest = part.segments.iter().map(|s| s.items.len()).max().unwrap_or(0);
    assert!((16..=64).contains(&longest), "{longest}");
}
