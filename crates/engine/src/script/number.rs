//! Numbers as C and Lua write and cut them.
//!
//! Scripts see C's `%.14g` and `%.17g` in many places: arguments of
//! `redis.call`, `cjson.encode`, keys of objects; most of the numbers are whole
//! and small. The generator behind `math.random` is here too: scripts expect the
//! same sequence as with Redis, whatever the platform.

use crate::number::format_g;

/// Appends `value` as C's `%.{precision}g` writes it; `precision` is 1 to 17.
pub(crate) fn push_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    if let Some(whole) = small_whole(value, precision) {
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(whole).as_bytes());
    } else {
        format_g(out, value, precision);
    }
}

/// The value as an integer, where its digits are certain to be written plainly.
fn small_whole(value: f64, precision: usize) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let limit = 10f64.powi(precision as i32).min(EXACT);
    let plain = value.trunc() == value && value.abs() < limit;
    let minus_zero = value == 0.0 && value.is_sign_negative();
    (plain && !minus_zero).then_some(value as i64)
}

/// A double cut to an integer as x86 does it: what does not fit is the minimum.
pub(crate) fn to_i64(value: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&value) { value as i64 } else { i64::MIN }
}

/// The 48-bit linear generator of `lrand48`, with its well-known constants.
#[derive(Debug, Clone)]
pub(crate) struct Lrand48(u64);

impl Lrand48 {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const INCREMENT: u64 = 0xB;
    const MASK: u64 = (1 << 48) - 1;

    /// The state that a generator without a seed starts from.
    pub(crate) fn new() -> Self {
        Lrand48(0x1234_ABCD_330E)
    }

    /// Starts the sequence of `seed`.
    pub(crate) fn seed(&mut self, seed: i32) {
        self.0 = (u64::from(seed as u32) << 16) | 0x330E;
    }

    /// The next 31 bits as a fraction from 0 (included) to 1 (excluded).
    pub(crate) fn fraction(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(Self::MULTIPLIER).wrapping_add(Self::INCREMENT) & Self::MASK;
        let bits = (self.0 >> 17) as i32;
        f64::from(bits % i32::MAX) / f64::from(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn general(value: f64, precision: usize) -> String {
        let mut out = Vec::new();
        push_general(&mut out, value, precision);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn writes_like_printf() {
        assert_eq!(general(3.0, 17), "3");
        assert_eq!(general(0.1, 17), "0.10000000000000001");
        assert_eq!(general(0.1, 14), "0.1");
        assert_eq!(general(1e15, 14), "1e+15");
        assert_eq!(general(123456789012345.0, 14), "1.2345678901234e+14");
        assert_eq!(general(1e17, 17), "1e+17");
        assert_eq!(general(-0.0, 17), "-0");
        assert_eq!(general(0.00001234, 14), "1.234e-05");
        assert_eq!(general(0.0001234, 14), "0.0001234");
        assert_eq!(general(-2.5e-310, 5), "-2.5e-310");
        assert_eq!(general(100.0, 2), "1e+02");
        assert_eq!(general(1e16, 17), "10000000000000000");
        assert_eq!(general(f64::INFINITY, 14), "inf");
    }

    #[test]
    fn cuts_like_x86() {
        assert_eq!(to_i64(3.99), 3);
        assert_eq!(to_i64(-3.99), -3);
        assert_eq!(to_i64(1e300), i64::MIN);
        assert_eq!(to_i64(f64::NAN), i64::MIN);
    }
}
