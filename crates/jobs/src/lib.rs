//! Work that is done in the background and not lost: [`stream`]s with consumer groups, and [`queue`]s.

pub mod queue;
pub mod stream;
