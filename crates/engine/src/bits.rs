//! Strings as arrays of bits, the first bit being the highest of the first byte.
//!
//! Pure functions over bytes, without a keyspace: counting and searching within a range of
//! bits, and combining strings. The bulk of the work runs over eight bytes at a time.

mod field;

pub(crate) use field::{Field, Overflow};

const WORD: usize = size_of::<u64>();

/// A combination of several strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Combination {
    And,
    Or,
    Xor,
}

/// The bit at an offset; bits behind the end are zero.
pub(crate) fn get(bytes: &[u8], offset: u64) -> bool {
    let byte = usize::try_from(offset >> 3).ok().and_then(|index| bytes.get(index));
    byte.is_some_and(|byte| byte & mask_of(offset) != 0)
}

/// Sets the bit at an offset within the bytes and returns what it was.
pub(crate) fn replace(bytes: &mut [u8], offset: u64, on: bool) -> bool {
    let byte = &mut bytes[(offset >> 3) as usize];
    let was = *byte & mask_of(offset) != 0;
    if on {
        *byte |= mask_of(offset);
    } else {
        *byte &= !mask_of(offset);
    }
    was
}

fn mask_of(offset: u64) -> u8 {
    0x80 >> (offset & 7)
}

/// The number of ones from bit `first` to bit `last`, both within the bytes.
pub(crate) fn count_ones(bytes: &[u8], first: u64, last: u64) -> u64 {
    debug_assert!(first <= last && last >> 3 < bytes.len() as u64);
    let covered = &bytes[(first >> 3) as usize..=(last >> 3) as usize];
    let (words, rest) = covered.as_chunks::<WORD>();
    let mut total: u64 =
        words.iter().map(|word| u64::from(u64::from_ne_bytes(*word).count_ones())).sum();
    total += rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    let before = covered[0] & !head_mask(first);
    let after = covered[covered.len() - 1] & !tail_mask(last);
    total - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// The position of the first bit that is `wanted`, from bit `first` to bit `last`, both within
/// the bytes.
pub(crate) fn find(bytes: &[u8], wanted: bool, first: u64, last: u64) -> Option<u64> {
    debug_assert!(first <= last && last >> 3 < bytes.len() as u64);
    // Inverted if need be, so that a one is searched for.
    let flip = if wanted { 0 } else { 0xff };
    let (start, end) = ((first >> 3) as usize, (last >> 3) as usize);
    let mut head = (bytes[start] ^ flip) & head_mask(first);
    if start == end {
        head &= tail_mask(last);
    }
    let position = |index: usize, byte: u8| index as u64 * 8 + u64::from(byte.leading_zeros());
    if head != 0 {
        return Some(position(start, head));
    }
    if start == end {
        return None;
    }
    if let Some(index) = skip_uniform(&bytes[start + 1..end], flip) {
        let index = start + 1 + index;
        return Some(position(index, bytes[index] ^ flip));
    }
    let tail = (bytes[end] ^ flip) & tail_mask(last);
    (tail != 0).then(|| position(end, tail))
}

/// Index of the first byte that is not `filler`.
fn skip_uniform(bytes: &[u8], filler: u8) -> Option<usize> {
    let uniform = [filler; WORD];
    let (words, rest) = bytes.as_chunks::<WORD>();
    let skipped = words.iter().take_while(|word| **word == uniform).count();
    let tail = if skipped < words.len() { &words[skipped][..] } else { rest };
    tail.iter().position(|&byte| byte != filler).map(|index| skipped * WORD + index)
}

/// Keeps the bits of a byte from `offset` on.
fn head_mask(offset: u64) -> u8 {
    0xff >> (offset & 7)
}

/// Keeps the bits of a byte up to `offset`.
fn tail_mask(offset: u64) -> u8 {
    0xff << (7 - (offset & 7))
}

/// Combines strings bit by bit, shorter ones padded with zeros to the longest.
pub(crate) fn combine(combination: Combination, sources: &[&[u8]]) -> Vec<u8> {
    let longest = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let Some((first, others)) = sources.split_first() else { return Vec::new() };
    let mut result = Vec::with_capacity(longest);
    result.extend_from_slice(first);
    result.resize(longest, 0);
    for other in others {
        match combination {
            Combination::And => {
                merge(&mut result, other, |left, right| left & right);
                result[other.len()..].fill(0);
            }
            Combination::Or => merge(&mut result, other, |left, right| left | right),
            Combination::Xor => merge(&mut result, other, |left, right| left ^ right),
        }
    }
    result
}

/// Applies an operation over the common length; simple enough for the compiler to vectorize.
fn merge(result: &mut [u8], other: &[u8], operation: impl Fn(u8, u8) -> u8) {
    for (left, &right) in result.iter_mut().zip(other) {
        *left = operation(*left, right);
    }
}

/// All bits inverted.
pub(crate) fn invert(source: &[u8]) -> Vec<u8> {
    source.iter().map(|byte| !byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(bytes: &[u8]) -> Vec<bool> {
        (0..bytes.len() as u64 * 8).map(|offset| get(bytes, offset)).collect()
    }

    #[test]
    fn bits_count_from_the_highest() {
        assert!(get(&[0x80], 0));
        assert!(!get(&[0x80], 7));
        assert!(!get(&[0xff], 8));
        assert!(!get(&[0xff], u64::MAX));
        let mut bytes = [0, 0];
        assert!(!replace(&mut bytes, 9, true));
        assert_eq!(bytes, [0, 0x40]);
        assert!(replace(&mut bytes, 9, false));
    }

    #[test]
    fn combinations_pad_with_zeros() {
        let sources: [&[u8]; 2] = [&[0b1100, 0xff], &[0b1010]];
        assert_eq!(combine(Combination::And, &sources), [0b1000, 0]);
        assert_eq!(combine(Combination::Or, &sources), [0b1110, 0xff]);
        assert_eq!(combine(Combination::Xor, &sources), [0b0110, 0xff]);
        assert_eq!(combine(Combination::Or, &[b"", b""]), b"");
        assert_eq!(invert(&[0xf0]), [0x0f]);
    }

    proptest! {
        #[test]
        fn counting_and_searching_agree_with_single_bits(
            bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1..40),
            edges: (prop::sample::Index, prop::sample::Index),
            wanted: bool,
        ) {
            let bits = naive(&bytes);
            let (left, right) = (edges.0.index(bits.len()), edges.1.index(bits.len()));
            let (first, last) = (left.min(right), left.max(right));
            let ones = bits[first..=last].iter().filter(|&&bit| bit).count();
            prop_assert_eq!(count_ones(&bytes, first as u64, last as u64), ones as u64);
            let found = bits[first..=last].iter().position(|&bit| bit == wanted);
            let expected = found.map(|index| (first + index) as u64);
            prop_assert_eq!(find(&bytes, wanted, first as u64, last as u64), expected);
        }
    }
}
