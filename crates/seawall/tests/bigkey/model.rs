//! Bucketed collections against plain models, with random operations, growth in between.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::{
    prelude::*,
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use seawall::{
    Seawall,
    bigkey::{BucketedHash, BucketedSet, BucketedSortedSet, Cursor, Order, Place},
};

use crate::{
    keyspace::keys,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    a_hash_behaves_as_one
    a_set_behaves_as_one
    a_sorted_set_behaves_as_one
    a_list_behaves_as_one
    pushes_at_once_have_a_place_each
}

/// Random operations; a failed run prints them.
fn random<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> T {
    let mut runner = TestRunner::default();
    strategy.new_tree(&mut runner).expect("a value").current()
}

#[derive(Debug, Clone)]
enum Change {
    Set(Vec<(u16, u32)>),
    Add(u16, i64),
    Remove(Vec<u16>),
    Grow(u64),
}

fn changes(count: usize) -> impl Strategy<Value = Vec<Change>> {
    let many = |most| proptest::collection::vec(0_u16..300, 1..most);
    let change = prop_oneof![
        6 => proptest::collection::vec((0_u16..300, 0_u32..50), 1..60).prop_map(Change::Set),
        2 => (0_u16..300, -5_i64..5).prop_map(|(field, by)| Change::Add(field, by)),
        4 => many(40).prop_map(Change::Remove),
        1 => (1_u64..40).prop_map(Change::Grow),
    ];
    proptest::collection::vec(change, count)
}

async fn a_hash_behaves_as_one(setup: Setup) {
    let seawall = setup.connect().await;
    let hash: BucketedHash<u16, i64> = seawall.bucketed_hash("model", 2).expect("a name");
    let mut model: BTreeMap<u16, i64> = BTreeMap::new();
    let changes = random(changes(40));
    for (step, change) in changes.iter().enumerate() {
        match change {
            Change::Set(items) => {
                let items: Vec<(u16, i64)> =
                    items.iter().map(|(field, value)| (*field, i64::from(*value))).collect();
                let distinct: BTreeMap<u16, i64> = items.iter().copied().collect();
                let new = distinct.keys().filter(|field| !model.contains_key(field)).count();
                assert_eq!(hash.set_many(&items).await.expect("set"), new as u64, "step {step}");
                // Members of one batch are set in their order.
                model.extend(items);
            }
            Change::Add(field, by) => {
                let sum = model.entry(*field).or_default();
                *sum += by;
                assert_eq!(hash.increment(field, *by).await.expect("added"), *sum, "step {step}");
            }
            Change::Remove(fields) => {
                let there =
                    fields.iter().filter(|field| model.remove(field).is_some()).count() as u64;
                assert_eq!(hash.remove(fields).await.expect("removed"), there, "step {step}");
            }
            Change::Grow(buckets) => {
                let growth = hash.grow(*buckets, |_| {}).await.expect("grown");
                assert!(growth.buckets >= *buckets);
            }
        }
        assert_eq!(
            hash.len().await.expect("counted"),
            model.len() as u64,
            "step {step}: {changes:?}"
        );
    }
    let fields: Vec<u16> = (0..300).collect();
    let values = hash.get_many(&fields).await.expect("read");
    for (field, value) in fields.iter().zip(values) {
        assert_eq!(value, model.get(field).copied(), "{field} after {changes:?}");
    }
    let (mut scanned, mut cursor) = (BTreeMap::new(), Some(Cursor::start()));
    while let Some(at) = cursor {
        let (page, next) = hash.scan(&at).await.expect("scanned");
        scanned.extend(page);
        cursor = next;
    }
    assert_eq!(scanned, model);
    assert_eq!(hash.remove_all().await.expect("removed"), model.len() as u64);
    nothing_is_left(&setup, &seawall).await;
    // It can be made again.
    assert!(hash.set(&1, &1).await.expect("set"));
    assert_eq!(hash.get(&1).await.expect("read"), Some(1));
    seawall.shutdown().await;
}

