//! The 80-bit float of the x87, in software.
//!
//! Redis computes INCRBYFLOAT and HINCRBYFLOAT, and prints coordinates, in C's `long double`.
//! With 64 bits of mantissa, 0.1 + 0.2 prints as 0.3 at seventeen decimals, where a double
//! would show its error; a client may have such replies in its tests, and a log replayed on
//! another machine must not differ. So the format is part of the behaviour, and here it is:
//!
//! ```text
//! value = (-1)^negative × mantissa × 2^exponent      -16445 ≤ exponent ≤ 16320
//! Invariant: the top bit of the mantissa is set, unless the exponent is the smallest.
//! ```
//!
//! Reading is correctly rounded, addition rounds once, both with ties to even. Only what the
//! commands need exists: read, add, print.

use super::big::Big;
use super::binary::{EXTENDED, Exact, Rounded};
use super::integer::is_space;
use super::literal::{Literal, scan};

/// Longest text Redis reads as a long double.
const MAX_TEXT_BYTES: usize = 5 * 1024 - 1;

/// Decimal magnitudes beyond these overflow or vanish for certain.
const MAX_DECIMAL_POINT: i64 = 4940;
const MIN_DECIMAL_POINT: i64 = -4970;

/// Digits after the point when printed.
const PRINTED_DIGITS: u32 = 17;

/// Bits of quotient that division computes: the precision, a half bit, and some to spare.
const QUOTIENT_BITS: u32 = 68;

/// A long double.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extended {
    negative: bool,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Finite { mantissa: u64, exponent: i64 },
    Infinite,
    NotANumber,
}

impl Extended {
    /// Zero, the value of a key that does not exist.
    pub(crate) const ZERO: Self = Self {
        negative: false,
        kind: Kind::Finite { mantissa: 0, exponent: EXTENDED.min_exponent },
    };

    /// Reads a client's number: all of the text, infinities in words allowed, no blanks, no
    /// NaN, and neither overflow nor a value that vanishes.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES || text.first().is_none_or(|&first| is_space(first)) {
            return None;
        }
        let scanned = scan(text)?;
        if scanned.end != text.len() {
            return None;
        }
        let kind = match scanned.literal {
            Literal::Infinity => Kind::Infinite,
            Literal::NotANumber => return None,
            Literal::Decimal { whole, fraction, exponent, .. } => {
                decimal(whole, fraction, exponent)?
            }
            Literal::Hex { whole, fraction, exponent } => {
                let exact = Exact::from_hex(whole, fraction, exponent);
                nonzero(Kind::from(exact.round(EXTENDED)), exact.mantissa == 0)?
            }
        };
        Some(Self { negative: scanned.negative, kind })
    }

    /// Whether the value is neither infinite nor NaN.
    pub(crate) fn is_finite(self) -> bool {
        matches!(self.kind, Kind::Finite { .. })
    }

    /// Appends the value with at most seventeen decimals, without trailing zeros and without an
    /// exponent, however large.
    pub(crate) fn write_human(self, out: &mut Vec<u8>) {
        let (mantissa, exponent) = match self.kind {
            Kind::Finite { mantissa, exponent } => (mantissa, exponent),
            Kind::Infinite => {
                out.extend_from_slice(if self.negative { b"-inf" } else { b"inf" });
                return;
            }
            Kind::NotANumber => {
                out.extend_from_slice(if self.negative { b"-nan" } else { b"nan" });
                return;
            }
        };
        let start = out.len();
        if self.negative {
            out.push(b'-');
        }
        if exponent >= 0 {
            let mut big = Big::from_u64(mantissa);
            big.shift_left(exponent.unsigned_abs());
            big.write_decimal(out);
            return;
        }
        write_fraction(mantissa, exponent.unsigned_abs(), out);
        // What rounds to zero prints without a sign.
        if &out[start..] == b"-0" {
            out.remove(start);
        }
    }
}

