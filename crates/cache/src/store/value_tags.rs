//! Tags that values carry, and the seal that says since when.
//!
//! Which tags a value has is known only after it was loaded, so a reader cannot ask for their generations
//! together with the entry, as it does for tags of keys. Instead the entry is *sealed* with the number of
//! the last clear before its load began (`tier/remote_tags.rs`):
//!
//! ```text
//! header  value or manifest  u64 number of the last clear
//! ```
//!
//! The tags themselves are not stored: each reader computes those of the value that it read. So an entry
//! of an earlier release counts by what the reader calls its tags. The seal is behind the value, because
//! scripts know where a manifest begins, and not in the parts, so that equal values are equal parts.
//! Entries with a seal have another shape than those without.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::{encoder::panic_text, entry::Tags};
use crate::backplane::message::tag_hash;

/// Length of a seal.
pub(crate) const SEAL_BYTES: usize = 8;
/// Tells the shape of sealed entries from that of others.
const SEALED_SHAPE: u32 = 0x2A5F;

/// The tags of a value, as the user computes them.
pub(crate) type ValueTagsOf<V> = Arc<dyn Fn(&V) -> Vec<String> + Send + Sync>;

/// Returns the fingerprint of values of this one in sealed entries.
pub(crate) const fn sealed(fingerprint: u32) -> u32 {
    fingerprint ^ SEALED_SHAPE
}

/// Seals what is to be stored.
pub(crate) fn seal(bytes: &mut Vec<u8>, clears: u64) {
    bytes.extend_from_slice(&clears.to_be_bytes());
}

/// Splits what was stored from its seal.
pub(crate) fn unseal(bytes: &[u8]) -> Option<(&[u8], u64)> {
    let (bytes, seal) = bytes.split_last_chunk::<SEAL_BYTES>()?;
    Some((bytes, u64::from_be_bytes(*seal)))
}

/// Returns the hashes of all tags of an entry: those of its key, and those that its value carries.
///
/// # Errors
/// The text of a panic of the user's function.
pub(crate) fn all_tags<V>(
    of_key: &Tags,
    of_value: Option<&ValueTagsOf<V>>,
    value: Option<&V>,
) -> Result<Tags, String> {
    let (Some(tags), Some(value)) = (of_value, value) else { return Ok(of_key.clone()) };
    let found = catch_unwind(AssertUnwindSafe(|| tags(value)));
    let found = found.map_err(|panic| panic_text(&*panic))?;
    let of_key = of_key.as_deref().unwrap_or_default().iter().copied();
    Ok(Some(of_key.chain(found.iter().map(|tag| tag_hash(tag))).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_comes_off_as_it_was_put_on() {
        let mut bytes = b"value".to_vec();
        seal(&mut bytes, 17);
        assert_eq!(unseal(&bytes), Some((&b"value"[..], 17)));
        assert_eq!(unseal(b"short"), None);
    }

    #[test]
    fn tags_of_key_and_value_are_together_and_a_panic_ends_here() {
        let tags: ValueTagsOf<u64> = Arc::new(|value| match value {
            0 => panic!("no tag for nothing"),
            value => vec![format!("v{value}")],
        });
        let of_key: Tags = Some(Arc::new([1]));
        let all = all_tags(&of_key, Some(&tags), Some(&7)).expect("tags");
        assert_eq!(all.as_deref(), Some(&[1, tag_hash("v7")][..]));
        assert_eq!(all_tags(&of_key, Some(&tags), None).as_ref(), Ok(&of_key));
        assert_eq!(all_tags::<u64>(&None, None, Some(&7)), Ok(None));
        assert_eq!(all_tags(&of_key, Some(&tags), Some(&0)), Err("no tag for nothing".to_owned()));
    }
}
