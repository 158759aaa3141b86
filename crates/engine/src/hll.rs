//! HyperLogLog in Redis' own byte format.
//!
//! A sketch is an ordinary string, so that GET, SET, DUMP and backups move it between servers:
//!
//! ```text
//! 0     4        5          8             16
//! HYLL  encoding  unused(3)  cardinality   registers …
//! ```
//!
//! The cardinality is the last estimate, little endian; its highest bit set means "stale".
//! Encoding 0 is dense, 16384 registers of six bits (`dense.rs`); encoding 1 is sparse, runs of
//! equal registers (`sparse.rs`). A sketch starts sparse and turns dense for good when a value
//! exceeds 32 or the string would outgrow a configured size. Every change follows Redis' steps,
//! so the bytes are the same after the same commands.
//!
//! The string may have been written by a client: nothing here trusts its content, and a sketch
//! whose runs do not add up is [`Corrupted`].

mod dense;
mod estimate;
mod sparse;

use estimate::Histogram;

/// Registers of a sketch.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 14;
/// Hash bits that are not part of the index.
const RANK_BITS: u32 = 64 - INDEX_BITS;

const HEADER: usize = 16;
const MAGIC: &[u8; 4] = b"HYLL";
const ENCODING_AT: usize = 4;
const CARDINALITY_AT: usize = 8;
const STALE: u8 = 0x80;

const HASH_SEED: u64 = 0xadc8_3b19;

/// The runs of a sparse sketch do not add up to its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Corrupted;

/// How a sketch keeps its registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Dense,
    Sparse,
}

/// An empty sketch.
pub(crate) fn empty() -> Vec<u8> {
    let mut bytes = vec![0; HEADER];
    bytes[..MAGIC.len()].copy_from_slice(MAGIC);
    bytes[ENCODING_AT] = 1;
    bytes.extend_from_slice(&sparse::EMPTY);
    bytes
}

/// The encoding of a string that looks like a sketch; `None` if it does not.
pub(crate) fn encoding(bytes: &[u8]) -> Option<Encoding> {
    if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
        return None;
    }
    match bytes[ENCODING_AT] {
        0 if bytes.len() == HEADER + dense::SIZE => Some(Encoding::Dense),
        1 => Some(Encoding::Sparse),
        _ => None,
    }
}

/// Adds an element. Returns `true` if a register changed.
///
/// A sparse sketch that would exceed `sparse_max_bytes` turns dense.
pub(crate) fn add(
    bytes: &mut Vec<u8>,
    element: &[u8],
    sparse_max_bytes: usize,
) -> Result<bool, Corrupted> {
    let (index, rank) = locate(element);
    raise(bytes, index, rank, sparse_max_bytes)
}

/// The register of an element and the rank it contributes: the position of the first one among
/// the hash bits above the index.
fn locate(element: &[u8]) -> (usize, u8) {
    let hash = murmur64a(element, HASH_SEED);
    let index = hash as usize & (REGISTERS - 1);
    let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Raises a register to `rank` if it is lower. Returns `true` if it was.
fn raise(
    bytes: &mut Vec<u8>,
    index: usize,
    rank: u8,
    sparse_max_bytes: usize,
) -> Result<bool, Corrupted> {
    if bytes[ENCODING_AT] == 1 {
        match sparse::raise(bytes, index, rank, sparse_max_bytes)? {
            sparse::Raised::Unchanged => return Ok(false),
            sparse::Raised::Changed => {
                mark_stale(bytes);
                return Ok(true);
            }
            sparse::Raised::TooLarge => make_dense(bytes).map(drop)?,
        }
    }
    Ok(dense::raise(&mut bytes[HEADER..], index, rank))
}

/// Makes a sparse sketch dense. Returns `true` if it was sparse.
pub(crate) fn make_dense(bytes: &mut Vec<u8>) -> Result<bool, Corrupted> {
    if bytes[ENCODING_AT] == 0 {
        return Ok(false);
    }
    let mut converted = vec![0; HEADER + dense::SIZE];
    converted[..HEADER].copy_from_slice(&bytes[..HEADER]);
    converted[ENCODING_AT] = 0;
    let registers = &mut converted[HEADER..];
    sparse::for_each_value(&bytes[HEADER..], |index, value| {
        dense::set(registers, index, value);
    })?;
    *bytes = converted;
    Ok(true)
}

/// The remembered estimate, unless it is stale.
pub(crate) fn cached_count(bytes: &[u8]) -> Option<u64> {
    let (cardinality, _) = bytes[CARDINALITY_AT..].split_first_chunk()?;
    (cardinality[7] & STALE == 0).then(|| u64::from_le_bytes(*cardinality))
}

/// Remembers an estimate.
pub(crate) fn cache_count(bytes: &mut [u8], count: u64) {
    bytes[CARDINALITY_AT..HEADER].copy_from_slice(&count.to_le_bytes());
}

/// Forgets the remembered estimate.
pub(crate) fn mark_stale(bytes: &mut [u8]) {
    bytes[HEADER - 1] |= STALE;
}

/// Estimates the number of distinct elements.
pub(crate) fn count(bytes: &[u8]) -> Result<u64, Corrupted> {
    let registers = &bytes[HEADER..];
    let histogram = match bytes[ENCODING_AT] {
        1 => sparse::histogram(registers)?,
        _ => dense::histogram(registers),
    };
    Ok(histogram.estimate())
}

/// The registers of a dense sketch, in order.
pub(crate) fn dense_registers(bytes: &[u8]) -> impl Iterator<Item = u8> {
    dense::registers(&bytes[HEADER..])
}

/// The runs of a sparse sketch as text: `Z:` and `z:` for zeros, `v:value,length`.
pub(crate) fn describe_sparse(bytes: &[u8]) -> String {
    sparse::describe(&bytes[HEADER..])
}

/// The union of sketches, one byte a register.
pub(crate) struct Union {
    registers: Box<[u8; REGISTERS]>,
}

impl Union {
    /// The union of nothing.
    pub(crate) fn new() -> Self {
        let registers = vec![0; REGISTERS].into_boxed_slice();
        Self { registers: registers.try_into().expect("allocated with that length") }
    }

    /// Takes in a sketch.
    pub(crate) fn merge(&mut self, bytes: &[u8]) -> Result<(), Corrupted> {
        let registers = &bytes[HEADER..];
        if bytes[ENCODING_AT] == 1 {
            return sparse::for_each_value(registers, |index, value| {
                self.registers[index] = self.registers[index].max(value);
            });
        }
        for (highest, value) in self.registers.iter_mut().zip(dense::registers(registers)) {
            *highest = (*highest).max(value);
        }
        Ok(())
    }

    /// Estimates the number of distinct elements of the union.
    pub(crate) fn count(&self) -> u64 {
        let mut histogram = Histogram::default();
        for &value in self.registers.iter() {
            histogram.note(value, 1);
        }
        histogram.estimate()
    }

    /// Raises the registers of a sketch to those of the union.
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>, sparse_max_bytes: usize) {
        for (index, &value) in self.registers.iter().enumerate().filter(|entry| *entry.1 > 0) {
            // The sketch is empty or part of the union, hence sound.
            let _ = raise(bytes, index, value, sparse_max_bytes);
        }
        mark_stale(bytes);
    }
}

