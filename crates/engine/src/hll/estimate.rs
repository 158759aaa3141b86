//! The cardinality that registers suggest.
//!
//! Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches" (2017),
//! algorithm 6: needs only how many registers have which value, and no table of bias
//! corrections. The order of operations is part of the format, since the rounded result is
//! stored and compared.

use super::{RANK_BITS, REGISTERS};

/// 1 / (2 ln 2), the limit of the bias factor.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The estimate of registers that no hash can produce, which divide by zero.
const OVERFLOWED: u64 = 1 << 63;

/// How many registers have each value.
pub(super) struct Histogram([u64; 64]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Histogram {
    /// Counts `registers` more registers with a value below 64.
    pub(super) fn note(&mut self, value: u8, registers: u64) {
        self.0[usize::from(value & 63)] += registers;
    }

    /// The estimated number of distinct elements.
    pub(super) fn estimate(&self) -> u64 {
        let total = REGISTERS as f64;
        let highest = RANK_BITS as usize + 1;
        let mut sum = total * tau((total - self.0[highest] as f64) / total);
        for value in (1..highest).rev() {
            sum += self.0[value] as f64;
            sum *= 0.5;
        }
        sum += total * sigma(self.0[0] as f64 / total);
        let estimate = (ALPHA * total * total / sum).round();
        if estimate.is_finite() { estimate as u64 } else { OVERFLOWED }
    }
}

/// x + Σ x^(2^k) · 2^(k-1): corrects for registers still zero.
fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * power;
        power += power;
        if sum == before {
            return sum;
        }
    }
}

/// (1 - x - Σ (1 - x^(2^-k))² · 2^-k) / 3: corrects for registers at their maximum.
fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut power, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        power *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * power;
        if sum == before {
            return sum / 3.0;
        }
    }
}
