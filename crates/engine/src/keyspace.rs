//! The keyspace: a number of databases, each one table of entries.
//!
//! An entry keeps key and string value in one allocation (`block`), because most keys hold short
//! strings and a second allocation would cost more than the value:
//!
//! ```text
//! Entry { block: [key bytes | string bytes], key_len, idle, deadline, value }
//! ```
//!
//! Strings that are edited in place (APPEND, SETRANGE, SETBIT) move to a separate growable buffer
//! (`Value::Raw`). Large strings lie in a buffer that replies share (`Value::Large`) and that is
//! copied only if it is edited while a reply has not been sent. Numbers are stored as numbers. The
//! deadline lies in the entry, so that a lookup detects expiry without a second table, and the
//! table knows per segment which deadline comes first (see `value::table`).
//!
//! Invariant: no collection in the keyspace is empty.

use std::sync::Arc;

use crate::value::table::{Item, Place, Table};
use crate::value::{Kind, LARGE_STRING, Value, alloc_bytes};

/// Marks an entry that does not expire.
pub(crate) const NEVER: i64 = i64::MAX;

/// One key with its value.
pub(crate) struct Entry {
    block: Box<[u8]>,
    key_len: u32,
    /// LRU clock or LFU counter, as `evict` keeps it (24 bits).
    pub(crate) idle: u32,
    deadline: i64,
    value: Value,
}

impl Item for Entry {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.block[..self.key_len as usize]
    }

    fn heap_bytes(&self) -> usize {
        alloc_bytes(self.block.len()) + self.value.heap_bytes()
    }

    #[inline]
    fn deadline(&self) -> i64 {
        self.deadline
    }
}

/// A string value as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Str<'a> {
    Int(i64),
    Bytes(&'a [u8]),
    /// In a buffer that can be shared.
    Large(&'a Arc<Vec<u8>>),
}

impl<'a> Str<'a> {
    /// The bytes; a number is written to `digits` first.
    pub(crate) fn bytes<'b>(self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Str::Int(n) => digits.format(n).as_bytes(),
            Str::Bytes(bytes) => bytes,
            Str::Large(bytes) => bytes,
        }
    }

    pub(crate) fn len(self) -> usize {
        self.bytes(&mut itoa::Buffer::new()).len()
    }

    pub(crate) fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut itoa::Buffer::new()).to_vec()
    }
}

impl Entry {
    /// A key with a value that is not a string.
    pub(crate) fn new(key: &[u8], value: Value) -> Entry {
        Entry { block: key.into(), key_len: key.len() as u32, idle: 0, deadline: NEVER, value }
    }

    /// A key with a string, kept as a number where it is one.
    pub(crate) fn string(key: &[u8], bytes: &[u8]) -> Entry {
        if bytes.len() <= 20
            && let Some(n) = crate::number::parse_i64(bytes)
        {
            return Entry::new(key, Value::Int(n));
        }
        if bytes.len() >= LARGE_STRING {
            return Entry::new(key, Value::string(bytes.to_vec()));
        }
        let mut block = Vec::with_capacity(key.len() + bytes.len());
        block.extend_from_slice(key);
        block.extend_from_slice(bytes);
        let block = block.into_boxed_slice();
        Entry { block, key_len: key.len() as u32, idle: 0, deadline: NEVER, value: Value::Embedded }
    }

    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns when the key expires, in Unix milliseconds; `None` if it does not.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        (self.deadline != NEVER).then_some(self.deadline)
    }

    /// The string, or `None` when the value is of another type.
    #[inline]
    pub(crate) fn str(&self) -> Option<Str<'_>> {
        match &self.value {
            Value::Int(n) => Some(Str::Int(*n)),
            Value::Embedded => Some(Str::Bytes(&self.block[self.key_len as usize..])),
            Value::Raw(bytes) => Some(Str::Bytes(bytes)),
            Value::Large(bytes) => Some(Str::Large(bytes)),
            _ => None,
        }
    }

    /// Replaces the value by a string, in place where the size is the same.
    #[inline]
    pub(crate) fn set_string(&mut self, bytes: &[u8]) {
        let number = if bytes.len() <= 20 { crate::number::parse_i64(bytes) } else { None };
        if let Some(n) = number {
            self.set_int(n);
        } else {
            self.set_text(bytes);
        }
    }

    /// Replaces the value by a string that stays text even when it looks like a number.
    pub(crate) fn set_text(&mut self, bytes: &[u8]) {
        let key_len = self.key_len as usize;
        if bytes.len() >= LARGE_STRING {
            self.set_large(Arc::new(bytes.to_vec()));
        } else if self.block.len() == key_len + bytes.len() {
            self.block[key_len..].copy_from_slice(bytes);
            self.value = Value::Embedded;
        } else {
            let mut block = Vec::with_capacity(key_len + bytes.len());
            block.extend_from_slice(&self.block[..key_len]);
            block.extend_from_slice(bytes);
            self.block = block.into_boxed_slice();
            self.value = Value::Embedded;
        }
    }

    pub(crate) fn set_int(&mut self, n: i64) {
        self.set_own(Value::Int(n));
    }

    /// Replaces the value by a large string that already has a buffer.
    #[cold]
    pub(crate) fn set_large(&mut self, bytes: Arc<Vec<u8>>) {
        self.set_own(Value::Large(bytes));
    }

    /// Replaces the value by one that is not embedded.
    #[inline]
    fn set_own(&mut self, value: Value) {
        if self.block.len() > self.key_len as usize {
            self.block = self.block[..self.key_len as usize].into();
        }
        self.value = value;
    }

    /// Returns the string as a growable buffer, for edits in place; `None` for other types. A
    /// buffer that a reply still holds is copied.
    pub(crate) fn raw_mut(&mut self) -> Option<&mut Vec<u8>> {
        if matches!(self.value, Value::Int(_) | Value::Embedded) {
            let bytes = self.str()?.to_vec();
            self.set_own(Value::string(bytes));
        }
        match &mut self.value {
            Value::Raw(bytes) => Some(bytes),
            Value::Large(bytes) => Some(Arc::make_mut(bytes)),
            _ => None,
        }
    }

    /// Lets a string that has grown large be shared from now on.
    fn settle(&mut self) {
        if let Value::Raw(bytes) = &mut self.value
            && bytes.len() >= LARGE_STRING
        {
            self.value = Value::string(std::mem::take(bytes));
        }
    }

    /// The same value and lifetime under another name.
    pub(crate) fn renamed(self, key: &[u8]) -> Entry {
        let mut block = Vec::with_capacity(key.len() + self.block.len() - self.key_len as usize);
        block.extend_from_slice(key);
        block.extend_from_slice(&self.block[self.key_len as usize..]);
        Entry { block: block.into_boxed_slice(), key_len: key.len() as u32, ..self }
    }

    /// A copy under another name, lifetime included.
    pub(crate) fn copied(&self, key: &[u8]) -> Entry {
        let mut block = key.to_vec();
        block.extend_from_slice(&self.block[self.key_len as usize..]);
        Entry {
            block: block.into_boxed_slice(),
            key_len: key.len() as u32,
            idle: self.idle,
            deadline: self.deadline,
            value: self.value.clone(),
        }
    }

    /// Redis' name for how the value is stored.
    pub(crate) fn encoding(&self) -> &'static str {
        const EMBEDDED_MAX: usize = 44;
        match &self.value {
            Value::Embedded if self.block.len() - self.key_len as usize <= EMBEDDED_MAX => "embstr",
            Value::Embedded | Value::Raw(_) | Value::Large(_) => "raw",
            Value::Int(_) => "int",
            other => other.encoding(),
        }
    }
}

