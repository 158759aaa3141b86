//! The set against a tree set.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

const LIMITS: SetLimits = SetLimits { max_intset_entries: 20, seed: 3 };

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => (0..40i64).prop_map(|n| n.to_string().into_bytes()),
        4 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(70_000), Just(-40_000)]
            .prop_map(|n: i64| n.to_string().into_bytes()),
        1 => "[a-c]{0,2}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_set(steps in proptest::collection::vec((any::<bool>(), member()), 0..100)) {
        let mut set = Set::new();
        let mut model = BTreeSet::new();
        let mut table = false;
        for (add, member) in steps {
            if add {
                table |= parse_i64(&member).is_none();
                prop_assert_eq!(set.add(&member, &LIMITS), model.insert(member));
            } else {
                prop_assert_eq!(set.remove(&member), model.remove(&member));
            }
            table |= model.len() > LIMITS.max_intset_entries;
            prop_assert_eq!(set.encoding(), if table { "hashtable" } else { "intset" });
            prop_assert_eq!(set.len(), model.len());
            prop_assert_eq!(set.is_empty(), model.is_empty());
            let all: BTreeSet<_> = set.iter().map(|e| e.to_vec()).collect();
            prop_assert_eq!(&all, &model);
        }
        prop_assert!(model.iter().all(|m| set.contains(m)));
        prop_assert!(!set.contains(b"absent") && !set.contains(b"0999"));
        let (mut seen, mut cursor) = (BTreeSet::new(), 0);
        loop {
            cursor = set.scan(cursor, 7, |m| { seen.insert(m.to_vec()); });
            if cursor == 0 { break }
        }
        prop_assert_eq!(&seen, &model);
        let picked = set.random(&mut Rng::new(1)).map(|e| e.to_vec());
        prop_assert_eq!(picked.is_none(), model.is_empty());
        prop_assert!(picked.is_none_or(|m| model.contains(&m)));
    }
}

#[test]
fn integers_take_the_width_they_need() {
    let mut set = Set::new();
    let limits = SetLimits { max_intset_entries: 512, seed: 1 };
    (0..512).for_each(|n| assert!(set.add(n.to_string().as_bytes(), &limits)));
    assert_eq!((set.encoding(), set.mem_bytes()), ("intset", 1024));
    let numbers: Vec<_> = set.iter().map(|e| parse_i64(&e)).collect();
    assert!(numbers.is_sorted() && numbers.iter().all(Option::is_some));
    set.add(b"512", &limits);
    assert_eq!(set.encoding(), "hashtable");
}
