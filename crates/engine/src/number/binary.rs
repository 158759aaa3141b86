//! Rounding an exact binary value to a float format, ties to even.
//!
//! Shared by hexadecimal literals, decimal conversion and extended addition: each of them
//! arrives at "these bits, times a power of two, and something more below", and only here is
//! it decided what fits.

/// A float format: how many bits, and which powers of two its lowest bit may stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    pub(super) precision: u32,
    pub(super) min_exponent: i64,
    pub(super) max_exponent: i64,
}

/// IEEE double: 53 bits.
pub(super) const DOUBLE: Format = Format { precision: 53, min_exponent: -1074, max_exponent: 971 };

/// x87 extended: 64 bits.
pub(super) const EXTENDED: Format =
    Format { precision: 64, min_exponent: -16445, max_exponent: 16320 };

/// The exact value `mantissa × 2^exponent`, plus a bit of it if `sticky`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exact {
    pub(super) mantissa: u128,
    pub(super) exponent: i64,
    pub(super) sticky: bool,
}

/// Result of rounding an exact value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounded {
    /// `mantissa × 2^exponent`; `inexact` if bits were lost. The top bit of the precision is
    /// set unless the exponent is the smallest one.
    Finite { mantissa: u64, exponent: i64, inexact: bool },
    /// Too large for the format.
    Overflow,
}

impl Exact {
    /// Hexadecimal digits around a point, times `2^exponent`.
    pub(super) fn from_hex(whole: &[u8], fraction: &[u8], exponent: i64) -> Self {
        let mut exact = Self { mantissa: 0, exponent, sticky: false };
        // A kept digit moves the point by its four bits, and so does a digit of the whole part
        // the other way: kept whole digits and dropped fraction digits leave it alone.
        for (digits, step) in [(whole, 4), (fraction, 0)] {
            for &byte in digits {
                let digit = match byte {
                    b'0'..=b'9' => byte - b'0',
                    _ => (byte | 0x20) - b'a' + 10,
                };
                if exact.mantissa >> 124 == 0 {
                    exact.mantissa = exact.mantissa << 4 | u128::from(digit);
                    exact.exponent += step - 4;
                } else {
                    exact.sticky |= digit != 0;
                    exact.exponent += step;
                }
            }
        }
        exact
    }

    /// The nearest value of the format.
    pub(super) fn round(self, format: Format) -> Rounded {
        let Self { mantissa, exponent, sticky } = self;
        if mantissa == 0 {
            return Rounded::Finite { mantissa: 0, exponent: format.min_exponent, inexact: sticky };
        }
        let bits = i64::from(128 - mantissa.leading_zeros());
        let wanted = bits - i64::from(format.precision);
        let drop = wanted.max(format.min_exponent.saturating_sub(exponent));
        let mut exponent = exponent.saturating_add(drop);
        if exponent > format.max_exponent {
            return Rounded::Overflow;
        }
        if drop <= 0 {
            // Exact, or so wide a shift that only a sticky bit of a narrow value is lost.
            let shifted = mantissa << drop.unsigned_abs();
            return Rounded::Finite { mantissa: shifted as u64, exponent, inexact: sticky };
        }
        let (kept, rest, half) = match drop {
            ..128 => {
                let rest = mantissa & ((1 << drop) - 1);
                (mantissa >> drop, rest, 1u128 << (drop - 1))
            }
            // All of it is below the lowest bit; at exactly 128 it may be half of it.
            128 => (0, mantissa, 1u128 << 127),
            _ => (0, 1, 2),
        };
        let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
        let mut kept = kept + u128::from(up);
        if kept >> format.precision != 0 {
            kept >>= 1;
            exponent += 1;
            if exponent > format.max_exponent {
                return Rounded::Overflow;
            }
        }
        Rounded::Finite { mantissa: kept as u64, exponent, inexact: rest != 0 || sticky }
    }
}
