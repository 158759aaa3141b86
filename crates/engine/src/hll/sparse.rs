//! Sparse registers: runs of equal values, most of them zero.
//!
//! ```text
//! 00llllll            ZERO   l+1 registers are zero (up to 64)
//! 01llllll llllllll   XZERO  l+1 registers are zero (up to 16384)
//! 1vvvvvll            VAL    l+1 registers are v+1  (up to 4, value up to 32)
//! ```
//!
//! Raising a register splits its run in up to three and then joins equal neighbours, looking at
//! five runs from the one before: not always the shortest form, but the one Redis leaves.

use super::estimate::Histogram;
use super::{Corrupted, HEADER, REGISTERS};

/// One run over all registers.
pub(super) const EMPTY: [u8; 2] = [0x7f, 0xff];

const MAX_VALUE: u8 = 32;
const MAX_VALUE_RUN: usize = 4;
const MAX_SHORT_ZERO_RUN: usize = 64;

/// Runs that are tried for joining after a change.
const JOIN_STEPS: usize = 5;

/// A run, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    Zero { length: usize },
    LongZero { length: usize },
    Value { value: u8, length: usize },
}

/// Outcome of raising a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Raised {
    Unchanged,
    Changed,
    /// The sketch must turn dense first.
    TooLarge,
}

impl Run {
    /// Decodes the run that starts with the first byte; a missing second byte counts as zero.
    fn decode(first: u8, second: Option<&u8>) -> Self {
        if first & 0x80 != 0 {
            return Self::Value {
                value: (first >> 2 & 0x1f) + 1,
                length: usize::from(first & 3) + 1,
            };
        }
        let low = usize::from(first & 0x3f);
        if first & 0x40 == 0 {
            return Self::Zero { length: low + 1 };
        }
        Self::LongZero { length: (low << 8 | usize::from(second.copied().unwrap_or(0))) + 1 }
    }

    fn registers(self) -> usize {
        let (Self::Zero { length } | Self::LongZero { length } | Self::Value { length, .. }) = self;
        length
    }

    fn bytes(self) -> usize {
        1 + usize::from(matches!(self, Self::LongZero { .. }))
    }
}

/// Up to three runs, encoded.
#[derive(Default)]
struct Encoded {
    bytes: [u8; 5],
    length: usize,
}

impl Encoded {
    fn push(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    fn zeros(&mut self, length: usize) {
        match length {
            0 => {}
            1..=MAX_SHORT_ZERO_RUN => self.push(length as u8 - 1),
            _ => {
                self.push(0x40 | ((length - 1) >> 8) as u8);
                self.push((length - 1) as u8);
            }
        }
    }

    fn values(&mut self, value: u8, length: usize) {
        if length > 0 {
            self.push(encode_value(value, length));
        }
    }
}

fn encode_value(value: u8, length: usize) -> u8 {
    0x80 | (value - 1) << 2 | (length as u8 - 1)
}

/// The runs from the start, each with its position.
fn runs(bytes: &[u8]) -> impl Iterator<Item = (usize, Run)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let run = Run::decode(*bytes.get(at)?, bytes.get(at + 1));
        let start = at;
        at += run.bytes();
        Some((start, run))
    })
}

/// Calls `visit` with each register that is not zero.
pub(super) fn for_each_value(
    bytes: &[u8],
    mut visit: impl FnMut(usize, u8),
) -> Result<(), Corrupted> {
    let mut index = 0;
    for (_, run) in runs(bytes) {
        let end = index + run.registers();
        if end > REGISTERS {
            return Err(Corrupted);
        }
        if let Run::Value { value, .. } = run {
            (index..end).for_each(|register| visit(register, value));
        }
        index = end;
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupted) }
}

/// How many registers have each value.
pub(super) fn histogram(bytes: &[u8]) -> Result<Histogram, Corrupted> {
    let mut histogram = Histogram::default();
    let mut total = 0;
    for (_, run) in runs(bytes) {
        let value = if let Run::Value { value, .. } = run { value } else { 0 };
        histogram.note(value, run.registers() as u64);
        total += run.registers();
    }
    if total == REGISTERS { Ok(histogram) } else { Err(Corrupted) }
}

/// The runs in words.
pub(super) fn describe(bytes: &[u8]) -> String {
    let words: Vec<String> = runs(bytes)
        .map(|(_, run)| match run {
            Run::Zero { length } => format!("z:{length}"),
            Run::LongZero { length } => format!("Z:{length}"),
            Run::Value { value, length } => format!("v:{value},{length}"),
        })
        .collect();
    words.join(" ")
}

/// Raises a register of the sketch (header included) to `rank` if it is lower.
pub(super) fn raise(
    sketch: &mut Vec<u8>,
    index: usize,
    rank: u8,
    max_bytes: usize,
) -> Result<Raised, Corrupted> {
    if rank > MAX_VALUE {
        return Ok(Raised::TooLarge);
    }
    let Some(place) = locate(&sketch[HEADER..], index) else { return Err(Corrupted) };
    let Place { previous, at, run, first } = place;
    let at = HEADER + at;
    let single = encode_value(rank, 1);
    match run {
        Run::Value { value, .. } if value >= rank => return Ok(Raised::Unchanged),
        Run::Value { length: 1, .. } | Run::Zero { length: 1 } => sketch[at] = single,
        _ => {
            let mut split = Encoded::default();
            let (before, after) = (index - first, first + run.registers() - 1 - index);
            if let Run::Value { value, .. } = run {
                split.values(value, before);
                split.push(single);
                split.values(value, after);
            } else {
                split.zeros(before);
                split.push(single);
                split.zeros(after);
            }
            let length = sketch.len() + split.length - run.bytes();
            if split.length > run.bytes() && length > max_bytes {
                return Ok(Raised::TooLarge);
            }
            let end = (at + run.bytes()).min(sketch.len());
            sketch.splice(at..end, split.bytes[..split.length].iter().copied());
            // A run cut off by the end of the string had a byte less than its kind.
            sketch.truncate(length);
        }
    }
    join(sketch, HEADER + previous.unwrap_or(0));
    Ok(Raised::Changed)
}

/// Where a register lies.
struct Place {
    /// Start of the run before, if there is one.
    previous: Option<usize>,
    at: usize,
    run: Run,
    /// The run's first register.
    first: usize,
}

fn locate(bytes: &[u8], index: usize) -> Option<Place> {
    let mut previous = None;
    let mut first = 0;
    for (at, run) in runs(bytes) {
        if index < first + run.registers() {
            return Some(Place { previous, at, run, first });
        }
        previous = Some(at);
        first += run.registers();
    }
    None
}

/// Joins neighbouring runs of one value where they fit into one.
fn join(sketch: &mut Vec<u8>, start: usize) {
    let mut at = start;
    for _ in 0..JOIN_STEPS {
        let Some(&byte) = sketch.get(at) else { return };
        let run = Run::decode(byte, sketch.get(at + 1));
        let next = sketch.get(at + 1).map(|&byte| Run::decode(byte, None));
        match (run, next) {
            (Run::Value { value, length }, Some(Run::Value { value: other, length: more }))
                if value == other && length + more <= MAX_VALUE_RUN =>
            {
                sketch[at] = encode_value(value, length + more);
                sketch.remove(at + 1);
            }
            _ => at += run.bytes(),
        }
    }
}
