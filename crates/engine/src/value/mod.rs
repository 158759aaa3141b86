//! The values behind the keys: one file per data structure.

pub(crate) mod elem;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod member;
mod order;
pub(crate) mod packed;
pub(crate) mod set;
pub(crate) mod stream;
pub(crate) mod table;
pub(crate) mod zset;

use std::sync::Arc;

use hash::Hash;
use list::List;
use set::Set;
use stream::Stream;
use zset::ZSet;

/// What an allocation of `len` bytes costs, as the size classes of common allocators have it.
pub(crate) const fn alloc_bytes(len: usize) -> usize {
    len.next_multiple_of(16)
}

/// Strings from this size on are shared with the replies that carry them, not copied.
pub(crate) const LARGE_STRING: usize = 64 << 10;

/// What a key holds. Sixteen bytes: collections are boxed, short strings lie behind the key in the
/// entry itself.
#[derive(Clone)]
pub(crate) enum Value {
    /// A string that is a number.
    Int(i64),
    /// A string behind the key in the entry's block.
    Embedded,
    /// A string that was edited in place.
    #[expect(clippy::box_collection, reason = "a vector would make every value twice as large")]
    Raw(Box<Vec<u8>>),
    /// A string of [`LARGE_STRING`] bytes or more. Replies may hold it, too; an edit then copies
    /// it.
    Large(Arc<Vec<u8>>),
    List(Box<List>),
    Set(Box<Set>),
    Hash(Box<Hash>),
    ZSet(Box<ZSet>),
    Stream(Box<Stream>),
}

impl Value {
    /// A string in a separate buffer.
    pub(crate) fn string(bytes: Vec<u8>) -> Value {
        if bytes.len() < LARGE_STRING {
            Value::Raw(Box::new(bytes))
        } else {
            Value::Large(Arc::new(bytes))
        }
    }

    /// What TYPE answers.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Int(_) | Value::Embedded | Value::Raw(_) | Value::Large(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::Hash(_) => "hash",
            Value::ZSet(_) => "zset",
            Value::Stream(_) => "stream",
        }
    }

    /// What OBJECT ENCODING answers for collections.
    pub(crate) fn encoding(&self) -> &'static str {
        match self {
            Value::Int(_) => "int",
            Value::Embedded | Value::Raw(_) | Value::Large(_) => "raw",
            Value::List(_) => "quicklist",
            Value::Set(set) => set.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::ZSet(zset) => zset.encoding(),
            Value::Stream(_) => "stream",
        }
    }

    /// Bytes on the heap, the box included.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Value::Int(_) | Value::Embedded => 0,
            Value::Raw(bytes) => 24 + alloc_bytes(bytes.capacity()),
            Value::Large(bytes) => 40 + alloc_bytes(bytes.capacity()),
            Value::List(v) => v.heap_bytes(),
            Value::Set(v) => v.heap_bytes(),
            Value::Hash(v) => v.heap_bytes(),
            Value::ZSet(v) => v.heap_bytes(),
            Value::Stream(v) => v.heap_bytes(),
        }
    }

    /// How much work freeing it is, in elements; what is large is worth freeing lazily.
    pub(crate) fn effort(&self) -> usize {
        match self {
            Value::Int(_) | Value::Embedded | Value::Raw(_) | Value::Large(_) => 1,
            Value::List(v) => v.size(),
            Value::Set(v) => v.size(),
            Value::Hash(v) => v.size(),
            Value::ZSet(v) => v.size(),
            Value::Stream(v) => v.size(),
        }
    }
}

/// A collection type: how to find it in a [`Value`] and how to make one.
pub(crate) trait Kind: Sized {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    /// Elements in it; a collection of none is removed from the keyspace (streams excepted).
    fn size(&self) -> usize;
    /// Bytes on the heap, its own box included.
    fn heap_bytes(&self) -> usize;
}

macro_rules! kind {
    ($type:ident) => {
        impl Kind for $type {
            fn of(value: &Value) -> Option<&$type> {
                match value {
                    Value::$type(v) => Some(v),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut $type> {
                match value {
                    Value::$type(v) => Some(v),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$type(Box::new(self))
            }

            fn size(&self) -> usize {
                self.len() as usize
            }

            fn heap_bytes(&self) -> usize {
                size_of::<$type>() + self.mem_bytes()
            }
        }
    };
}

kind!(List);
kind!(Set);
kind!(Hash);
kind!(ZSet);
kind!(Stream);
