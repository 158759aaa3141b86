//! Turns values into bytes and back: the codec, and compression around it.
//!
//! Entries of another shape (`shape`), of a codec that this one does not read, or with damage are
//! misses.

use std::{
    error::Error as StdError,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use seawall_client::error::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    encoder::panic_text,
    entry::Tags,
    shape::fields_of,
    value_tags::{ValueTagsOf, all_tags},
};
use crate::CacheValue;

/// An error of a codec.
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// Writes values as bytes and reads them again. [`MessagePack`] and [`Json`] do so for every type that
/// serde knows; implement it for others, for example Protocol Buffers.
///
/// All processes that share a cache must use codecs that read each other's bytes, or they replace each
/// other's entries.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use seawall::{Seawall, cache::{Cache, Codec, CodecError}};
///
/// // A type that serde does not know.
/// struct Celsius(f32);
///
/// struct Floats;
///
/// impl Codec<Celsius> for Floats {
///     fn id(&self) -> u8 {
///         16
///     }
///     fn name(&self) -> &'static str {
///         "f32"
///     }
///     fn encode(&self, value: &Celsius) -> Result<Vec<u8>, CodecError> {
///         Ok(value.0.to_be_bytes().to_vec())
///     }
///     fn decode(&self, bytes: &[u8]) -> Result<Celsius, CodecError> {
///         Ok(Celsius(f32::from_be_bytes(bytes.try_into()?)))
///     }
/// }
///
/// let seawall = Seawall::connect("embedded:").await?;
/// let weather: Cache<String, Celsius> = seawall.cache("weather").codec(Floats).build()?;
/// weather.put("Lisbon", &Celsius(21.5)).await?;
/// # seawall.shutdown().await; Ok(()) }
/// ```
pub trait Codec<V>: Send + Sync + 'static {
    /// Returns the number of the format that it writes, which is stored with each entry: 1 for JSON, 2
    /// for MessagePack with field names, 16 to 63 for a format of your own.
    fn id(&self) -> u8;

    /// Returns the name that [`Cache::explain`](crate::Cache::explain) shows.
    fn name(&self) -> &'static str;

    /// Writes a value.
    ///
    /// # Errors
    /// If it cannot be written; it is then not cached.
    fn encode(&self, value: &V) -> Result<Vec<u8>, CodecError>;

    /// Reads what [`encode`](Codec::encode) wrote.
    ///
    /// # Errors
    /// If it cannot be read; the entry is then a miss.
    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError>;

    /// Reads bytes of the codec with this number. Override it to read several formats, for example the
    /// former one after a change; then [`fingerprint`](Codec::fingerprint) must be the former one's,
    /// too. Default: only this codec's.
    ///
    /// # Errors
    /// As [`decode`](Codec::decode).
    fn decode_as(&self, id: u8, bytes: &[u8]) -> Result<V, CodecError> {
        if id == self.id() { self.decode(bytes) } else { Err("of another codec".into()) }
    }

    /// Returns a fingerprint of the type's shape: entries with another one are misses. Default: 0; raise
    /// [`CacheBuilder::schema`](crate::CacheBuilder::schema) when the type changes.
    fn fingerprint(&self) -> u32 {
        0
    }
}

/// MessagePack with field names: compact, and other languages read it.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessagePack;

/// JSON: readable with `redis-cli`.
#[cfg(feature = "json")]
#[derive(Debug, Clone, Copy, Default)]
pub struct Json;

/// The built-in codecs read each other's bytes: a cache may change from one to the other.
fn decode_built_in<V: DeserializeOwned>(id: u8, bytes: &[u8]) -> Result<V, CodecError> {
    match id {
        #[cfg(feature = "json")]
        JSON => Ok(serde_json::from_slice(bytes)?),
        MESSAGE_PACK => Ok(rmp_serde::from_slice(bytes)?),
        _ => Err("of another codec".into()),
    }
}

impl<V: Serialize + DeserializeOwned> Codec<V> for MessagePack {
    fn id(&self) -> u8 {
        MESSAGE_PACK
    }

