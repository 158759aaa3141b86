//! The packed sequence against a vector of vectors.

use proptest::prelude::*;

use super::*;

fn item() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        (-300..300i64).prop_map(|n| n.to_string().into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..20),
        (0..400usize).prop_map(|n| vec![b'x'; n]),
        "[a-c]".prop_map(String::into_bytes),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    PushBack(Vec<u8>),
    PushFront(Vec<u8>),
    Insert(usize, Vec<u8>),
    Replace(usize, Vec<u8>),
    Remove(usize, usize),
    DropFront,
    DropBack,
    RemoveEqual(Vec<u8>, usize),
    Split(usize),
    Fit,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = 0..30usize;
    let step = prop_oneof![
        4 => item().prop_map(Step::PushBack),
        4 => item().prop_map(Step::PushFront),
        3 => (index.clone(), item()).prop_map(|(i, v)| Step::Insert(i, v)),
        3 => (index.clone(), item()).prop_map(|(i, v)| Step::Replace(i, v)),
        2 => (index.clone(), 0..5usize).prop_map(|(i, n)| Step::Remove(i, n)),
        2 => Just(Step::DropFront),
        2 => Just(Step::DropBack),
        1 => (item(), 0..3usize).prop_map(|(v, n)| Step::RemoveEqual(v, n)),
        1 => index.prop_map(Step::Split),
        1 => Just(Step::Fit),
    ];
    proptest::collection::vec(step, 0..80)
}

fn apply(packed: &mut Packed, model: &mut Vec<Vec<u8>>, step: Step) {
    match step {
        Step::PushBack(v) => {
            packed.push_back(&v);
            model.push(v);
        }
        Step::PushFront(v) => {
            packed.push_front(&v);
            model.insert(0, v);
        }
        Step::Insert(i, v) => {
            packed.insert_at(i, &v);
            model.insert(i.min(model.len()), v);
        }
        Step::Replace(i, v) => {
            packed.replace(packed.place(i), &v);
            if let Some(slot) = model.get_mut(i) {
                *slot = v;
            }
        }
        Step::Remove(i, n) => {
            packed.remove_at(i, n);
            let from = i.min(model.len());
            model.drain(from..(from + n).min(model.len()));
        }
        Step::DropFront => {
            packed.drop_front();
            model.drain(..model.len().min(1));
        }
        Step::DropBack => {
            packed.drop_back();
            model.pop();
        }
        Step::RemoveEqual(v, from) => {
            let mut seen = 0;
            let before = model.len();
            model.retain(|m| {
                seen += usize::from(*m == v);
                *m != v || seen - 1 < from
            });
            assert_eq!(packed.remove_equal(&v, |n| n >= from), before - model.len());
        }
        Step::Split(i) => {
            let rest = packed.split_off(packed.place(i));
            let expected = model.split_off(i.min(model.len()));
            assert!(rest.iter().map(|e| e.to_vec()).eq(expected.iter().cloned()));
            for v in expected {
                packed.push_back(&v);
                model.push(v);
            }
        }
        Step::Fit => packed.fit(),
    }
}

proptest! {
    #[test]
    fn behaves_as_a_vector(steps in steps()) {
        let mut packed = Packed::new();
        let mut model = Vec::<Vec<u8>>::new();
        for step in steps {
            apply(&mut packed, &mut model, step);
            prop_assert_eq!(packed.len(), model.len());
            prop_assert!(packed.iter().map(|e| e.to_vec()).eq(model.iter().cloned()));
            prop_assert!(packed.iter_rev().map(|e| e.to_vec()).eq(model.iter().rev().cloned()));
            prop_assert_eq!(packed.byte_len(), model.iter().map(|v| packed_len(v)).sum::<usize>());
            for (i, item) in model.iter().enumerate() {
                prop_assert_eq!(&*packed.get(i).expect("in range"), &item[..]);
                let found = packed.find(item, 0).expect("present");
                prop_assert_eq!(found.index, model.iter().position(|m| m == item).expect("there"));
                prop_assert_eq!(found, packed.place(found.index));
                let pair = packed.find(item, 1).map(|p| p.index);
                let expected = model.iter().step_by(2).position(|m| m == item).map(|i| i * 2);
                prop_assert_eq!(pair, expected);
            }
            prop_assert!(packed.get(model.len()).is_none());
        }
    }
}

#[test]
fn both_ends_are_cheap() {
    let mut packed = Packed::new();
    let mut moved = 0;
    for n in 0..1000 {
        let before = packed.bytes.as_ptr();
        packed.push_front(format!("element {n}").as_bytes());
        moved += usize::from(before != packed.bytes.as_ptr());
    }
    assert!(moved <= 20, "{moved}");
    // A queue that is filled and emptied at opposite ends does not grow without end.
    let allocated = packed.mem_bytes();
    for n in 0..10_000 {
        packed.drop_front();
        packed.push_back(format!("element {}", n % 1000).as_bytes());
    }
    assert!(packed.mem_bytes() <= allocated * 2);
    assert_eq!(packed.len(), 1000);
}

#[test]
fn little_is_allocated_to_spare() {
    for front in [false, true] {
        let mut packed = Packed::new();
        for n in 0..200 {
            let item = format!("element {n}");
            if front {
                packed.push_front(item.as_bytes());
            } else {
                packed.push_back(item.as_bytes());
            }
            let spare = packed.mem_bytes() - packed.byte_len();
            assert!(spare <= packed.byte_len() / 2 + 48, "{spare} at {}", packed.byte_len());
        }
    }
}
