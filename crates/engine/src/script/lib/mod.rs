//! The libraries that Redis bundles for scripts, and what of Lua's own could exhaust the native
//! stack or run for ever, written over mlua's safe API.
//!
//! Each file builds one table of functions. They behave as the C libraries do,
//! their limits and messages included, but work without recursion on the data
//! of a script, so nothing a script passes in can exhaust the native stack.

pub(crate) mod bit;
pub(crate) mod cjson;
mod cjson_decode;
mod cjson_encode;
pub(crate) mod cmsgpack;
mod cmsgpack_decode;
mod pattern;
pub(crate) mod strings;
pub(crate) mod struct_;
