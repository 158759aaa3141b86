//! Double to text, with the bytes that C's `printf` gives.
//!
//! `%g` and `%f` round the exact binary value, ties to even, as Rust's exact formatting does;
//! what C adds is the choice of notation, the dropped zeros and the exponent's two digits.
//! Whole numbers, which most scores are, take a path that prints an integer.

use std::io::Write;

use super::extended::Extended;

/// Digits that tell any two doubles apart.
const ROUND_TRIP_DIGITS: usize = 17;

/// Whole numbers below this have at most seventeen digits.
const SHORT_INTEGER: f64 = 1e17;

/// The double as an integer, if it is one that Redis stores and prints as such: without a
/// fraction and within half the range of 64 bits.
pub(crate) fn integral(value: f64) -> Option<i64> {
    const BOUND: f64 = (i64::MAX / 2) as f64;
    if !(-BOUND..=BOUND).contains(&value) {
        return None;
    }
    let whole = value as i64;
    (whole as f64 == value).then_some(whole)
}

/// Appends a score as Redis writes it into values and logs: integers in full, otherwise
/// seventeen significant digits.
///
/// Replies use [`format_double_reply`], which differs for large whole numbers.
pub(crate) fn format_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    match integral(value) {
        Some(0) if value.is_sign_negative() => out.extend_from_slice(b"-0"),
        Some(whole) => write_integer(out, whole),
        None => format_g(out, value, ROUND_TRIP_DIGITS),
    }
}

/// Appends a double as a reply shows it, in RESP2 bulks and RESP3 doubles alike: seventeen
/// significant digits, so 1e17 and above in scientific notation.
pub(crate) fn format_double_reply(out: &mut Vec<u8>, value: f64) {
    format_g(out, value, ROUND_TRIP_DIGITS);
}

/// Appends a double as geo coordinates show it: through a long double, at most seventeen
/// decimals, never an exponent.
pub(crate) fn format_human(out: &mut Vec<u8>, value: f64) {
    Extended::from(value).write_human(out);
}

/// Appends what C's `%.{digits}g` prints; zero digits count as one.
pub(crate) fn format_g(out: &mut Vec<u8>, value: f64, digits: usize) {
    if write_non_finite(out, value) {
        return;
    }
    let digits = digits.max(1);
    let prints_whole = digits >= ROUND_TRIP_DIGITS && value.abs() < SHORT_INTEGER && value != 0.0;
    if prints_whole && let Some(whole) = integral(value) {
        write_integer(out, whole);
        return;
    }
    let start = out.len();
    write!(out, "{value:.*e}", digits - 1).expect("a vector takes every byte");
    let marker =
        start + memchr::memrchr(b'e', &out[start..]).expect("scientific notation has an exponent");
    let exponent: i32 = std::str::from_utf8(&out[marker + 1..])
        .ok()
        .and_then(|text| text.parse().ok())
        .expect("the exponent of a double is a small integer");
    out.truncate(marker);
    if exponent < -4 || exponent >= digits as i32 {
        drop_trailing_zeros(out, start);
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.unsigned_abs()).expect("a vector takes every byte");
        return;
    }
    place_point(out, start, exponent);
    drop_trailing_zeros(out, start);
}

/// Appends what C's `%.{decimals}f` prints.
pub(crate) fn format_f(out: &mut Vec<u8>, value: f64, decimals: usize) {
    if !write_non_finite(out, value) {
        write!(out, "{value:.decimals$}").expect("a vector takes every byte");
    }
}

/// Appends a double with a fixed number of decimals as Redis prints distances: scaled, rounded
/// to the nearest integer, ties to even, then the point is put in.
pub(crate) fn format_fixed(out: &mut Vec<u8>, value: f64, decimals: u32) {
    let scaled = (value * 10f64.powi(decimals as i32)).round_ties_even() as i64;
    if scaled < 0 {
        out.push(b'-');
    }
    let start = out.len();
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(scaled.unsigned_abs()).as_bytes();
    let decimals = decimals as usize;
    out.extend(std::iter::repeat_n(b'0', (decimals + 1).saturating_sub(digits.len())));
    out.extend_from_slice(digits);
    if decimals > 0 {
        let point = out.len() - decimals;
        debug_assert!(point > start, "a digit stands before the point");
        out.insert(point, b'.');
    }
}

