//! Decodes payloads.

use serde::de::DeserializeOwned;

use crate::worker::decoded;

/// Decodes a payload, or returns the reason why it cannot be decoded.
pub(super) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    decoded(|| serde_json::from_slice(json).map_err(|error| error.to_string()))
}