async fn a_set_behaves_as_one(setup: Setup) {
    let seawall = setup.connect().await;
    let set: BucketedSet<String> = seawall.bucketed_set("model", 3).expect("a name");
    let mut model = BTreeSet::new();
    let changes = random(changes(30));
    let name = |field: &u16| format!("member {field}");
    for (step, change) in changes.iter().enumerate() {
        match change {
            Change::Set(items) => {
                let members: Vec<String> = items.iter().map(|(field, _)| name(field)).collect();
                let new = members.iter().filter(|member| model.insert((*member).clone())).count();
                assert_eq!(set.add(&members).await.expect("added"), new as u64, "step {step}");
            }
            Change::Remove(fields) => {
                let members: Vec<String> = fields.iter().map(name).collect();
                let there = members.iter().filter(|member| model.remove(*member)).count();
                assert_eq!(set.remove(&members).await.expect("removed"), there as u64, "{step}");
            }
            Change::Grow(buckets) => _ = set.grow(*buckets, |_| {}).await.expect("grown"),
            Change::Add(..) => {}
        }
        assert_eq!(set.len().await.expect("counted"), model.len() as u64, "step {step}");
    }
    let all: Vec<String> = (0..300).map(|field| name(&field)).collect();
    let there = set.contains_many(&all).await.expect("asked");
    for (member, there) in all.iter().zip(there) {
        assert_eq!(there, model.contains(member), "{member}");
    }
    assert_eq!(set.contains(&all[0]).await.expect("asked"), model.contains(&all[0]));
    let (mut scanned, mut cursor) = (BTreeSet::new(), Some(Cursor::start()));
    while let Some(at) = cursor {
        let (page, next) = set.scan(&at).await.expect("scanned");
        scanned.extend(page);
        cursor = next;
    }
    assert_eq!(scanned, model);
    set.remove_all().await.expect("removed");
    nothing_is_left(&setup, &seawall).await;
    seawall.shutdown().await;
}

async fn a_sorted_set_behaves_as_one(setup: Setup) {
    let seawall = setup.connect().await;
    let set: BucketedSortedSet<String> = seawall.bucketed_sorted_set("model", 3).expect("a name");
    let mut model: BTreeMap<String, f64> = BTreeMap::new();
    let changes = random(changes(30));
    let name = |field: &u16| format!("m{field}");
    for (step, change) in changes.iter().enumerate() {
        match change {
            Change::Set(items) => {
                // Few scores, so that many members share one.
                let places: Vec<Place<String>> = items
                    .iter()
                    .map(|(field, score)| Place {
                        score: f64::from(score % 5),
                        member: name(field),
                    })
                    .collect();
                set.add(&places).await.expect("added");
                model.extend(places.into_iter().map(|place| (place.member, place.score)));
            }
            Change::Add(field, by) => {
                let score = model.entry(name(field)).or_default();
                *score += *by as f64;
                let sum = set.increment(&name(field), *by as f64).await.expect("added");
                assert_eq!(sum, *score, "step {step}");
            }
            Change::Remove(fields) => {
                let members: Vec<String> = fields.iter().map(name).collect();
                let there = members.iter().filter(|member| model.remove(*member).is_some()).count();
                assert_eq!(set.remove(&members).await.expect("removed"), there as u64, "{step}");
            }
            Change::Grow(buckets) => _ = set.grow(*buckets, |_| {}).await.expect("grown"),
        }
    }
    let mut ordered: Vec<Place<String>> = model
        .iter()
        .map(|(member, score)| Place { score: *score, member: member.clone() })
        .collect();
    ordered.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    for order in [Order::Rising, Order::Falling] {
        // Pages from place to place give everything once and in order.
        let mut paged = set.first(order, 7).await.expect("read");
        while let Some(last) = paged.last().cloned() {
            let page = set.after(order, &last, 7).await.expect("read");
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, ordered, "{order:?}");
        for (rank, place) in ordered.iter().enumerate().step_by(10) {
            let found = set.rank(order, &place.member).await.expect("asked");
            assert_eq!(found, Some(rank as u64), "{place:?} {order:?}");
        }
        ordered.reverse();
    }
    let (mut some, mut last) = (Vec::new(), None);
    loop {
        let page = set.range_by_score(1.0..=3.0, last.as_ref(), 9).await.expect("read");
        some.extend(page.iter().cloned());
        last = match page.last() {
            Some(place) => Some(place.clone()),
            None => break,
        };
    }
    ordered.retain(|place| (1.0..=3.0).contains(&place.score));
    assert_eq!(some, ordered);
    assert_eq!(set.rank(Order::Rising, &"nobody".to_owned()).await.expect("asked"), None);
    set.remove_all().await.expect("removed");
    nothing_is_left(&setup, &seawall).await;
    seawall.shutdown().await;
}

