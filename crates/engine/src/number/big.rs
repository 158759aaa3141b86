//! A natural number of any size, with the few operations decimal conversion needs.
//!
//! Long doubles reach 10^4932, so converting them exactly takes some sixteen thousand bits;
//! schoolbook arithmetic on 32-bit limbs is fast enough for that and easy to trust.

use std::cmp::Ordering;

const CHUNK_DIGITS: usize = 9;
const CHUNK: u32 = 1_000_000_000;
const FIVE_POW_13: u32 = 1_220_703_125;

/// Limbs, least significant first; the last one is not zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Big(Vec<u32>);

impl Big {
    pub(super) fn from_u64(value: u64) -> Self {
        let mut big = Self(vec![value as u32, (value >> 32) as u32]);
        big.trim();
        big
    }

    /// The value of decimal digits, which the caller has checked.
    pub(super) fn from_digits<'a>(digits: impl Iterator<Item = &'a u8>) -> Self {
        let mut big = Self(Vec::new());
        let (mut chunk, mut scale, mut count) = (0u32, 1u32, 0);
        for &byte in digits {
            chunk = chunk * 10 + u32::from(byte - b'0');
            scale *= 10;
            count += 1;
            if count == CHUNK_DIGITS {
                big.mul_add(CHUNK, chunk);
                (chunk, scale, count) = (0, 1, 0);
            }
        }
        big.mul_add(scale, chunk);
        big
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bits(&self) -> u64 {
        match self.0.last() {
            Some(top) => self.0.len() as u64 * 32 - u64::from(top.leading_zeros()),
            None => 0,
        }
    }

    /// Multiplies by five to the `power`.
    pub(super) fn mul_pow5(&mut self, power: u64) {
        for _ in 0..power / 13 {
            self.mul_add(FIVE_POW_13, 0);
        }
        self.mul_add(5u32.pow((power % 13) as u32), 0);
    }

    pub(super) fn shift_left(&mut self, bits: u64) {
        if self.is_zero() {
            return;
        }
        let small = (bits % 32) as u32;
        if small > 0 {
            let mut carry = 0;
            for limb in &mut self.0 {
                let wide = u64::from(*limb) << small | carry;
                *limb = wide as u32;
                carry = wide >> 32;
            }
            if carry != 0 {
                self.0.push(carry as u32);
            }
        }
        let limbs = (bits / 32) as usize;
        self.0.splice(0..0, std::iter::repeat_n(0, limbs));
    }

    /// Subtracts a number that is not larger.
    pub(super) fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.0.iter_mut().enumerate() {
            let right = other.0.get(index).copied().unwrap_or(0);
            let (first, under) = limb.overflowing_sub(right);
            let (second, under_again) = first.overflowing_sub(u32::from(borrow));
            *limb = second;
            borrow = under || under_again;
        }
        debug_assert!(!borrow, "the caller compared first");
        self.trim();
    }

    /// The highest 128 bits at most, the power of two of their lowest, and whether bits below
    /// them are set.
    pub(super) fn top(&self) -> (u128, i64, bool) {
        let skipped = self.0.len().saturating_sub(4);
        let mut value = 0u128;
        for &limb in self.0[skipped..].iter().rev() {
            value = value << 32 | u128::from(limb);
        }
        (value, skipped as i64 * 32, self.0[..skipped].iter().any(|&limb| limb != 0))
    }

    /// Appends the number in decimal.
    pub(super) fn write_decimal(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::new();
        while !self.is_zero() {
            let mut rest = 0u64;
            for limb in self.0.iter_mut().rev() {
                let wide = rest << 32 | u64::from(*limb);
                *limb = (wide / u64::from(CHUNK)) as u32;
                rest = wide % u64::from(CHUNK);
            }
            self.trim();
            chunks.push(rest as u32);
        }
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(chunks.pop().unwrap_or(0)).as_bytes());
        for chunk in chunks.into_iter().rev() {
            let digits = buffer.format(chunk).as_bytes();
            out.extend(std::iter::repeat_n(b'0', CHUNK_DIGITS - digits.len()));
            out.extend_from_slice(digits);
        }
    }

    fn mul_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.0 {
            let wide = u64::from(*limb) * u64::from(factor) + carry;
            *limb = wide as u32;
            carry = wide >> 32;
        }
        if carry != 0 {
            self.0.push(carry as u32);
        }
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

impl PartialOrd for Big {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Big {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}
