//! Tests of the sketch against values taken from redis-server 7.0.15.

use super::*;
use proptest::prelude::*;

const SPARSE_MAX: usize = 3000;

fn sketch_of(elements: impl IntoIterator<Item = String>) -> Vec<u8> {
    let mut bytes = empty();
    for element in elements {
        add(&mut bytes, element.as_bytes(), SPARSE_MAX).expect("sound");
    }
    bytes
}

#[test]
fn the_hash_is_the_published_one() {
    assert_eq!(murmur64a(b"", 0), 0);
    assert_eq!(describe_sparse(&sketch_of(["a".to_owned()])), "Z:12711 v:2,1 Z:3672");
}

#[test]
fn an_empty_sketch_counts_nothing() {
    assert_eq!(empty(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
    assert_eq!(count(&empty()), Ok(0));
    assert_eq!(cached_count(&empty()), Some(0));
    assert_eq!(describe_sparse(&empty()), "Z:16384");
}

#[test]
fn estimates_are_close_and_encodings_agree() {
    for size in [1, 5, 100, 1500, 30_000] {
        let sketch = sketch_of((0..size).map(|number| format!("element:{number}")));
        let estimate = count(&sketch).expect("sound");
        let error = estimate.abs_diff(size) as f64 / size as f64;
        assert!(error < 0.03, "{estimate} for {size}");
        let mut converted = sketch.clone();
        make_dense(&mut converted).expect("sound");
        assert_eq!(count(&converted), Ok(estimate));
        let mut union = Union::new();
        union.merge(&sketch).expect("sound");
        assert_eq!(union.count(), estimate);
    }
}

/// Sizes, PFCOUNT and the digest of GET behind it.
#[test]
fn bytes_are_those_of_the_reference() {
    for (size, expected, digest) in [
        (10, 10, "e3e04df1a81a6ff6519b7fbb700d7061cc170f4c"),
        (100, 99, "4d1b3bef5d497d64c4202942021f568e478230c6"),
        (1000, 997, "600cc26e1c0791fccdb3cde0fabfa0c84550674a"),
        (1500, 1500, "e31c9dd1080de9d25485a8f50abe3730da1b9d27"),
        (5000, 5005, "53485147483a2d8ffe68eef8b23c4bbca046ca27"),
        (200000, 198321, "7f3b0a6039136b3dbabcf29d568cb873f3bc90d5"),
    ] {
        let mut sketch = sketch_of((0..size).map(|number| format!("element:{number}")));
        let estimate = count(&sketch).expect("sound");
        cache_count(&mut sketch, estimate);
        assert_eq!(estimate, expected);
        assert_eq!(sha1_smol::Sha1::from(&sketch).digest().to_string(), digest, "{size}");
    }
}

#[test]
fn strings_that_are_no_sketches_are_told_apart() {
    let dense_header = b"HYLL\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(encoding(b"HYLL"), None);
    assert_eq!(encoding(b"hyll\x01\0\0\0\0\0\0\0\0\0\0\0"), None);
    assert_eq!(encoding(b"HYLL\x02\0\0\0\0\0\0\0\0\0\0\0"), None);
    assert_eq!(encoding(dense_header), None);
    assert_eq!(encoding(&empty()), Some(Encoding::Sparse));
}

#[test]
fn runs_that_do_not_add_up_are_corrupted() {
    let mut short = empty();
    short.pop();
    assert_eq!(count(&short), Err(Corrupted));
    let mut long = empty();
    long.push(0);
    assert_eq!(count(&long), Err(Corrupted));
    assert_eq!(make_dense(&mut long), Err(Corrupted));
    assert_eq!(Union::new().merge(&long), Err(Corrupted));
    let mut surplus_value = empty();
    surplus_value.push(0x80);
    assert_eq!(Union::new().merge(&surplus_value), Err(Corrupted));
    let mut nothing = empty();
    nothing.truncate(HEADER);
    assert_eq!(add(&mut nothing, b"a", SPARSE_MAX), Err(Corrupted));
}

#[test]
fn impossible_registers_do_not_divide_by_zero() {
    let mut bytes = empty();
    make_dense(&mut bytes).expect("sound");
    bytes[HEADER..].fill(0xff);
    assert_eq!(count(&bytes), Ok(1 << 63));
}

#[test]
fn the_self_test_passes() {
    let mut state = 7u64;
    let random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 20
    };
    assert_eq!(self_test(random, SPARSE_MAX, 10_000), Ok(()));
}

proptest! {
    #[test]
    fn any_sparse_content_is_handled(
        content in prop::collection::vec(any::<u8>(), 0..64),
        elements in prop::collection::vec("[a-z]{0,4}", 1..20),
    ) {
        let mut bytes = empty();
        bytes.truncate(HEADER);
        bytes.extend_from_slice(&content);
        for element in elements {
            let _ = add(&mut bytes, element.as_bytes(), SPARSE_MAX);
        }
        let _ = count(&bytes);
        let _ = Union::new().merge(&bytes);
        describe_sparse(&bytes);
        let _ = make_dense(&mut bytes);
    }

    #[test]
    fn registers_match_a_plain_array(raises in prop::collection::vec((0..REGISTERS, 1u8..34), 0..400)) {
        let mut bytes = empty();
        let mut plain = vec![0u8; REGISTERS];
        for (index, rank) in raises {
            let changed = raise(&mut bytes, index, rank, 600).expect("sound");
            prop_assert_eq!(changed, rank > plain[index]);
            plain[index] = plain[index].max(rank);
        }
        make_dense(&mut bytes).expect("sound");
        prop_assert!(dense_registers(&bytes).eq(plain));
    }
}
