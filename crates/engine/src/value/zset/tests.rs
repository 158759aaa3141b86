//! Sorted sets in both forms against a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::bounds::LexBound;
use super::*;
use crate::rng::Rng;

const SMALL: Limits = Limits { entries: 128, value: 64, seed: 7 };
const TINY: Limits = Limits { entries: 8, value: 64, seed: 7 };
const LARGE: Limits = Limits { entries: 0, value: 0, seed: 7 };

#[derive(Clone, Debug)]
enum Op {
    Add(u8, i8, u8),
    Remove(u8),
    Cut(u8, u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any::<u8>(), any::<i8>(), any::<u8>()).prop_map(|(m, s, r)| Op::Add(m, s, r)),
        2 => any::<u8>().prop_map(Op::Remove),
        1 => (any::<u8>(), 0..4u8).prop_map(|(at, n)| Op::Cut(at, n)),
    ]
}

fn rule(bits: u8) -> AddRule {
    AddRule {
        only_new: bits & 7 == 1,
        only_existing: bits & 7 == 2,
        only_greater: bits & 7 == 3,
        only_less: bits & 7 == 4,
        increment: bits & 8 != 0,
    }
}

/// Members of several lengths, some of them beyond what is kept in place.
fn name(n: u8) -> Vec<u8> {
    let mut name = vec![b'm'; usize::from(n % 5) * 9];
    name.push(n);
    name
}

type Model = BTreeMap<Vec<u8>, f64>;

fn sorted(model: &Model) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<_> = model.iter().map(|(m, s)| (m.clone(), *s)).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    all
}

fn model_add(model: &mut Model, member: &[u8], given: f64, rule: AddRule) -> Added {
    match model.get(member).copied() {
        None if rule.only_existing => Added::Skipped,
        None => {
            model.insert(member.to_vec(), given);
            Added::New(given)
        }
        Some(_) if rule.only_new => Added::Skipped,
        Some(old) => {
            let score = if rule.increment { old + given } else { given };
            if (rule.only_greater && score <= old) || (rule.only_less && score >= old) {
                return Added::Skipped;
            }
            model.insert(member.to_vec(), score);
            if score == old { Added::Same(score) } else { Added::Changed(score) }
        }
    }
}

fn apply(set: &mut ZSet, model: &mut Model, op: &Op, limits: &Limits) {
    match *op {
        Op::Add(member, score, bits) => {
            let (member, score) = (name(member), f64::from(score));
            let expected = model_add(model, &member, score, rule(bits));
            assert_eq!(set.add(&member, score, rule(bits), limits), expected);
        }
        Op::Remove(member) => {
            assert_eq!(set.remove(&name(member)), model.remove(&name(member)));
        }
        Op::Cut(at, count) => {
            let all = sorted(model);
            let range = usize::from(at)..usize::from(at) + usize::from(count);
            let gone = all.get(range.start..range.end.min(all.len())).unwrap_or_default();
            assert_eq!(set.remove_ranks(range), gone.len());
            gone.iter().for_each(|(member, _)| {
                model.remove(member);
            });
        }
    }
}

