//! Numbers as Redis reads and prints them.
//!
//! Redis relies on C's `strtod`, `strtold`, `strtoull` and `printf`, and clients see the results
//! byte for byte: which texts are accepted, how a score is printed, what `INCRBYFLOAT` answers
//! after a thousand additions of 0.1. This module has those rules in safe Rust, independent of the
//! platform's C library and of whether the machine has an 80-bit float:
//!
//! - [`parse_i64`], [`parse_u64_lenient`], [`parse_memory`]: whole numbers;
//! - [`parse_f64`] (strict) and [`strtod`] (C's prefix rule, for commands that use it bare);
//! - [`format_f64`], [`format_double_reply`], [`format_f`], [`format_fixed`],
//!   [`format_human`];
//! - [`Extended`]: the x87 long double of the `INCRBYFLOAT` family and of geo coordinates.
//!
//! Invariant: nothing here panics or allocates more than a small multiple of its input.

mod big;
mod binary;
mod extended;
mod float;
mod format;
mod integer;
mod literal;

pub(crate) use extended::Extended;
pub(crate) use float::{parse_f64, parse_f64_lenient, strtod};
pub(crate) use format::{
    format_double_reply, format_f, format_f64, format_fixed, format_g, format_human, integral,
};
pub(crate) use integer::{atoi, parse_i64, parse_memory, parse_u64_lenient};