#[derive(Debug, Clone)]
enum Move {
    PushBack(u16),
    PushFront(u16),
    PopBack(u16),
    PopFront(u16),
    Range(u16, u16),
}

/// The number that a push returns is its own, also when others push through the same handle.
async fn pushes_at_once_have_a_place_each(setup: Setup) {
    let seawall = setup.connect().await;
    let list = seawall.bucketed_list::<u32>("places").expect("a name");
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let list = list.clone();
        tasks.spawn(async move {
            let mut places = Vec::new();
            for round in 0..50 {
                places.push(list.push_back(&(task * 1000 + round)).await.expect("pushed"));
            }
            places
        });
    }
    let mut places: Vec<u64> = tasks.join_all().await.concat();
    places.sort_unstable();
    assert_eq!(places, (1..=400).collect::<Vec<_>>());
    seawall.shutdown().await;
}

async fn a_list_behaves_as_one(setup: Setup) {
    let seawall = setup.connect().await;
    let list = seawall.bucketed_list::<u32>("model").expect("a name");
    // A second handle, whose idea of the ends is always old.
    let other = seawall.bucketed_list::<u32>("model").expect("a name");
    let mut model = VecDeque::new();
    let moves = random(proptest::collection::vec(
        prop_oneof![
            3 => (1_u16..200).prop_map(Move::PushBack),
            3 => (1_u16..200).prop_map(Move::PushFront),
            2 => (1_u16..200).prop_map(Move::PopBack),
            2 => (1_u16..200).prop_map(Move::PopFront),
            4 => (0_u16..900, 0_u16..500).prop_map(|(start, count)| Move::Range(start, count)),
        ],
        16,
    ));
    let mut number = 0;
    for (step, change) in moves.iter().enumerate() {
        let list = if step % 3 == 0 { &other } else { &list };
        match *change {
            Move::PushBack(count) => {
                for _ in 0..count {
                    number += 1;
                    model.push_back(number);
                    assert_eq!(list.push_back(&number).await.expect("pushed"), model.len() as u64);
                }
            }
            Move::PushFront(count) => {
                for _ in 0..count {
                    number += 1;
                    model.push_front(number);
                    assert_eq!(list.push_front(&number).await.expect("pushed"), model.len() as u64);
                }
            }
            Move::PopBack(count) => {
                for _ in 0..count {
                    assert_eq!(list.pop_back().await.expect("popped"), model.pop_back());
                }
            }
            Move::PopFront(count) => {
                for _ in 0..count {
                    assert_eq!(list.pop_front().await.expect("popped"), model.pop_front());
                }
            }
            Move::Range(start, count) => {
                let expected: Vec<u32> = model
                    .iter()
                    .skip(usize::from(start))
                    .take(usize::from(count))
                    .copied()
                    .collect();
                let range = list.range(u64::from(start), usize::from(count)).await.expect("read");
                assert_eq!(range, expected, "step {step} of {moves:?}");
            }
        }
        assert_eq!(list.len().await.expect("counted"), model.len() as u64, "{step} of {moves:?}");
    }
    assert_eq!(list.remove_all().await.expect("removed"), model.len() as u64);
    assert_eq!(list.pop_front().await.expect("popped"), None);
    nothing_is_left(&setup, &seawall).await;
    seawall.shutdown().await;
}

/// Every key that is left has an end.
pub(crate) async fn nothing_is_left(setup: &Setup, seawall: &Seawall) {
    for key in keys(seawall, &setup.entry("*")).await {
        let left: i64 = seawall
            .client()
            .query(key.as_bytes(), seawall::cmd("PTTL").arg(&key))
            .await
            .expect("asked");
        assert!(left != -1, "{key} is left for ever");
    }
}
