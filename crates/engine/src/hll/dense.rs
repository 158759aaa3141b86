//! Dense registers: six bits each, the lowest bits of a byte first, so that four registers fill
//! three bytes.
//!
//! ```text
//! byte 0     byte 1     byte 2
//! 11000000   22221111   33333322
//! ```

use super::REGISTERS;
use super::estimate::Histogram;

/// Bytes of all registers.
pub(super) const SIZE: usize = REGISTERS * 6 / 8;

const MASK: u8 = 63;

/// All registers, in order.
pub(super) fn registers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.as_chunks().0.iter().flat_map(unpack)
}

fn unpack(&[first, second, third]: &[u8; 3]) -> [u8; 4] {
    [first & MASK, (first >> 6 | second << 2) & MASK, (second >> 4 | third << 4) & MASK, third >> 2]
}

/// How many registers have each value.
pub(super) fn histogram(bytes: &[u8]) -> Histogram {
    let mut histogram = Histogram::default();
    for value in registers(bytes) {
        histogram.note(value, 1);
    }
    histogram
}

/// Sets a register.
pub(super) fn set(bytes: &mut [u8], index: usize, value: u8) {
    let (at, shift) = position(index);
    let both = pair(bytes, at) & !(u16::from(MASK) << shift) | u16::from(value) << shift;
    let [low, high] = both.to_le_bytes();
    bytes[at] = low;
    if let Some(next) = bytes.get_mut(at + 1) {
        *next = high;
    }
}

/// Raises a register to `rank` if it is lower. Returns `true` if it was.
pub(super) fn raise(bytes: &mut [u8], index: usize, rank: u8) -> bool {
    let (at, shift) = position(index);
    let current = (pair(bytes, at) >> shift) as u8 & MASK;
    if rank <= current {
        return false;
    }
    set(bytes, index, rank);
    true
}

fn position(index: usize) -> (usize, usize) {
    (index * 6 / 8, index * 6 % 8)
}

/// Two bytes in which a register lies; behind the last one there is nothing.
fn pair(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes.get(at + 1).copied().unwrap_or(0)])
}
