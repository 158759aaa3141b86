//! Effects: the deterministic operations that commands leave behind for the host's log.
//!
//! A command that changes data pushes what a replay has to run (not what the client sent: relative
//! lifetimes become absolute, random picks become named members, scripts become their writes).
//! The host drains the buffer after each batch and writes it as *one* record, so everything that
//! was drained together is recovered together or not at all.
//!
//! Layout, operations back to back, all integers LEB128 varints:
//!
//! ```text
//! db | argc | length, bytes | length, bytes | …
//! ```
//!
//! Invariants: the decoder borrows from the buffer and never allocates, so a wrong length does no
//! harm; every byte string decodes to some operations and at most one [`Malformed`]; an
//! [`Operation`] that was returned is complete.

use std::fmt;

/// Operations waiting to be written to the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Effects {
    bytes: Vec<u8>,
    operations: u64,
}

impl Effects {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one operation: a command with its arguments, run in database `db`.
    pub fn push<A: AsRef<[u8]>>(&mut self, db: u32, args: &[A]) {
        self.begin(db, args.len());
        for arg in args {
            self.arg(arg.as_ref());
        }
    }

    /// Starts an operation whose `argc` arguments follow by [`Effects::arg`], exactly that many.
    pub fn begin(&mut self, db: u32, argc: usize) {
        self.operations += 1;
        put_varint(&mut self.bytes, u64::from(db));
        put_varint(&mut self.bytes, argc as u64);
    }

    /// Appends one argument of the operation that [`Effects::begin`] started.
    pub fn arg(&mut self, bytes: &[u8]) {
        put_varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends an operation that was decoded from another buffer.
    pub fn copy(&mut self, operation: &Operation<'_>) {
        self.operations += 1;
        put_varint(&mut self.bytes, u64::from(operation.db));
        put_varint(&mut self.bytes, operation.argc as u64);
        self.bytes.extend_from_slice(operation.body);
    }

    /// Whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many operations are waiting.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// The encoded operations.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets everything and keeps the allocation, unless a rare big batch made it huge.
    pub fn clear(&mut self) {
        const KEPT_BYTES: usize = 1 << 20;
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.operations = 0;
    }

    /// Iterates over what is waiting.
    pub fn iter(&self) -> Operations<'_> {
        operations(&self.bytes)
    }
}

impl<'a> IntoIterator for &'a Effects {
    type Item = Result<Operation<'a>, Malformed>;
    type IntoIter = Operations<'a>;

    fn into_iter(self) -> Operations<'a> {
        self.iter()
    }
}

/// One decoded operation; it borrows from the encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation<'a> {
    /// The database the command runs in.
    pub db: u32,
    argc: usize,
    body: &'a [u8],
}

impl<'a> Operation<'a> {
    /// How many arguments there are, the command's name included; at least one.
    pub fn argc(&self) -> usize {
        self.argc
    }

    /// The command's name, in whatever case it was pushed.
    pub fn name(&self) -> &'a [u8] {
        self.args().next().expect("an operation with no argument is refused when decoding")
    }

    /// The arguments in order, the command's name first.
    pub fn args(&self) -> Args<'a> {
        Args { left: self.argc, body: self.body }
    }
}

/// The arguments of an [`Operation`].
#[derive(Debug, Clone)]
pub struct Args<'a> {
    left: usize,
    body: &'a [u8],
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        Some(take_bytes(&mut self.body).expect("an operation is validated when it is decoded"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Args<'_> {}

/// The bytes are not a sequence of operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// Where the operation that could not be read begins.
    pub offset: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} does not begin a whole operation", self.offset)
    }
}

impl std::error::Error for Malformed {}

/// Decodes a buffer of operations.
pub fn operations(bytes: &[u8]) -> Operations<'_> {
    Operations { rest: bytes, total: bytes.len() }
}

/// Iterator over encoded operations; it ends after the first [`Malformed`].
#[derive(Debug, Clone)]
pub struct Operations<'a> {
    rest: &'a [u8],
    total: usize,
}

impl Operations<'_> {
    /// How many bytes were decoded so far.
    pub fn offset(&self) -> usize {
        self.total - self.rest.len()
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Result<Operation<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let offset = self.total - self.rest.len();
        let decoded = take_operation(&mut self.rest);
        if decoded.is_none() {
            self.rest = &[];
        }
        Some(decoded.ok_or(Malformed { offset }))
    }
}

fn take_operation<'a>(rest: &mut &'a [u8]) -> Option<Operation<'a>> {
    let db = u32::try_from(take_varint(rest)?).ok()?;
    let argc = usize::try_from(take_varint(rest)?).ok()?;
    if argc == 0 {
        return None;
    }
    let body = *rest;
    // Each argument takes a byte at least, so a false count ends with the buffer.
    for _ in 0..argc {
        take_bytes(rest)?;
    }
    Some(Operation { db, argc, body: &body[..body.len() - rest.len()] })
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_varint(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(bytes)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn empty_buffer_has_no_operations() {
        assert_eq!(Effects::new().iter().count(), 0);
    }

    #[test]
    fn a_false_count_or_length_is_malformed() {
        for bytes in [&[0u8, 0][..], &[0, 0xff, 0xff, 0xff, 0xff, 0x0f], &[0, 1, 0x80], &[0x80; 11]]
        {
            let decoded: Vec<_> = operations(bytes).collect();
            assert_eq!(decoded, [Err(Malformed { offset: 0 })], "{bytes:?}");
        }
    }

    #[test]
    fn copying_keeps_the_bytes() {
        let mut source = Effects::new();
        source.push(3, &["SET", "k", "v"]);
        source.push(0, &["DEL", "k"]);
        let mut target = Effects::new();
        for operation in &source {
            target.copy(&operation.expect("whole"));
        }
        assert_eq!(source, target);
    }

    proptest! {
        #[test]
        fn what_is_pushed_comes_back(
            pushed in prop::collection::vec(
                (any::<u32>(), prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..6)),
                0..20,
            )
        ) {
            let mut effects = Effects::new();
            for (db, args) in &pushed {
                effects.push(*db, args);
            }
            prop_assert_eq!(effects.operations(), pushed.len() as u64);
            let decoded: Vec<(u32, Vec<Vec<u8>>)> = effects
                .iter()
                .map(|operation| {
                    let operation = operation.expect("whole");
                    (operation.db, operation.args().map(<[u8]>::to_vec).collect())
                })
                .collect();
            prop_assert_eq!(decoded, pushed);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for operation in operations(&bytes).flatten() {
                prop_assert_eq!(operation.args().count(), operation.argc());
                prop_assert!(!operation.args().any(|arg| arg.len() > bytes.len()));
            }
        }
    }
}