    fn name(&self) -> &'static str {
        "messagepack"
    }

    fn encode(&self, value: &V) -> Result<Vec<u8>, CodecError> {
        Ok(rmp_serde::to_vec_named(value)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        self.decode_as(MESSAGE_PACK, bytes)
    }

    fn decode_as(&self, id: u8, bytes: &[u8]) -> Result<V, CodecError> {
        decode_built_in(id, bytes)
    }

    fn fingerprint(&self) -> u32 {
        fields_of::<V>()
    }
}

#[cfg(feature = "json")]
impl<V: Serialize + DeserializeOwned> Codec<V> for Json {
    fn id(&self) -> u8 {
        JSON
    }

    fn name(&self) -> &'static str {
        "json"
    }

    fn encode(&self, value: &V) -> Result<Vec<u8>, CodecError> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        self.decode_as(JSON, bytes)
    }

    fn decode_as(&self, id: u8, bytes: &[u8]) -> Result<V, CodecError> {
        decode_built_in(id, bytes)
    }

    fn fingerprint(&self) -> u32 {
        fields_of::<V>()
    }
}

/// For a codec that is chosen at run time.
impl<V: 'static, C: Codec<V> + ?Sized> Codec<V> for Box<C> {
    fn id(&self) -> u8 {
        (**self).id()
    }

    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn encode(&self, value: &V) -> Result<Vec<u8>, CodecError> {
        (**self).encode(value)
    }

    fn decode(&self, bytes: &[u8]) -> Result<V, CodecError> {
        (**self).decode(bytes)
    }

    fn decode_as(&self, id: u8, bytes: &[u8]) -> Result<V, CodecError> {
        (**self).decode_as(id, bytes)
    }

    fn fingerprint(&self) -> u32 {
        (**self).fingerprint()
    }
}

const JSON: u8 = 1;
const MESSAGE_PACK: u8 = 2;
/// The first number that is free for users.
const FIRST_FREE: u8 = 16;
const COMPRESSED: u8 = 0x80;
/// The entry holds a manifest; the value lies elsewhere, in parts.
pub(crate) const IN_PARTS: u8 = 0x40;

/// Checks the number of a codec.
pub(crate) fn check_id(id: u8) -> Result<(), String> {
    if matches!(id, JSON | MESSAGE_PACK) || (FIRST_FREE..IN_PARTS).contains(&id) {
        return Ok(());
    }
    let last = IN_PARTS - 1;
    Err(format!("the id of its codec is {id}; it must be 1, 2 or from {FIRST_FREE} to {last}"))
}

/// Everything about turning a cache's values into bytes and back; a cheap clone.
pub(crate) struct Format<V> {
    pub(crate) codec: Arc<dyn Codec<V>>,
    #[cfg_attr(not(feature = "lz4"), expect(dead_code, reason = "nothing is compressed"))]
    pub(crate) compress_above_bytes: usize,
    pub(crate) max_value_bytes: usize,
    /// See `shape`.
    pub(crate) shape: u32,
    /// See `value_tags`.
    pub(crate) value_tags: Option<ValueTagsOf<V>>,
}

impl<V> Clone for Format<V> {
    fn clone(&self) -> Self {
        Format { codec: Arc::clone(&self.codec), value_tags: self.value_tags.clone(), ..*self }
    }
}

/// Bytes of a value, and the codec byte that says how to read them.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) codec: u8,
    pub(crate) bytes: Vec<u8>,
}

impl<V> Format<V> {
    /// Returns the hashes of an entry's tags. Returns `None` if computing them panics: such a value is not
    /// cached.
    #[inline]
    pub(crate) fn tags(&self, of_key: &Tags, value: Option<&V>) -> Option<Tags> {
        all_tags(of_key, self.value_tags.as_ref(), value)
            .inspect_err(|error| {
                tracing::warn!(error, "value_tags panicked: a value is not cached");
            })
            .ok()
    }
}

