//! Decodes payloads.
//!
//! A payload may have been written by any program, and its `Deserialize` implementation is the
//! caller's. If that implementation panics on a payload, the payload is treated as undecodable.
//! Otherwise one such payload would end the loop that claims all the others, again after every
//! restart.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::de::DeserializeOwned;

/// Decodes a payload, or returns the reason why it cannot be decoded.
pub(super) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    // Unwind safe: the decoder shares no state with this crate and only reads the bytes.
    match catch_unwind(AssertUnwindSafe(|| serde_json::from_slice(json))) {
        Ok(read) => read.map_err(|error: serde_json::Error| error.to_string()),
        Err(panic) => Err(format!("its decoder panicked: {}", words(&*panic))),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}