fn compare(set: &ZSet, model: &Model) {
    let all = sorted(model);
    let owned = |(m, s): (&[u8], f64)| (m.to_vec(), s);
    assert_eq!(set.len(), all.len());
    assert_eq!(set.iter().map(owned).collect::<Vec<_>>(), all);
    let (from, to) = (all.len() / 4, all.len() / 2);
    let mut back: Vec<_> = set.range(from..to, End::Max).map(owned).collect();
    back.reverse();
    assert_eq!(back, all[from..to]);
    for (rank, (member, score)) in all.iter().enumerate() {
        assert_eq!((set.score(member), set.rank(member)), (Some(*score), Some(rank)));
    }
    for (min, max) in [(-10, 10), (0, 0), (20, -20), (-200, 200)] {
        for open in [false, true] {
            let (min, max) = (f64::from(min), f64::from(max));
            let range = ScoreRange { min, min_open: open, max, max_open: open };
            let inside = |s: f64| if open { s > min && s < max } else { s >= min && s <= max };
            let got: Vec<_> = set.range(set.score_ranks(&range), End::Min).map(owned).collect();
            let expected: Vec<_> = all.iter().filter(|(_, s)| inside(*s)).cloned().collect();
            assert_eq!(got, expected);
        }
    }
    let mut seen = BTreeMap::new();
    let mut cursor = 0;
    loop {
        cursor = set.scan(cursor, 5, |member, score| {
            seen.insert(member.to_vec(), score);
        });
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(&seen, model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_form_behaves_as_a_map(ops in prop::collection::vec(op(), 0..200)) {
        for limits in [SMALL, TINY, LARGE] {
            let (mut set, mut model) = (ZSet::new(), Model::new());
            for op in &ops {
                apply(&mut set, &mut model, op, &limits);
            }
            compare(&set, &model);
            let pairs = model.iter().map(|(m, s)| (Member::new(m), *s)).collect();
            compare(&ZSet::from_pairs(pairs, &limits), &model);
            compare(&set.clone(), &model);
        }
    }
}

#[test]
fn the_form_follows_the_limits() {
    let mut set = ZSet::new();
    for i in 0..8u8 {
        set.add(&[i], 0.0, AddRule::default(), &TINY);
    }
    assert_eq!(set.encoding(), "listpack");
    set.add(b"x", 0.0, AddRule::default(), &TINY);
    assert_eq!(set.encoding(), "skiplist");
    set.remove(b"x");
    assert_eq!(set.encoding(), "skiplist");

    let mut set = ZSet::new();
    set.add(&[b'y'; 64], 0.0, AddRule::default(), &SMALL);
    assert_eq!(set.encoding(), "listpack");
    set.add(&[b'y'; 65], 0.0, AddRule::default(), &SMALL);
    assert_eq!(set.encoding(), "skiplist");
}

#[test]
fn ranges_of_bytes() {
    let members = ["", "a", "b", "c", "cc", "d"];
    for limits in [SMALL, LARGE] {
        let mut set = ZSet::new();
        for member in members {
            set.add(member.as_bytes(), 0.0, AddRule::default(), &limits);
        }
        let found = |min: &str, max: &str| {
            let range = LexRange::parse(min.as_bytes(), max.as_bytes()).expect("a valid range");
            let got = set.range(set.lex_ranks(&range, End::Min), End::Min);
            got.map(|(m, _)| String::from_utf8_lossy(m).into_owned()).collect::<Vec<_>>().join(",")
        };
        assert_eq!(found("-", "+"), ",a,b,c,cc,d");
        assert_eq!(found("[a", "(c"), "a,b");
        assert_eq!(found("(a", "[cc"), "b,c,cc");
        assert_eq!(found("+", "-"), "");
        assert_eq!(found("-", "-"), "");
        assert_eq!(found("[c", "[b"), "");
    }
    assert_eq!(LexBound::parse(b"a"), None);
    assert_eq!(LexBound::parse(b""), None);
    assert_eq!(LexBound::parse(b"+x"), None);
}

#[test]
fn sums_of_opposite_infinities_are_refused() {
    for limits in [SMALL, LARGE] {
        let mut set = ZSet::new();
        set.add(b"m", f64::INFINITY, AddRule::default(), &limits);
        let incr = AddRule { increment: true, ..AddRule::default() };
        assert_eq!(set.add(b"m", f64::NEG_INFINITY, incr, &limits), Added::NotANumber);
        assert_eq!(set.score(b"m"), Some(f64::INFINITY));
    }
}

#[test]
fn random_members_are_all_reached() {
    let mut rng = Rng::new(1);
    for limits in [SMALL, LARGE] {
        let mut set = ZSet::new();
        for i in 0..20u8 {
            set.add(&[i], f64::from(i), AddRule::default(), &limits);
        }
        let mut seen = [0; 20];
        for _ in 0..2000 {
            let (member, score) = set.random(&mut rng).expect("the set is not empty");
            assert_eq!(f64::from(member[0]), score);
            seen[usize::from(member[0])] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50));
    }
}

#[test]
fn compact_scores_keep_their_value() {
    let scores = [
        0.0,
        1.0,
        -1.0,
        31.0,
        32.0,
        -33.0,
        0.5,
        1_700_000_000_000.0,
        -1_700_000_000_000.0,
        (1i64 << 46) as f64,
        (1i64 << 47) as f64,
        -(1i64 << 60) as f64,
        1e300,
        f64::MIN_POSITIVE,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let mut set = ZSet::new();
    for (i, score) in scores.iter().enumerate() {
        set.add(&[i as u8], *score, AddRule::default(), &SMALL);
    }
    assert_eq!(set.encoding(), "listpack");
    for (i, score) in scores.iter().enumerate() {
        assert_eq!(set.score(&[i as u8]), Some(*score));
    }
    set.add(b"zero", -0.0, AddRule::default(), &SMALL);
    assert_eq!(set.score(b"zero").map(f64::to_bits), Some(0));
}
