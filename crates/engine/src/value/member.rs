//! The bytes of one sorted-set member, as the index and the order tree both keep them.
//!
//! A member of up to 22 bytes lives inside the value itself, so that a small member costs no
//! allocation and comparing two of them touches no other cache line. A longer one is shared by
//! reference count between the index and the tree. Both forms are 24 bytes.
//!
//! Invariant: the form depends on the length alone, so equal bytes have equal forms.

use std::cmp::Ordering;
use std::sync::Arc;

/// The longest member kept in place.
const INLINE_MAX: usize = 22;

/// What a reference-counted allocation holds beside its bytes: two counters.
const SHARED_OVERHEAD_BYTES: usize = 16;

/// One member: immutable bytes, cheap to clone.
#[derive(Clone)]
pub(crate) struct Member(Form);

#[derive(Clone)]
enum Form {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Shared(Arc<[u8]>),
}

impl Member {
    /// Copies `bytes` into a member.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        if bytes.len() <= INLINE_MAX {
            let mut place = [0; INLINE_MAX];
            place[..bytes.len()].copy_from_slice(bytes);
            Self(Form::Inline { len: bytes.len() as u8, bytes: place })
        } else {
            Self(Form::Shared(bytes.into()))
        }
    }

    /// The bytes.
    #[inline]
    pub(crate) fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Inline { len, bytes } => &bytes[..usize::from(*len).min(INLINE_MAX)],
            Form::Shared(bytes) => bytes,
        }
    }

    /// Bytes allocated outside the value, to be counted once however often it is shared.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Inline { .. } => 0,
            Form::Shared(bytes) => SHARED_OVERHEAD_BYTES + bytes.len(),
        }
    }
}

impl PartialEq for Member {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Member {}

impl PartialOrd for Member {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Member {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_keep_bytes_and_order() {
        assert_eq!(size_of::<Member>(), 24);
        let long = [b'a'; 23];
        for bytes in [&b""[..], b"a", &long[..22], &long[..]] {
            assert_eq!(Member::new(bytes).as_bytes(), bytes);
        }
        assert!(Member::new(&long[..22]) < Member::new(&long));
        assert!(Member::new(b"b") > Member::new(&long));
        assert_eq!(Member::new(&long).heap_bytes(), 39);
    }
}
