//! The syntax of a floating-point literal, as C's `strtod` scans it.
//!
//! Scanning is apart from conversion because doubles and extended floats share the grammar:
//! blanks, sign, then `inf`, `infinity`, `nan`, a decimal or a hexadecimal number. Like C, the
//! scanner takes the longest prefix that is a number and reports where it ended.

use super::integer::is_space;

/// Exponents beyond this are all alike: the result overflows or vanishes.
const EXPONENT_BOUND: i64 = 1 << 40;

/// What the text spells, without its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    Infinity,
    NotANumber,
    /// `digits` (whole part, then fraction) times ten to the `exponent`.
    Decimal {
        whole: &'a [u8],
        fraction: &'a [u8],
        exponent: i64,
        /// The literal itself, which Rust's own parser understands.
        text: &'a [u8],
    },
    /// Hexadecimal digits around the point, times two to the `exponent`.
    Hex {
        whole: &'a [u8],
        fraction: &'a [u8],
        exponent: i64,
    },
}

/// A literal found at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Scanned<'a> {
    pub(super) negative: bool,
    pub(super) literal: Literal<'a>,
    /// Bytes taken, blanks and sign included.
    pub(super) end: usize,
}

/// Finds the longest literal at the start of `text`; `None` if there is none.
pub(super) fn scan(text: &[u8]) -> Option<Scanned<'_>> {
    let mut start = text.iter().take_while(|&&byte| is_space(byte)).count();
    let negative = match text.get(start) {
        Some(b'-') => true,
        Some(b'+') => false,
        _ => {
            let (literal, length) = unsigned(&text[start..])?;
            return Some(Scanned { negative: false, literal, end: start + length });
        }
    };
    start += 1;
    let (literal, length) = unsigned(&text[start..])?;
    Some(Scanned { negative, literal, end: start + length })
}

fn unsigned(text: &[u8]) -> Option<(Literal<'_>, usize)> {
    match text.first()? {
        b'0'..=b'9' | b'.' => hex(text).or_else(|| decimal(text)),
        b'i' | b'I' if has_word(text, b"infinity") => Some((Literal::Infinity, 8)),
        b'i' | b'I' if has_word(text, b"inf") => Some((Literal::Infinity, 3)),
        b'n' | b'N' if has_word(text, b"nan") => Some((Literal::NotANumber, nan_length(text))),
        _ => None,
    }
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// `nan` may carry a payload in parentheses.
fn nan_length(text: &[u8]) -> usize {
    let Some([b'(', payload @ ..]) = text.get(3..) else { return 3 };
    let length =
        payload.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    if payload.get(length) == Some(&b')') { length + 5 } else { 3 }
}

fn decimal(text: &[u8]) -> Option<(Literal<'_>, usize)> {
    let (whole, fraction, mut end) = digits(text, 0, u8::is_ascii_digit)?;
    let (exponent, length) = exponent(&text[end..], b'e');
    end += length;
    Some((Literal::Decimal { whole, fraction, exponent, text: &text[..end] }, end))
}

fn hex(text: &[u8]) -> Option<(Literal<'_>, usize)> {
    if !has_word(text, b"0x") {
        return None;
    }
    let (whole, fraction, mut end) = digits(text, 2, u8::is_ascii_hexdigit)?;
    let (exponent, length) = exponent(&text[end..], b'p');
    end += length;
    Some((Literal::Hex { whole, fraction, exponent }, end))
}

/// Digits with at most one point among them, at least one digit in all.
fn digits(text: &[u8], start: usize, is_digit: fn(&u8) -> bool) -> Option<(&[u8], &[u8], usize)> {
    let rest = &text[start..];
    let (whole, rest) = rest.split_at(rest.iter().take_while(|byte| is_digit(byte)).count());
    let mut end = start + whole.len();
    let mut fraction: &[u8] = &[];
    if let [b'.', rest @ ..] = rest {
        fraction = &rest[..rest.iter().take_while(|byte| is_digit(byte)).count()];
        end += 1 + fraction.len();
    }
    (!whole.is_empty() || !fraction.is_empty()).then_some((whole, fraction, end))
}

/// The exponent and its length; both zero unless a digit follows the marker.
fn exponent(text: &[u8], marker: u8) -> (i64, usize) {
    let [first, rest @ ..] = text else { return (0, 0) };
    if first.to_ascii_lowercase() != marker {
        return (0, 0);
    }
    let (negative, digits, skipped) = match rest {
        [b'-', rest @ ..] => (true, rest, 2),
        [b'+', rest @ ..] => (false, rest, 2),
        _ => (false, rest, 1),
    };
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return (0, 0);
    }
    let mut value = 0i64;
    for &byte in &digits[..length] {
        value = (value * 10 + i64::from(byte - b'0')).min(EXPONENT_BOUND);
    }
    (if negative { -value } else { value }, skipped + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> Option<usize> {
        scan(text.as_bytes()).map(|scanned| scanned.end)
    }

    #[test]
    fn the_longest_prefix_wins() {
        assert_eq!(end("1.5e3x"), Some(5));
        assert_eq!(end("1e"), Some(1));
        assert_eq!(end("1e+"), Some(1));
        assert_eq!(end(" \t-.5"), Some(5));
        assert_eq!(end("5."), Some(2));
        assert_eq!(end("0x"), Some(1));
        assert_eq!(end("0x.p1"), Some(1));
        assert_eq!(end("0x1.8p1"), Some(7));
        assert_eq!(end("infinit"), Some(3));
        assert_eq!(end("INFINITY"), Some(8));
        assert_eq!(end("nan(a_1)"), Some(8));
        assert_eq!(end("nan(a"), Some(3));
        for none in ["", ".", "-", "+.", "e5", "x", "--1"] {
            assert_eq!(end(none), None, "{none:?}");
        }
    }
}
