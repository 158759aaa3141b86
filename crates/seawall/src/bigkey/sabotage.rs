//! Bugs that can be planted, to prove that the checkers notice (feature `sabotage`).
//!
//! The names are always there; what plants them is not.

/// A known bug in a cache's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PartsBug {
    /// The manifest is stored before its parts are there.
    ManifestFirst,
    /// All versions use the same parts, and nobody checks what was put together.
    InPlace,
}

/// A known bug in how a collection grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BucketBug {
    /// Members leave their old bucket before they are in the new one.
    UnsealFirst,
}
