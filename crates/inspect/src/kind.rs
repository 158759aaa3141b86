//! The types that a key can have.

use std::fmt;

/// The type of a key, as `TYPE` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A string, a counter, a bitmap, a HyperLogLog.
    String,
    /// A list.
    List,
    /// A set.
    Set,
    /// A sorted set, a geo set.
    Zset,
    /// A hash.
    Hash,
    /// A stream.
    Stream,
    /// The type of a module.
    Other,
}

impl Kind {
    /// All types.
    pub const ALL: [Kind; 7] =
        [Kind::String, Kind::List, Kind::Set, Kind::Zset, Kind::Hash, Kind::Stream, Kind::Other];

    /// Returns the name that `TYPE` uses; `other` for modules.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::Zset => "zset",
            Kind::Hash => "hash",
            Kind::Stream => "stream",
            Kind::Other => "other",
        }
    }

    /// Returns the type with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Parses the reply of `TYPE`. Returns `None` if there is no such key.
    pub(super) fn of_reply(name: &str) -> Option<Kind> {
        match name {
            "none" => None,
            name => Some(Kind::of_name(name).unwrap_or(Kind::Other)),
        }
    }

    /// Returns the command that counts its members; for a string, its bytes.
    pub(super) const fn length_command(self) -> Option<&'static str> {
        match self {
            Kind::String => Some("STRLEN"),
            Kind::List => Some("LLEN"),
            Kind::Set => Some("SCARD"),
            Kind::Zset => Some("ZCARD"),
            Kind::Hash => Some("HLEN"),
            Kind::Stream => Some("XLEN"),
            Kind::Other => None,
        }
    }

    pub(super) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
