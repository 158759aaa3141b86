//! Text to double, by C's rules.
//!
//! Redis refuses what `strtod` merely tolerates (blanks in front, bytes behind, overflow, a
//! vanished value, NaN) where it wants a number from a client, but calls `strtod` bare in a few
//! places (score ranges, SORT); both forms are here. Rust's correctly rounding parser does the
//! decimal work, once the text is known to be a C literal.

use super::binary::{DOUBLE, Exact, Rounded};
use super::integer::{is_space, until_nul};
use super::literal::{Literal, scan};

/// What C's `strtod` makes of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Strtod {
    /// The value; zero if the text does not start with a number.
    pub(crate) value: f64,
    /// Bytes used, leading blanks included; zero if there was no number.
    pub(crate) end: usize,
    /// Whether C would report a range error: overflow, or an inexact value too near to zero.
    pub(crate) out_of_range: bool,
}

/// Reads a number from the start of `text`, as C's `strtod` does.
pub(crate) fn strtod(text: &[u8]) -> Strtod {
    let Some(scanned) = scan(text) else {
        return Strtod { value: 0.0, end: 0, out_of_range: false };
    };
    let (magnitude, out_of_range) = match scanned.literal {
        Literal::Infinity => (f64::INFINITY, false),
        Literal::NotANumber => (f64::NAN, false),
        Literal::Decimal { whole, fraction, text, .. } => decimal(whole, fraction, text),
        Literal::Hex { whole, fraction, exponent } => hex(whole, fraction, exponent),
    };
    let value = if scanned.negative { -magnitude } else { magnitude };
    Strtod { value, end: scanned.end, out_of_range }
}

/// Reads a double that a client gave as a number: all of the text, infinities in words allowed,
/// no blanks, no NaN, and neither overflow nor a value that vanishes.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    if text.first().is_none_or(|&first| is_space(first)) {
        return None;
    }
    let Strtod { value, end, out_of_range } = strtod(text);
    let lost = out_of_range && (value.is_infinite() || value == 0.0);
    (end == text.len() && !lost && !value.is_nan()).then_some(value)
}

/// Reads a double where Redis only asks that `strtod` reach the end of the C string: blanks in
/// front are fine, the empty text is zero, overflow is infinite; NaN is refused.
pub(crate) fn parse_f64_lenient(text: &[u8]) -> Option<f64> {
    let text = until_nul(text);
    let Strtod { value, end, .. } = strtod(text);
    (end == text.len() && !value.is_nan()).then_some(value)
}

fn decimal(whole: &[u8], fraction: &[u8], text: &[u8]) -> (f64, bool) {
    let value: f64 = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .expect("the scanner admits only ASCII that Rust's grammar contains");
    if value.is_normal() {
        return (value, false);
    }
    let is_zero = whole.iter().chain(fraction).all(|&digit| digit == b'0');
    // A denormal is exact only with some thousand digits; those count as inexact, too.
    (value, !is_zero)
}

fn hex(whole: &[u8], fraction: &[u8], exponent: i64) -> (f64, bool) {
    match Exact::from_hex(whole, fraction, exponent).round(DOUBLE) {
        Rounded::Overflow => (f64::INFINITY, true),
        Rounded::Finite { mantissa, exponent, inexact } => {
            let implicit = 1u64 << 52;
            if mantissa & implicit == 0 {
                return (f64::from_bits(mantissa), inexact);
            }
            let biased = (exponent - DOUBLE.min_exponent + 1) as u64;
            (f64::from_bits(biased << 52 | (mantissa & (implicit - 1))), false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn client_numbers_are_strict() {
        assert_eq!(parse_f64(b"1.5"), Some(1.5));
        assert_eq!(parse_f64(b"+1.5e1"), Some(15.0));
        assert_eq!(parse_f64(b".5"), Some(0.5));
        assert_eq!(parse_f64(b"5."), Some(5.0));
        assert_eq!(parse_f64(b"-INF"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_f64(b"+infinity"), Some(f64::INFINITY));
        assert_eq!(parse_f64(b"4e-320"), Some(4e-320));
        assert_eq!(parse_f64(b"0e-999"), Some(0.0));
        for refused in [
            "",
            " 1",
            "1 ",
            "nan",
            "-nan",
            "1e",
            "1e400",
            "-1e400",
            "1e-400",
            "1_0",
            "1\0",
            "abc",
            ".",
            "infin",
            "0x",
            "0x1p-2000",
        ] {
            assert_eq!(parse_f64(refused.as_bytes()), None, "{refused:?}");
        }
    }

    #[test]
    fn hexadecimal_literals_are_exact() {
        assert_eq!(parse_f64(b"0x10"), Some(16.0));
        assert_eq!(parse_f64(b"-0X1.8P+1"), Some(-3.0));
        assert_eq!(parse_f64(b"0x.8"), Some(0.5));
        assert_eq!(parse_f64(b"0x1p-1074"), Some(f64::from_bits(1)));
        assert_eq!(parse_f64(b"0x1p-1022"), Some(f64::MIN_POSITIVE));
        assert_eq!(parse_f64(b"0x1.fffffffffffffp1023"), Some(f64::MAX));
        assert_eq!(parse_f64(b"0x1.fffffffffffff8p1023"), None);
        // Ties go to even; anything below the tie breaks it.
        assert_eq!(parse_f64(b"0x20000000000001"), Some(9007199254740992.0));
        assert_eq!(parse_f64(b"0x20000000000001.0001"), Some(9007199254740994.0));
        let long = format!("0x1{}p-400", "0".repeat(100));
        assert_eq!(parse_f64(long.as_bytes()), Some(1.0));
        let tiny = format!("0x0.{}1p404", "0".repeat(100));
        assert_eq!(parse_f64(tiny.as_bytes()), Some(1.0));
    }

    #[test]
    fn range_bounds_are_lenient() {
        assert_eq!(parse_f64_lenient(b""), Some(0.0));
        assert_eq!(parse_f64_lenient(b"  7"), Some(7.0));
        assert_eq!(parse_f64_lenient(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_f64_lenient(b"7\0x"), Some(7.0));
        assert_eq!(parse_f64_lenient(b"7x"), None);
        assert_eq!(parse_f64_lenient(b"nan"), None);
    }

    proptest! {
        #[test]
        fn every_double_round_trips(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(parse_f64(format!("{value:e}").as_bytes()), Some(value));
        }

        #[test]
        fn no_text_panics(text in "[-+ 0-9a-fxpinftyINFEX.()\\x00]{0,24}") {
            let _ = parse_f64_lenient(text.as_bytes());
            let _ = parse_f64(text.as_bytes());
        }
    }
}