impl From<i64> for Extended {
    fn from(value: i64) -> Self {
        let exact = Exact { mantissa: value.unsigned_abs().into(), exponent: 0, sticky: false };
        Self { negative: value < 0, kind: exact.round(EXTENDED).into() }
    }
}

impl From<f64> for Extended {
    fn from(value: f64) -> Self {
        let negative = value.is_sign_negative();
        if value.is_nan() {
            return Self { negative, kind: Kind::NotANumber };
        }
        if value.is_infinite() {
            return Self { negative, kind: Kind::Infinite };
        }
        let bits = value.to_bits();
        let biased = (bits >> 52 & 0x7ff) as i64;
        let fraction = bits & ((1 << 52) - 1);
        let (mantissa, exponent) = match biased {
            0 => (fraction, -1074),
            _ => (fraction | 1 << 52, biased - 1075),
        };
        let exact = Exact { mantissa: mantissa.into(), exponent, sticky: false };
        Self { negative, kind: exact.round(EXTENDED).into() }
    }
}

impl std::ops::Add for Extended {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (left, right) = match (self.kind, other.kind) {
            (Kind::NotANumber, _) => return self,
            (_, Kind::NotANumber) => return other,
            (Kind::Infinite, Kind::Infinite) if self.negative != other.negative => {
                return Self { negative: true, kind: Kind::NotANumber };
            }
            (Kind::Infinite, _) => return self,
            (_, Kind::Infinite) => return other,
            (
                Kind::Finite { mantissa: left, exponent: high },
                Kind::Finite { mantissa: right, exponent: low },
            ) => ((high, left), (low, right)),
        };
        // Normalized mantissas compare like their values, exponent first.
        let (larger, smaller, negative) = match left.cmp(&right) {
            std::cmp::Ordering::Less => (right, left, other.negative),
            _ => (left, right, self.negative),
        };
        // 62 bits of room below make the jammed bit of the smaller one harmless.
        let wide = u128::from(larger.1) << 62;
        let distance = larger.0 - smaller.0;
        let narrow = shift_right_jamming(u128::from(smaller.1) << 62, distance);
        let mantissa = if self.negative == other.negative { wide + narrow } else { wide - narrow };
        let exact = Exact { mantissa, exponent: larger.0 - 62, sticky: false };
        let negative = if mantissa == 0 { self.negative && other.negative } else { negative };
        Self { negative, kind: exact.round(EXTENDED).into() }
    }
}

impl From<Rounded> for Kind {
    fn from(rounded: Rounded) -> Self {
        match rounded {
            Rounded::Finite { mantissa, exponent, .. } => Self::Finite { mantissa, exponent },
            Rounded::Overflow => Self::Infinite,
        }
    }
}

/// Refuses what left the range: infinite, or zero although the text was not.
fn nonzero(kind: Kind, text_is_zero: bool) -> Option<Kind> {
    match kind {
        Kind::Finite { mantissa: 0, .. } if !text_is_zero => None,
        Kind::Infinite => None,
        _ => Some(kind),
    }
}

/// Shifts right; bits that fall off leave the lowest bit set.
fn shift_right_jamming(value: u128, distance: i64) -> u128 {
    match distance {
        0 => value,
        1..128 => value >> distance | u128::from(value & ((1 << distance) - 1) != 0),
        _ => u128::from(value != 0),
    }
}

/// Rounds decimal digits times a power of ten.
fn decimal(whole: &[u8], fraction: &[u8], exponent: i64) -> Option<Kind> {
    let is_zero = |digit: &&u8| **digit == b'0';
    let digits = || whole.iter().chain(fraction).skip_while(is_zero);
    let count = digits().count();
    if count == 0 {
        return Some(Extended::ZERO.kind);
    }
    let trailing = whole.iter().chain(fraction).rev().take_while(is_zero).count();
    let significant = count - trailing;
    let power = exponent - fraction.len() as i64 + trailing as i64;
    if !(MIN_DECIMAL_POINT..=MAX_DECIMAL_POINT).contains(&(power + significant as i64)) {
        return None;
    }
    let exact = match short_decimal(digits().take(significant), significant, power) {
        Some(exact) => exact,
        None => {
            let numerator = Big::from_digits(digits().take(significant));
            if power >= 0 { product(numerator, power) } else { quotient(numerator, power) }
        }
    };
    nonzero(exact.round(EXTENDED).into(), false)
}

