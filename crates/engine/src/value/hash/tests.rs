//! The hash against a tree map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::rng::Rng;

const LIMITS: HashLimits = HashLimits { max_entries: 8, max_value: 64, seed: 3 };

fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => (0..30i64).prop_map(|n| n.to_string().into_bytes()),
        3 => "[a-c]{0,2}".prop_map(String::into_bytes),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        9 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => (60..70usize).prop_map(|n| vec![b'v'; n]),
    ]
}

proptest! {
    #[test]
    fn behaves_as_a_map(
        steps in proptest::collection::vec((field(), proptest::option::weighted(0.7, value())), 0..80),
    ) {
        let mut hash = Hash::new();
        let mut model = BTreeMap::new();
        let mut table = false;
        for (field, value) in steps {
            if let Some(value) = value {
                table |= value.len() > LIMITS.max_value;
                prop_assert_eq!(hash.set(&field, &value, &LIMITS), !model.contains_key(&field));
                model.insert(field, value);
            } else {
                prop_assert_eq!(hash.remove(&field), model.remove(&field).is_some());
            }
            table |= model.len() > LIMITS.max_entries;
            prop_assert_eq!(hash.encoding(), if table { "hashtable" } else { "listpack" });
            prop_assert_eq!(hash.len(), model.len());
            let all: BTreeMap<_, _> = hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
            prop_assert_eq!(&all, &model);
        }
        for (field, value) in &model {
            prop_assert!(hash.contains(field));
            prop_assert_eq!(hash.get(field).map(|v| v.to_vec()), Some(value.clone()));
        }
        prop_assert!(!hash.contains(b"absent") && hash.get(b"absent").is_none());
        let (mut seen, mut cursor) = (BTreeMap::new(), 0);
        loop {
            cursor = hash.scan(cursor, 7, |f, v| { seen.insert(f.to_vec(), v.to_vec()); });
            if cursor == 0 { break }
        }
        prop_assert_eq!(&seen, &model);
        let picked = hash.random(&mut Rng::new(1)).map(|(f, v)| (f.to_vec(), v.to_vec()));
        prop_assert_eq!(picked.is_none(), model.is_empty());
        prop_assert!(picked.is_none_or(|(f, v)| model[&f] == v));
    }
}

#[test]
fn memory_is_counted_on_every_path() {
    let mut hash = Hash::new();
    assert_eq!(hash.mem_bytes(), 0);
    for n in 0..100 {
        hash.set(format!("field{n}").as_bytes(), b"short", &LIMITS);
    }
    let before = hash.mem_bytes();
    hash.set(b"field7", &[b'x'; 1000], &LIMITS);
    assert!((980..1020).contains(&(hash.mem_bytes() - before)));
    hash.set(b"field7", b"short", &LIMITS);
    assert_eq!(hash.mem_bytes(), before);
    (0..100).for_each(|n| assert!(hash.remove(format!("field{n}").as_bytes())));
    assert_eq!(hash.mem_bytes(), size_of::<Table<Field>>());
}
