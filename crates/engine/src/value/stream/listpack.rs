//! How many bytes Redis would need: sizes in its listpack encoding.
//!
//! Redis closes a stream node when its listpack passes `stream-node-max-bytes`, and approximate
//! trimming removes whole nodes. To trim alike we must break nodes at the same entries, so each
//! of our nodes counts the bytes that its listpack would have, although it stores the entries
//! more tightly.
//!
//! An element is a type-and-length prefix, its bytes, and its own length again for walking
//! backwards. Text that is the canonical form of a 64-bit integer is stored as that integer.

use crate::number::parse_i64;

/// Header (total bytes, element count) and end mark.
pub(super) const FRAME_BYTES: usize = 7;

/// Bytes of an integer element.
pub(super) fn integer_bytes(value: i64) -> usize {
    let encoded = match value {
        0..=127 => 1,
        -4096..=4095 => 2,
        -32_768..=32_767 => 3,
        -8_388_608..=8_388_607 => 4,
        -2_147_483_648..=2_147_483_647 => 5,
        _ => 9,
    };
    encoded + 1
}

/// Bytes of a text element.
pub(super) fn text_bytes(text: &[u8]) -> usize {
    if let Some(value) = parse_i64(text) {
        return integer_bytes(value);
    }
    let encoded = match text.len() {
        len @ 0..64 => 1 + len,
        len @ 64..4096 => 2 + len,
        len => 5 + len,
    };
    encoded + back_length_bytes(encoded)
}

fn back_length_bytes(encoded: usize) -> usize {
    match encoded {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_prefix_and_back_length() {
        assert_eq!(integer_bytes(127), 2);
        assert_eq!(integer_bytes(128), 3);
        assert_eq!(integer_bytes(i64::MIN), 10);
        assert_eq!(text_bytes(b"12"), 2);
        assert_eq!(text_bytes(b"field"), 7);
        assert_eq!(text_bytes(&[b'x'; 64]), 67);
        assert_eq!(text_bytes(&[b'x'; 200]), 204);
        assert_eq!(text_bytes(&[b'x'; 5000]), 5007);
    }
}
