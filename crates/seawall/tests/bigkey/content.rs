//! Large values that say by themselves which version they are, and whether all of them is there.

use std::sync::LazyLock;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const BLOCK: usize = 1 << 18;

/// Text that does not compress.
static NOISE: LazyLock<String> = LazyLock::new(|| {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";
    let words = (0..(BLOCK as u64) / 8).map(|word| xxh3_64(&word.to_le_bytes()).to_le_bytes());
    words.flatten().map(|byte| char::from(letters[usize::from(byte % 64)])).collect()
});

/// A value of about this size, made for one version and different from all others everywhere.
pub(crate) fn content(version: u64, size_bytes: usize) -> String {
    let mut text = format!("{version:020} ");
    let mut block = 0_u64;
    while text.len() < size_bytes {
        let cut = xxh3_64_with_seed(&block.to_le_bytes(), version) as usize % BLOCK;
        let left = size_bytes - text.len();
        text.push_str(&NOISE[cut..BLOCK.min(cut + left)]);
        block += 1;
    }
    text.truncate(size_bytes.max(21));
    let sum = xxh3_64(text.as_bytes());
    text.push_str(&format!(" {sum:016x}"));
    text
}

/// The version of a value; an error when it is not wholly of one version.
pub(crate) fn version_of(text: &str) -> Result<u64, String> {
    let torn = |why: &str| Err(format!("torn: {why}, {} bytes", text.len()));
    let Some((body, sum)) = text.rsplit_once(' ') else { return torn("no end") };
    if format!("{:016x}", xxh3_64(body.as_bytes())) != sum {
        return torn("the end is not that of the rest");
    }
    body.split_once(' ')
        .and_then(|(version, _)| version.parse().ok())
        .ok_or_else(|| "torn: no beginning".to_owned())
}
