//! Reading payloads.
//!
//! A payload is whatever somebody put into Redis, and how it is read is the caller's: a `Deserialize`
//! that panics at one payload is treated as one that refuses it. Otherwise that payload would end the
//! loop that claims for all the others, again after every restart.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use serde::de::DeserializeOwned;

/// Reads a payload, or says why it cannot be read.
pub(super) fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, String> {
    // Nothing of ours is shared with the decoder: the bytes are only read.
    match catch_unwind(AssertUnwindSafe(|| serde_json::from_slice(json))) {
        Ok(read) => read.map_err(|error: serde_json::Error| error.to_string()),
        Err(panic) => Err(format!("its decoder panicked: {}", words(&*panic))),
    }
}

fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}
