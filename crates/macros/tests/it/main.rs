//! The macros on the embedded engine. What they refuse is tested where it is refused, in `src/`: the
//! messages are the same, and nothing has to be compiled for them.

#![deny(warnings, clippy::all, clippy::pedantic)]

mod cached;
mod invalidates;
mod keys;
mod world;