/// Digits and powers that fit machine words, as nearly all do.
fn short_decimal<'a>(
    digits: impl Iterator<Item = &'a u8>,
    count: usize,
    power: i64,
) -> Option<Exact> {
    if count > 19 || !(-18..=19).contains(&power) {
        return None;
    }
    let value = digits.fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    let scale = 10u64.pow(power.unsigned_abs() as u32);
    if power >= 0 {
        let mantissa = u128::from(value) * u128::from(scale);
        return Some(Exact { mantissa, exponent: 0, sticky: false });
    }
    // The quotient of a 128-bit numerator by less than 2^60 keeps more bits than the format.
    let shift = u128::from(value).leading_zeros();
    let numerator = u128::from(value) << shift;
    let scale = u128::from(scale);
    Some(Exact {
        mantissa: numerator / scale,
        exponent: -i64::from(shift),
        sticky: numerator % scale != 0,
    })
}

fn product(mut number: Big, power: i64) -> Exact {
    number.mul_pow5(power.unsigned_abs());
    let (mantissa, exponent, sticky) = number.top();
    Exact { mantissa, exponent: exponent + power, sticky }
}

fn quotient(mut numerator: Big, power: i64) -> Exact {
    let mut divisor = Big::from_u64(1);
    divisor.mul_pow5(power.unsigned_abs());
    let (above, below) = (numerator.bits(), divisor.bits());
    numerator.shift_left(below.saturating_sub(above));
    divisor.shift_left(above.saturating_sub(below));
    let mut mantissa = 0u128;
    for _ in 0..QUOTIENT_BITS {
        mantissa <<= 1;
        if numerator >= divisor {
            numerator.subtract(&divisor);
            mantissa |= 1;
        }
        numerator.shift_left(1);
    }
    let exponent = above as i64 - below as i64 - i64::from(QUOTIENT_BITS - 1) + power;
    Exact { mantissa, exponent, sticky: !numerator.is_zero() }
}

