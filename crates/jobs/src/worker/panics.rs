//! Panics of the caller's code, as texts.
//!
//! Handlers and decoders are the caller's, and their input may come from any program. A panic must not
//! end the task that serves all other items, again after every restart.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Runs a decoder. A panic is a reason why the payload cannot be decoded.
pub(crate) fn decoded<T>(decode: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // Unwind safe: the decoder shares no state with this crate and only reads the bytes.
    catch_unwind(AssertUnwindSafe(decode))
        .unwrap_or_else(|panic| Err(format!("its decoder panicked: {}", words(&*panic))))
}

/// Returns the text of a panic.
pub(crate) fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}
