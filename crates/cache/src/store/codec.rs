//! Encodes and decodes values: codec and compression.
//!
//! Entries of another shape (`shape`), codec, or with damage are misses.

use seawall_client::error::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Codec {
    /// MessagePack with field names: compact, and other languages read it.
    #[default]
    MessagePack,
    /// JSON: readable with `redis-cli` (feature `json`).
    #[cfg(feature = "json")]
    Json,
}

const COMPRESSED: u8 = 0x80;
/// The entry holds a manifest; the value lies elsewhere, in parts.
pub(crate) const IN_PARTS: u8 = 0x40;

impl Codec {
    const fn id(self) -> u8 {
        match self {
            #[cfg(feature = "json")]
            Codec::Json => 1,
            Codec::MessagePack => 2,
        }
    }
}

/// Names what an entry's codec byte says, for people.
pub(crate) const fn describe(codec: u8) -> &'static str {
    match (codec & !(COMPRESSED | IN_PARTS), codec & COMPRESSED != 0) {
        (1, false) => "json",
        (1, true) => "json+lz4",
        (2, false) => "messagepack",
        (2, true) => "messagepack+lz4",
        (0, false) => "none",
        _ => "unknown",
    }
}

/// Everything about turning a cache's values into bytes and back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Format {
    pub(crate) codec: Codec,
    #[cfg_attr(not(feature = "lz4"), expect(dead_code, reason = "nothing is compressed"))]
    pub(crate) compress_above_bytes: usize,
    pub(crate) max_value_bytes: usize,
    /// See `shape`.
    pub(crate) shape: u32,
}

/// Bytes of a value, and the codec byte that says how to read them.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) codec: u8,
    pub(crate) bytes: Vec<u8>,
}

impl Format {
    /// Encodes a value.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it cannot be written or is larger than the cache allows.
    pub(crate) fn encode<V: Serialize>(&self, value: &V) -> Result<Encoded> {
        let bytes = match self.codec {
            #[cfg(feature = "json")]
            Codec::Json => serde_json::to_vec(value).map_err(|error| error.to_string()),
            Codec::MessagePack => rmp_serde::to_vec_named(value).map_err(|error| error.to_string()),
        };
        let bytes = bytes.map_err(|error| {
            Error::Invalid(format!("a value cannot be written as {:?}: {error}", self.codec))
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
                return Ok(Encoded { codec: self.codec.id() | COMPRESSED, bytes: packed });
            }
        }
        Ok(Encoded { codec: self.codec.id(), bytes })
    }

    /// Decodes a value. Returns `None` if the bytes cannot be decoded with this codec.
    pub(crate) fn decode<V: DeserializeOwned>(&self, codec: u8, bytes: &[u8]) -> Option<V> {
        if codec & COMPRESSED == 0 {
            return self.decode_plain(codec, bytes);
        }
        let claimed = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        // Nothing is allocated for what a damaged entry merely claims.
        if claimed > self.max_value_bytes {
            return None;
        }
        self.decode_plain(codec & !COMPRESSED, &unpack(bytes)?)
    }

    fn decode_plain<V: DeserializeOwned>(&self, codec: u8, bytes: &[u8]) -> Option<V> {
        match codec {
            #[cfg(feature = "json")]
            1 => serde_json::from_slice(bytes).ok(),
            2 => rmp_serde::from_slice(bytes).ok(),
            _ => None,
        }
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

    fn format(codec: Codec) -> Format {
        Format { codec, compress_above_bytes: 100, max_value_bytes: 10_000, shape: 7 }
    }

    #[test]
    fn values_come_back_plain_and_compressed() {
        for codec in [Codec::Json, Codec::MessagePack] {
            for count in [1, 2000] {
                let shop = Shop { name: "tea".into(), scores: vec![1; count] };
                let encoded = format(codec).encode(&shop).expect("it is small enough");
                assert_eq!(encoded.codec & COMPRESSED != 0, count == 2000);
                assert_eq!(format(codec).decode::<Shop>(encoded.codec, &encoded.bytes), Some(shop));
            }
        }
    }

    #[test]
    fn too_large_damaged_and_strange_values_are_refused() {
        let huge = Shop { name: "x".repeat(20_000), scores: vec![] };
        let error = format(Codec::Json).encode(&huge).expect_err("over the limit");
        assert!(error.to_string().contains("max_value_bytes"));
        assert_eq!(format(Codec::Json).decode::<Shop>(9, b"{}"), None);
        assert_eq!(format(Codec::Json).decode::<Shop>(1 | COMPRESSED, &[0xff; 40]), None);
        assert_eq!(format(Codec::Json).decode::<Shop>(2, &[0xc1]), None);
    }
}
