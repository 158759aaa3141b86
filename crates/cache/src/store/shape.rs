//! The shape of a cache's values, as a number in every entry.
//!
//! Releases that run side by side share their entries. The number says whether one can read what the
//! other wrote, and which of them is newer:
//!
//! - The *schema* is stated by the user and ordered. An entry of an older schema is a miss and is
//!   replaced. An entry of a newer one is left alone: the older release reads past the cache.
//! - The *fields* are a hash of what the type's `Deserialize` asks for: the names of a struct's fields
//!   or an enum's variants, through options, lists and newtypes. Where they differ under the same
//!   schema an entry is a miss, so that a changed type is not read as if nothing had happened. Neither
//!   release is known to be newer then, and each replaces what the other wrote.
//!
//! The type's own name and path do not count: a type may move.

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error as _, SeqAccess, Visitor};

/// The largest schema number.
pub(crate) const MAX_SCHEMA: u32 = (1 << SCHEMA_BITS) - 1;
const SCHEMA_BITS: u32 = 12;
const FIELD_BITS: u32 = 14;
/// Tells numbers of this kind from whatever else may be there.
const MARK: u32 = 0b10_1101;

/// Returns a hash of the fields of a type.
pub(crate) fn fields_of<V: DeserializeOwned>() -> u32 {
    let mut fields = Vec::new();
    // It always fails: the probe has no values to give.
    let _ = V::deserialize(Probe(&mut fields));
    xxhash_rust::xxh3::xxh3_64(&fields) as u32
}

/// Returns the number of a shape: a mark, the schema, and a part of the hash of the fields, from high
/// to low.
pub(crate) fn shape(schema: u32, fields: u32) -> u32 {
    let fields = fields & ((1 << FIELD_BITS) - 1);
    MARK << (SCHEMA_BITS + FIELD_BITS) | schema.min(MAX_SCHEMA) << FIELD_BITS | fields
}

/// Returns whether an entry of the shape `theirs` was written by a newer release than `ours`.
pub(crate) const fn is_newer(theirs: u32, ours: u32) -> bool {
    theirs >> (SCHEMA_BITS + FIELD_BITS) == MARK && theirs >> FIELD_BITS > ours >> FIELD_BITS
}

/// A deserializer that writes down what it is asked for and then gives up.
struct Probe<'a>(&'a mut Vec<u8>);

type Stop = serde::de::value::Error;

impl Probe<'_> {
    fn note(&mut self, kind: u8, names: &[&str]) -> Stop {
        self.0.push(kind);
        let mut names = names.to_vec();
        // Their order in the source does not matter to readers by name.
        names.sort_unstable();
        for name in names {
            self.0.extend_from_slice(name.as_bytes());
            self.0.push(0);
        }
        Stop::custom("seen")
    }
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
        Err(Stop::custom("no value"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Stop> {
        Err(self.note(b's', fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Stop> {
        Err(self.note(b'e', variants))
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        let _ = self.note(b'?', &[]);
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Stop> {
        let _ = self.note(b'[', &[]);
        visitor.visit_seq(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct map identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Probe<'_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Stop> {
        seed.deserialize(Probe(self.0)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    fn shape_of<V: DeserializeOwned>(schema: u32) -> u32 {
        shape(schema, fields_of::<V>())
    }

    mod old {
        #[derive(serde::Deserialize)]
        pub(super) struct Price {
            #[serde(default)]
            #[expect(dead_code, reason = "only its name counts")]
            pub(super) cents: u64,
        }
    }

    mod moved {
        #[derive(serde::Deserialize)]
        pub(super) struct Amount {
            #[expect(dead_code, reason = "only its name counts")]
            cents: u64,
        }
    }

    #[derive(Deserialize)]
    struct Price {
        #[serde(default)]
        #[expect(dead_code, reason = "only its name counts")]
        euros: u64,
    }

    /// Asks for itself without end, were it given anything.
    #[derive(Deserialize)]
    struct Tree {
        #[expect(dead_code, reason = "only its name counts")]
        children: Vec<Tree>,
    }

    #[test]
    fn a_type_may_move_and_its_fields_may_not_change() {
        assert_eq!(shape_of::<old::Price>(0), shape_of::<moved::Amount>(0));
        assert_ne!(shape_of::<old::Price>(0), shape_of::<Price>(0));
        assert_ne!(shape_of::<Vec<old::Price>>(0), shape_of::<Vec<Price>>(0));
        assert_ne!(shape_of::<Option<old::Price>>(0), shape_of::<old::Price>(0));
        assert_ne!(shape_of::<old::Price>(0), shape_of::<old::Price>(1));
        let _ = shape_of::<Tree>(0);
    }

    #[test]
    fn schemas_are_ordered_and_anything_else_is_not() {
        let (old, new) = (shape_of::<old::Price>(1), shape_of::<Price>(2));
        assert!(is_newer(new, old) && !is_newer(old, new) && !is_newer(new, new));
        assert!(!is_newer(shape_of::<Price>(1), old) && !is_newer(old, shape_of::<Price>(1)));
        for foreign in [0, 1, u32::MAX] {
            assert!(!is_newer(foreign, old), "{foreign}");
        }
        assert!(is_newer(shape_of::<Price>(MAX_SCHEMA), shape_of::<Price>(MAX_SCHEMA - 1)));
    }
}