/// Checks registers and estimates on random content, as PFSELFTEST asks, adding as many
/// `elements`.
///
/// # Errors
/// The first discrepancy, in words.
pub(crate) fn self_test(
    mut random: impl FnMut() -> u64,
    sparse_max_bytes: usize,
    elements: u64,
) -> Result<(), String> {
    const CYCLES: usize = 20;
    let mut registers = vec![0; dense::SIZE];
    let mut expected = vec![0; REGISTERS];
    for _ in 0..CYCLES {
        for (index, value) in expected.iter_mut().enumerate() {
            *value = random() as u8 & 63;
            dense::set(&mut registers, index, *value);
        }
        let mismatch =
            dense::registers(&registers).zip(&expected).position(|(found, &value)| found != value);
        if let Some(index) = mismatch {
            return Err(format!("TESTFAILED Register {index} differs"));
        }
    }
    let mut always_dense = empty();
    let mut sketch = empty();
    make_dense(&mut always_dense).map_err(|Corrupted| "TESTFAILED empty sketch".to_owned())?;
    let seed = random();
    let mut checkpoint = 1;
    for number in 1..=elements {
        let element = (number ^ seed).to_le_bytes();
        let corrupted = |Corrupted| "TESTFAILED corrupted".to_owned();
        add(&mut always_dense, &element, sparse_max_bytes).map_err(corrupted)?;
        add(&mut sketch, &element, sparse_max_bytes).map_err(corrupted)?;
        if number != checkpoint {
            continue;
        }
        check_at(checkpoint, &always_dense, &sketch, sparse_max_bytes)?;
        checkpoint *= 10;
    }
    Ok(())
}

fn check_at(
    cardinality: u64,
    always_dense: &[u8],
    sketch: &[u8],
    sparse_max_bytes: usize,
) -> Result<(), String> {
    let is_small = cardinality < sparse_max_bytes as u64 / 2;
    if is_small && encoding(sketch) != Some(Encoding::Sparse) {
        return Err("TESTFAILED sparse encoding not used".to_owned());
    }
    let estimate = count(always_dense);
    if estimate != count(sketch) {
        return Err("TESTFAILED dense/sparse disagree".to_owned());
    }
    let error = estimate.unwrap_or(0).abs_diff(cardinality);
    // Six standard errors; a collision among the first ten is not rare.
    let standard = 1.04 / (REGISTERS as f64).sqrt();
    let bound =
        if cardinality == 10 { 1 } else { (standard * 6.0 * cardinality as f64).ceil() as u64 };
    if error > bound {
        return Err(format!("TESTFAILED Too big error. card:{cardinality} abserr:{error}"));
    }
    Ok(())
}

/// Austin Appleby's MurmurHash2 with 64 bits, little endian on every machine.
fn murmur64a(data: &[u8], seed: u64) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (data.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = data.as_chunks();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests;
