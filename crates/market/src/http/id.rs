//! Ids over HTTP: 64 bits, sent as JSON strings, because numbers beyond 2^53 lose digits in
//! browsers.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Type, schema::Schema},
};

/// A 64-bit id: a string in responses; a string or a whole number in requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(crate) u64);

impl Id {
    /// Accepts digits only: `+1` and ` 1` are not ids. The highest bit of an id is clear.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let id: i64 = digits.then(|| text.parse().ok())??;
        u64::try_from(id).ok().map(Id)
    }
}

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl de::Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an id: a whole number, as text or as a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
        Id::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
        let fits = i64::try_from(number).is_ok();
        fits.then_some(Id(number))
            .ok_or_else(|| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }
}

impl ToSchema for Id {
    fn name() -> Cow<'static, str> {
        "Id".into()
    }
}

impl PartialSchema for Id {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[0-9]{1,19}$"))
            .description(Some("An id of 64 bits, as text."))
            .examples(["1"]);
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_digits_of_63_bits() {
        assert_eq!(Id::parse("0"), Some(Id(0)));
        assert_eq!(Id::parse("9223372036854775807"), Some(Id(i64::MAX.unsigned_abs())));
        for bad in ["", "-1", "+1", " 1", "1.0", "0x1", "9223372036854775808", "１"] {
            assert_eq!(Id::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn bodies_may_carry_text_or_numbers() {
        let read = serde_json::from_str::<Id>;
        assert_eq!(read("\"7\"").ok(), Some(Id(7)));
        assert_eq!(read("7").ok(), Some(Id(7)));
        for bad in ["-7", "7.5", "\"7.5\"", "null", "9223372036854775808", "[]"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