impl<V: CacheValue> Format<V> {
    /// Encodes a value.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it cannot be written or is larger than the cache allows.
    pub(crate) fn encode(&self, value: &V) -> Result<Encoded> {
        let (codec, name) = (self.codec.id(), self.codec.name());
        let encoded = catch_unwind(AssertUnwindSafe(|| self.codec.encode(value)));
        let encoded = encoded.unwrap_or_else(|panic| Err(panic_text(&*panic).into()));
        let bytes = encoded.map_err(|error| {
            Error::Invalid(format!("a value cannot be written as {name}: {error}"))
        })?;
        if bytes.len() > self.max_value_bytes {
            return Err(Error::Invalid(format!(
                "a value of {} bytes is larger than max_value_bytes, {}",
                bytes.len(),
                self.max_value_bytes
            )));
        }
        #[cfg(feature = "lz4")]
        if bytes.len() > self.compress_above_bytes {
            let packed = lz4_flex::compress_prepend_size(&bytes);
            if packed.len() < bytes.len() {
                return Ok(Encoded { codec: codec | COMPRESSED, bytes: packed });
            }
        }
        Ok(Encoded { codec, bytes })
    }

    /// Decodes a value. Returns `None` if the bytes cannot be decoded with this codec, or if it panics:
    /// an entry that cannot be read is a miss, and is replaced.
    pub(crate) fn decode(&self, codec: u8, bytes: &[u8]) -> Option<V> {
        catch_unwind(AssertUnwindSafe(|| self.decode_any(codec, bytes))).ok().flatten()
    }

    fn decode_any(&self, codec: u8, bytes: &[u8]) -> Option<V> {
        if codec & COMPRESSED == 0 {
            return self.codec.decode_as(codec, bytes).ok();
        }
        let claimed = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        // Nothing is allocated for what a damaged entry merely claims.
        if claimed > self.max_value_bytes {
            return None;
        }
        self.codec.decode_as(codec & !COMPRESSED, &unpack(bytes)?).ok()
    }

    /// Names what an entry's codec byte says, for people.
    pub(crate) fn describe(&self, codec: u8) -> String {
        let name = match codec & !(COMPRESSED | IN_PARTS) {
            0 => "none",
            JSON => "json",
            MESSAGE_PACK => "messagepack",
            id if id == self.codec.id() => self.codec.name(),
            _ => "unknown",
        };
        if codec & COMPRESSED == 0 { name.to_owned() } else { format!("{name}+lz4") }
    }
}

#[cfg(feature = "lz4")]
fn unpack(bytes: &[u8]) -> Option<Vec<u8>> {
    lz4_flex::decompress_size_prepended(bytes).ok()
}

/// What another process compressed is a miss.
#[cfg(not(feature = "lz4"))]
fn unpack(_: &[u8]) -> Option<Vec<u8>> {
    None
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Shop {
        name: String,
        scores: Vec<u32>,
    }

    fn format(codec: impl Codec<Shop>) -> Format<Shop> {
        Format {
            codec: Arc::new(codec),
            compress_above_bytes: 100,
            max_value_bytes: 10_000,
            shape: 7,
            value_tags: None,
        }
    }

    #[test]
    fn values_come_back_plain_and_compressed() {
        for format in [format(Json), format(MessagePack)] {
            for count in [1, 2000] {
                let shop = Shop { name: "tea".into(), scores: vec![1; count] };
                let encoded = format.encode(&shop).expect("it is small enough");
                assert_eq!(encoded.codec & COMPRESSED != 0, count == 2000);
                assert_eq!(format.decode(encoded.codec, &encoded.bytes), Some(shop));
            }
        }
    }

    #[test]
    fn too_large_damaged_and_strange_values_are_refused() {
        let huge = Shop { name: "x".repeat(20_000), scores: vec![] };
        let error = format(Json).encode(&huge).expect_err("over the limit");
        assert!(error.to_string().contains("max_value_bytes"));
        assert_eq!(format(Json).decode(9, b"{}"), None);
        for (id, good) in [(0, false), (1, true), (3, false), (15, false), (16, true), (64, false)]
        {
            assert_eq!(check_id(id).is_ok(), good, "{id}");
        }
        assert_eq!(format(Json).decode(1 | COMPRESSED, &[0xff; 40]), None);
        assert_eq!(format(Json).decode(2, &[0xc1]), None);
    }
}
