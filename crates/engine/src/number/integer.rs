//! Whole numbers: the strict form that round-trips, C's lenient form, and memory sizes.
//!
//! The strict form decides whether a string value is stored as an integer, so it must accept
//! exactly the texts that printing the number gives back: no plus sign, no leading zero or
//! blank, no `-0`.

/// Digits that cannot overflow a `u64`, whatever they are.
const SAFE_DIGITS: usize = 19;

/// Longest strict text: a sign and nineteen digits.
const MAX_STRICT_BYTES: usize = 20;

/// Longest run of digits of a memory size.
const MAX_MEMORY_DIGITS: usize = 127;

/// Reads a signed 64-bit integer in its one canonical spelling.
pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    if text.len() > MAX_STRICT_BYTES {
        return None;
    }
    match text {
        [b'-', digits @ ..] => {
            let magnitude = canonical_digits(digits)?;
            // "-0" would not print back as itself.
            if magnitude == 0 {
                return None;
            }
            0i64.checked_sub_unsigned(magnitude)
        }
        digits => i64::try_from(canonical_digits(digits)?).ok(),
    }
}

/// Reads an unsigned integer as Redis does for stream identifiers: strictly if possible, else
/// by the rules of C's `strtoull` over the whole text.
///
/// The second chance admits leading blanks, a plus sign and leading zeros.
// Redis: 7.0 also lets `-05` through as 2^64 - 5, while the canonical `-5` is refused, and
// reads no further than a NUL byte.
pub(crate) fn parse_u64_lenient(text: &[u8]) -> Option<u64> {
    let text = until_nul(text);
    if let Some(value) = parse_i64(text) {
        return u64::try_from(value).ok();
    }
    let blanks = text.iter().take_while(|&&byte| is_space(byte)).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() {
        return None;
    }
    let value = checked_digits(digits)?;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// Reads the number at the beginning of a text, 0 if there is none, as C's `atoi` does in glibc: what 64
/// bits cannot hold is their largest or smallest number, of which 32 bits are kept.
pub(crate) fn atoi(text: &[u8]) -> i32 {
    let blanks = text.iter().take_while(|&&byte| is_space(byte)).count();
    let (negative, rest) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let magnitude = checked_digits(&rest[..digits]).unwrap_or(u64::MAX);
    let value = if negative {
        0i64.saturating_sub_unsigned(magnitude)
    } else {
        0i64.saturating_add_unsigned(magnitude)
    };
    value as i32
}

/// Reads a memory size such as `100`, `1k` (1000), `1kb` (1024), `2mb` or `1G`, in bytes.
// Redis: an empty run of digits is zero ("mb" is 0 bytes), too many digits saturate, and the
// product wraps.
pub(crate) fn parse_memory(text: &[u8]) -> Option<u64> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, unit) = text.split_at(length);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1000 * 1000,
        b"mb" => 1 << 20,
        b"g" => 1000 * 1000 * 1000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if digits.len() > MAX_MEMORY_DIGITS {
        return None;
    }
    Some(checked_digits(digits).unwrap_or(u64::MAX).wrapping_mul(factor))
}

/// The blanks that C's `isspace` knows.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The text as a C string would end it.
pub(super) fn until_nul(text: &[u8]) -> &[u8] {
    match memchr::memchr(0, text) {
        Some(end) => &text[..end],
        None => text,
    }
}

/// Digits without a superfluous zero in front.
fn canonical_digits(digits: &[u8]) -> Option<u64> {
    match digits {
        [] => None,
        [b'0'] => Some(0),
        [b'0', ..] => None,
        _ => checked_digits(digits),
    }
}

/// The value of a run of digits; `None` on another byte or on overflow.
fn checked_digits(digits: &[u8]) -> Option<u64> {
    let mut value = 0u64;
    if digits.len() <= SAFE_DIGITS {
        for &byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            value = value * 10 + u64::from(digit);
        }
        return Some(value);
    }
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_strict_form_accepts_only_what_prints_back() {
        for refused in [
            "",
            "-",
            "+1",
            "-0",
            "00",
            "01",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
            "0x1",
            "1\0",
        ] {
            assert_eq!(parse_i64(refused.as_bytes()), None, "{refused:?}");
        }
        assert_eq!(parse_i64(b"0"), Some(0));
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
    }

    #[test]
    fn the_lenient_form_follows_strtoull() {
        assert_eq!(parse_u64_lenient(b"  +007"), Some(7));
        assert_eq!(parse_u64_lenient(b"-5"), None);
        assert_eq!(parse_u64_lenient(b"-05"), Some(u64::MAX - 4));
        assert_eq!(parse_u64_lenient(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64_lenient(b"18446744073709551616"), None);
        assert_eq!(parse_u64_lenient(b"7\0x"), Some(7));
        for refused in ["", " ", "+", "7 ", "7x", "0x7"] {
            assert_eq!(parse_u64_lenient(refused.as_bytes()), None, "{refused:?}");
        }
    }

    #[test]
    fn the_loosest_form_takes_what_it_finds() {
        for (text, value) in
            [(" \t12x", 12), ("-3.5", -3), ("+7", 7), ("", 0), ("x", 0), ("- 1", 0)]
        {
            assert_eq!(atoi(text.as_bytes()), value, "{text:?}");
        }
        assert_eq!(atoi(b"4294967297"), 1);
        assert_eq!(atoi(b"9223372036854775808"), -1);
        assert_eq!(atoi(b"-9223372036854775809"), 0);
    }

    #[test]
    fn memory_sizes_know_both_kinds_of_units() {
        assert_eq!(parse_memory(b"100"), Some(100));
        assert_eq!(parse_memory(b"100B"), Some(100));
        assert_eq!(parse_memory(b"1k"), Some(1000));
        assert_eq!(parse_memory(b"1Kb"), Some(1024));
        assert_eq!(parse_memory(b"2mb"), Some(2 << 20));
        assert_eq!(parse_memory(b"1G"), Some(1_000_000_000));
        assert_eq!(parse_memory(b"1gb"), Some(1 << 30));
        assert_eq!(parse_memory(b"mb"), Some(0));
        assert_eq!(parse_memory(b"-1"), None);
        assert_eq!(parse_memory(b"1 mb"), None);
        assert_eq!(parse_memory(b"1tb"), None);
    }

    proptest! {
        #[test]
        fn every_integer_round_trips(value: i64) {
            prop_assert_eq!(parse_i64(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn whatever_is_accepted_prints_back(text in "[-+ 0-9]{0,22}") {
            if let Some(value) = parse_i64(text.as_bytes()) {
                prop_assert_eq!(value.to_string(), text);
            }
        }
    }
}