/// One database.
pub(crate) struct Db {
    pub(crate) table: Table<Entry>,
    /// Where the next slice of active expiry begins.
    pub(crate) expire_from: usize,
}

impl Db {
    pub(crate) fn new(seed: u64) -> Db {
        Db { table: Table::new(seed), expire_from: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.table.get(key)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &[u8]) -> Option<&mut Entry> {
        self.table.get_mut(key)
    }

    /// How many keys have a lifetime.
    #[inline]
    pub(crate) fn expiring(&self) -> usize {
        self.table.timed()
    }

    /// Puts an entry in, replacing one of the same name; its own lifetime counts.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Entry> {
        self.table.insert(entry)
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Entry> {
        self.table.remove(key)
    }

    /// Sets or, with [`NEVER`], takes away the lifetime of a key that exists.
    pub(crate) fn set_deadline(&mut self, key: &[u8], deadline: i64) {
        self.table.update(key, |entry| entry.deadline = deadline);
    }

    /// Edits a collection and keeps the account of memory; `None` when it is of another type.
    #[inline]
    pub(crate) fn edit_at<T: Kind>(&mut self, place: Place) -> Option<Edit<'_, T>> {
        let (entry, heap) = self.table.at_mut(place);
        let value = T::of_mut(&mut entry.value)?;
        let before = value.heap_bytes();
        Some(Edit { value, heap, before })
    }

    /// As [`Db::edit_at`], for a key that may be absent.
    pub(crate) fn edit<T: Kind>(&mut self, key: &[u8]) -> Option<Edit<'_, T>> {
        let place = self.table.locate(key)?;
        self.edit_at(place)
    }

    /// Edits the string of a key in place; `None` when absent or of another type.
    pub(crate) fn edit_string<R>(
        &mut self,
        key: &[u8],
        edit: impl FnOnce(&mut Entry) -> R,
    ) -> Option<R> {
        let (entry, heap) = self.table.at_mut(self.table.locate(key)?);
        let before = entry.heap_bytes();
        let result = edit(entry);
        if let Value::Raw(_) = entry.value {
            entry.settle();
        }
        *heap = (*heap + entry.heap_bytes()).saturating_sub(before);
        Some(result)
    }

    /// Moves everything out into a new database.
    pub(crate) fn empty_out(&mut self, seed: u64) -> Db {
        std::mem::replace(self, Db::new(seed))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.mem_bytes()
    }
}

/// A collection being edited; the account of memory is brought up to date when it is dropped.
pub(crate) struct Edit<'a, T: Kind> {
    value: &'a mut T,
    heap: &'a mut usize,
    before: usize,
}

impl<T: Kind> std::ops::Deref for Edit<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}

impl<T: Kind> std::ops::DerefMut for Edit<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T: Kind> Drop for Edit<'_, T> {
    fn drop(&mut self) {
        *self.heap = (*self.heap + self.value.heap_bytes()).saturating_sub(self.before);
    }
}
