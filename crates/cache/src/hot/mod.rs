//! What hot keys mean to a cache.

pub(crate) mod heat;
