//! Detects which features the server has by asking it.

use redis::{Value, cmd};

use super::Client;
use crate::error::{Error, Result};

/// Implementation of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flavour {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
    /// Seawall's own engine.
    Seawall,
}

/// The server's implementation, version and features.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// The implementation.
    pub flavour: Flavour,
    /// The version; for Valkey its own version, not the Redis version it claims to be compatible
    /// with.
    pub version: (u32, u32, u32),
    /// `true` if the server has channels that stay within a shard (`SPUBLISH`).
    pub sharded_messages: bool,
    /// `true` if the server has server-side functions (`FUNCTION`).
    pub functions: bool,
    /// `true` if hash fields can have a TTL (`HEXPIRE`).
    pub field_lifetimes: bool,
}

impl Capabilities {
    /// Queries a server.
    pub(super) async fn ask(client: &Client) -> Result<Self> {
        let info: String = client.query(b"", cmd("INFO").arg("server")).await?;
        let mut commands = cmd("COMMAND");
        commands.arg("INFO").arg("SPUBLISH").arg("FUNCTION").arg("HEXPIRE");
        // An unknown command is a nil, an empty array or missing: only an entry with the name
        // counts. A server that refuses COMMAND is assumed to know none of them.
        let known: Vec<Value> = match client.query(b"", &commands).await {
            Err(Error::Refused { .. }) => Vec::new(),
            known => known?,
        };
        let has = |name: &str| known.iter().any(|entry| is_entry_of(entry, name));
        let field = |name: &str| {
            info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
        };
        let (flavour, version) = match (field("valkey_version"), field("seawall_version")) {
            (Some(version), _) => (Flavour::Valkey, version),
            (_, Some(version)) => (Flavour::Seawall, version),
            _ => (Flavour::Redis, field("redis_version").unwrap_or_default()),
        };
        Ok(Capabilities {
            flavour,
            version: parse_version(version),
            sharded_messages: has("spublish"),
            functions: has("function"),
            field_lifetimes: has("hexpire"),
        })
    }
}

fn is_entry_of(entry: &Value, name: &str) -> bool {
    let Value::Array(entry) = entry else { return false };
    let named: Option<String> =
        entry.first().and_then(|name| redis::from_redis_value_ref(name).ok());
    named.is_some_and(|named| named.eq_ignore_ascii_case(name))
}

fn parse_version(text: &str) -> (u32, u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    (part(), part(), part())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version("7.0.15"), (7, 0, 15));
        assert_eq!(parse_version("9.1"), (9, 1, 0));
        assert_eq!(parse_version("unstable"), (0, 0, 0));
    }
}