fn write_integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// C spells the sign of a NaN; Redis' own infinities look the same.
fn write_non_finite(out: &mut Vec<u8>, value: f64) -> bool {
    if value.is_finite() {
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    out.extend_from_slice(if value.is_nan() { b"nan" } else { b"inf" });
    true
}

/// Turns `d.ddd` (perhaps signed) at `start` into plain notation for the exponent, which is at
/// least -4 and below the number of digits.
fn place_point(out: &mut Vec<u8>, start: usize, exponent: i32) {
    let first = start + usize::from(out[start] == b'-');
    if out.get(first + 1) == Some(&b'.') {
        out.remove(first + 1);
    }
    if exponent < 0 {
        let zeros = exponent.unsigned_abs() as usize;
        out.splice(first..first, b"0.".iter().copied().chain(std::iter::repeat_n(b'0', zeros - 1)));
        return;
    }
    let point = first + 1 + exponent as usize;
    if point < out.len() {
        out.insert(point, b'.');
    }
}

/// Cuts zeros at the end of a fraction, and the point if nothing is left of it.
fn drop_trailing_zeros(out: &mut Vec<u8>, start: usize) {
    if !out[start..].contains(&b'.') {
        return;
    }
    while out.last() == Some(&b'0') {
        out.pop();
    }
    if out.last() == Some(&b'.') {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn general_notation_is_that_of_c() {
        for (value, digits, expected) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.0, 17, "1"),
            (0.1, 17, "0.10000000000000001"),
            (3.24, 17, "3.2400000000000002"),
            (1e16, 17, "10000000000000000"),
            (1e17, 17, "1e+17"),
            (-123456789012345678.0, 17, "-1.2345678901234568e+17"),
            (1e-4, 17, "0.0001"),
            (1e-5, 17, "1.0000000000000001e-05"),
            (f64::MAX, 17, "1.7976931348623157e+308"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (123456.0, 6, "123456"),
            (1234567.0, 6, "1.23457e+06"),
            (0.5, 1, "0.5"),
            (2.5, 1, "2"),
            (3.5, 0, "4"),
            (9.99, 2, "10"),
            (100.0, 14, "100"),
            (f64::INFINITY, 17, "inf"),
            (f64::NEG_INFINITY, 17, "-inf"),
        ] {
            assert_eq!(text(|out| format_g(out, value, digits)), expected, "{value:e} {digits}");
        }
    }

    #[test]
    fn stored_scores_print_large_integers_in_full() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (-7.0, "-7"),
            (1e17, "100000000000000000"),
            (4611686018427387904.0, "4611686018427387904"),
            (4611686018427388928.0, "4.6116860184273889e+18"),
            (1e300, "1.0000000000000001e+300"),
            (1.5, "1.5"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(|out| format_f64(out, value)), expected);
        }
    }

    #[test]
    fn fixed_forms() {
        assert_eq!(text(|out| format_fixed(out, 166274.15156960033, 4)), "166274.1516");
        assert_eq!(text(|out| format_fixed(out, 0.0, 4)), "0.0000");
        assert_eq!(text(|out| format_fixed(out, 0.00005, 4)), "0.0000");
        assert_eq!(text(|out| format_fixed(out, -1.25, 4)), "-1.2500");
        assert_eq!(text(|out| format_f(out, 0.125, 2)), "0.12");
        assert_eq!(text(|out| format_f(out, 1.0, 17)), "1.00000000000000000");
        assert_eq!(text(|out| format_human(out, 13.361389338970184)), "13.36138933897018433");
    }

    proptest! {
        #[test]
        fn seventeen_digits_read_back(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let printed = text(|out| format_g(out, value, 17));
            prop_assert_eq!(printed.parse::<f64>().expect("a number"), value);
            let stored = text(|out| format_f64(out, value));
            prop_assert_eq!(stored.parse::<f64>().expect("a number"), value);
        }
    }
}