/// Prints `mantissa / 2^shift`, rounded at the last printed digit.
fn write_fraction(mantissa: u64, shift: u64, out: &mut Vec<u8>) {
    const SCALE: u128 = 10u128.pow(PRINTED_DIGITS);
    let (mut whole, below) = match shift {
        ..64 => (mantissa >> shift, mantissa & ((1 << shift) - 1)),
        _ => (0, mantissa),
    };
    // Below 2^64 times 10^17 is less than 2^121.
    let scaled = u128::from(below) * SCALE;
    let mut fraction = 0;
    if shift < 124 {
        let rest = scaled & ((1 << shift) - 1);
        let half = 1 << (shift - 1);
        fraction = scaled >> shift;
        fraction += u128::from(rest > half || (rest == half && fraction & 1 == 1));
    }
    if fraction == SCALE {
        // Only a value below one half of 2^64 has a fraction: no overflow.
        whole += 1;
        fraction = 0;
    }
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(whole).as_bytes());
    if fraction == 0 {
        return;
    }
    out.push(b'.');
    let digits = buffer.format(fraction).as_bytes();
    out.extend(std::iter::repeat_n(b'0', PRINTED_DIGITS as usize - digits.len()));
    let kept = digits.len() - digits.iter().rev().take_while(|&&digit| digit == b'0').count();
    out.extend_from_slice(&digits[..kept]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn human(value: Extended) -> String {
        let mut out = Vec::new();
        value.write_human(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    fn sum(left: &str, right: &str) -> String {
        let read = |text: &str| Extended::parse(text.as_bytes()).expect("a number");
        human(read(left) + read(right))
    }

    /// Replies of redis-server 7.0.15 on x86-64.
    #[test]
    fn sums_print_as_the_reference_prints_them() {
        for (left, right, expected) in [
            ("0.1", "0.2", "0.3"),
            ("3", "1.1", "4.1"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("1", "-1", "0"),
            ("-1e-30", "0", "0"),
            ("1.5", "+1", "2.5"),
            ("17179869184", "1", "17179869185"),
            ("999999999999999999", "0.5", "999999999999999999.5"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("1e20", "1e-5", "100000000000000000000"),
            ("1e18", "0.3", "1000000000000000000.3125"),
            ("0x1.8p3", "0x.8", "12.5"),
            ("0.30000000000000004", "0", "0.30000000000000004"),
            ("3.141592653589793238462643383279", "0", "3.14159265358979324"),
            ("-2.5", "0.00000000000000001", "-2.49999999999999999"),
            ("0.000000000000000005", "0", "0"),
            ("0.000000000000000015", "0", "0.00000000000000002"),
            ("0.9999999999999999999999", "0", "1"),
            ("0.99999999999999999", "0.00000000000000001", "1"),
            ("1e30", "-1e30", "0"),
            ("123456789012345678901234567890", "1", "123456789012345678899921813504"),
            ("1e-4940", "0", "0"),
            ("4e-20", "-1", "-1"),
            ("1e40", "1e39", "11000000000000000000293320930820116971520"),
            ("5e-324", "5e-18", "0"),
        ] {
            assert_eq!(sum(left, right), expected, "{left} + {right}");
        }
    }

    #[test]
    fn texts_out_of_range_are_refused() {
        let long = "1".repeat(MAX_TEXT_BYTES + 1);
        for refused in [
            "",
            " 1",
            "1 ",
            "nan",
            "1e4933",
            "-1e4933",
            "1e-4970",
            "1e99999999999999999999",
            "1e-99999999999999999999",
            "0x1p16384",
            "0x1p-16447",
            "1e",
            "abc",
            &long,
        ] {
            assert_eq!(Extended::parse(refused.as_bytes()), None, "{refused:.20}");
        }
        for accepted in ["1e4932", "1e-4950", "0x1p-16445", "0e99999", "inf", "-Infinity", "0x1p5"]
        {
            assert!(Extended::parse(accepted.as_bytes()).is_some(), "{accepted}");
        }
    }

    #[test]
    fn infinities_are_not_sums() {
        let read = |text: &[u8]| Extended::parse(text).expect("a number");
        assert!(!(read(b"inf") + read(b"1")).is_finite());
        assert!(!(read(b"inf") + read(b"-inf")).is_finite());
        assert!((read(b"1e4932") + read(b"1e4931")).is_finite());
        assert!(!(read(b"1e4932") + read(b"1e4932")).is_finite());
    }

    proptest! {
        #[test]
        fn integers_add_exactly(left in -(1i64 << 62)..1 << 62, right in -(1i64 << 62)..1 << 62) {
            let total = Extended::from(left) + Extended::from(right);
            prop_assert_eq!(human(total), (left + right).to_string());
        }

        #[test]
        fn long_and_short_conversion_agree(value: u64, power in -18i64..=19) {
            let text = value.to_string();
            let digits = text.trim_end_matches('0');
            prop_assume!(!digits.is_empty() && digits.len() <= 19);
            let short = short_decimal(digits.as_bytes().iter(), digits.len(), power)
                .expect("in the short range");
            let number = Big::from_digits(digits.as_bytes().iter());
            let long =
                if power >= 0 { product(number, power) } else { quotient(number, power) };
            prop_assert_eq!(short.round(EXTENDED), long.round(EXTENDED));
        }

        #[test]
        fn addition_commutes(left: f64, right: f64) {
            let (left, right) = (Extended::from(left), Extended::from(right));
            prop_assert_eq!(left + right, right + left);
        }

        #[test]
        fn no_text_panics(text in "[-+]?[0-9]{0,30}[.]?[0-9]{0,30}([eEpP][-+]?[0-9]{1,5})?") {
            if let Some(value) = Extended::parse(text.as_bytes()) {
                human(value + value);
            }
        }
    }
}
