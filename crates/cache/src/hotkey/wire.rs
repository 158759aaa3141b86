//! What lies in Redis and what is said on the channel.
//!
//! | | |
//! | --- | --- |
//! | `hot-keys:{SHARD}` | a hash: the hot keys of one of eight shards, each with a line |
//! | `hot-window:{SHARD}:KEY` | reads of a candidate in a sliding window (see `script/report.lua`) |
//! | channel `hot-keys` | a key became hot, or cool |
//!
//! All of them after the prefix of the handle; KEY is the entry's whole key, prefix included. A line
//! is text, its times are milliseconds of the server's clock:
//!
//! ```text
//! SINCE UNTIL READS WRITES SOURCES VERSION REASON LEVEL WINDOW
//! ```
//!
//! READS within the last WINDOW milliseconds in all processes, WRITES since it is hot, SOURCES
//! processes that read it, the newest VERSION of the entry that one of them had, REASON `counted` or
//! `declared`, LEVEL 2 when it is read from copies too, else 1. A line whose UNTIL is past is not hot
//! any more. Messages:
//!
//! ```text
//! 'h' ' ' NOW ' ' LINE ' ' KEY         hot
//! 'c' ' ' KEY                          cool
//! ```
//!
//! The shard of a key is a hash of it, so that counting is spread over slots, and no slot becomes
//! what it is to find.

use std::{str::SplitN, time::Duration};

use seawall_resilience::clock::millis;
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

/// How many slots the fleet's counts are spread over.
pub(super) const SHARDS: u64 = 8;

/// Returns which shard counts a key.
pub(super) fn shard(key: &[u8]) -> u64 {
    xxh3_64(key) % SHARDS
}

/// Why a key is hot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[non_exhaustive]
#[serde(rename_all = "snake_case")]
pub enum HotReason {
    /// It is read often.
    Counted,
    /// It was declared hot.
    Declared,
}

/// A hot key, as the fleet sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HotKey {
    /// The entry's key in Redis; bytes that are no text are replaced. [`HotKey::bytes`] has them.
    pub key: String,
    /// The same, as it is.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// Reads in all processes within the last [`HotKey::window`].
    pub reads: u64,
    /// Over how long those were counted.
    #[serde(rename = "window_millis", serialize_with = "as_millis")]
    pub window: Duration,
    /// Writes and invalidations since it is hot.
    pub writes: u64,
    /// How many processes read it.
    pub sources: u32,
    /// The newest version of its entry that one of them had; 0 when none had any.
    pub version: u64,
    /// Since when it is hot: milliseconds of the server's clock since the Unix epoch.
    pub since_millis: u64,
    /// For how long it stays hot if it is no longer read.
    #[serde(rename = "left_millis", serialize_with = "as_millis")]
    pub left: Duration,
    /// Why it is hot.
    pub reason: HotReason,
    /// Whether its cache reads it from copies on several nodes.
    pub spread: bool,
}

fn as_millis<S: serde::Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(millis(*time))
}

impl HotKey {
    /// Parses a line of the hash. Returns `None` if it is none, or past.
    pub(super) fn parse(key: &[u8], line: &[u8], now: u64) -> Option<Self> {
        let mut fields = std::str::from_utf8(line).ok()?.splitn(9, ' ');
        let hot = Self::fields(key, &mut fields, now)?;
        (!hot.left.is_zero()).then_some(hot)
    }

    fn fields(key: &[u8], fields: &mut SplitN<'_, char>, now: u64) -> Option<Self> {
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (since_millis, until, reads, writes) = (number()?, number()?, number()?, number()?);
        let (sources, version) = (number()?, number()?);
        let reason = match fields.next()? {
            "counted" => HotReason::Counted,
            "declared" => HotReason::Declared,
            _ => return None,
        };
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (level, window) = (number()?, number()?);
        Some(HotKey {
            key: String::from_utf8_lossy(key).into_owned(),
            bytes: key.to_vec(),
            reads,
            window: Duration::from_millis(window),
            writes,
            sources: u32::try_from(sources).unwrap_or(u32::MAX),
            version,
            since_millis,
            left: Duration::from_millis(until.saturating_sub(now)),
            reason,
            spread: level >= 2,
        })
    }
}

/// What is said on the channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message {
    Hot(HotKey),
    Cool(Vec<u8>),
}

impl Message {
    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let (kind, rest) = message.split_first_chunk::<2>()?;
        match kind {
            b"c " => Some(Message::Cool(rest.to_vec())),
            b"h " => {
                let mut parts = rest.splitn(11, |&byte| byte == b' ');
                let now = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
                let fields: Vec<&[u8]> = parts.collect();
                let (key, line) = fields.split_last()?;
                HotKey::parse(key, &line.join(&b' '), now).map(Message::Hot)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_whatever_the_key_is() {
        let message = b"h 1000 900 4000 52 3 2 77 counted 2 1000 shop: a\xff b";
        let Some(Message::Hot(hot)) = Message::parse(message) else { panic!("a message") };
        assert_eq!(hot.bytes, b"shop: a\xff b");
        assert_eq!((hot.since_millis, hot.reads, hot.writes, hot.sources), (900, 52, 3, 2));
        assert_eq!((hot.version, hot.left), (77, Duration::from_secs(3)));
        assert!(hot.spread && hot.reason == HotReason::Counted);
        assert_eq!(Message::parse(b"c a b"), Some(Message::Cool(b"a b".to_vec())));
    }

    #[test]
    fn strange_messages_and_lines_are_ignored() {
        for message in [
            &b""[..],
            b"h",
            b"h ",
            b"h x",
            b"z 1",
            b"h 1 2 3 4 5 6 7 why 1 1 k",
            b"h 1 2 3 4 5 6 7 counted 1",
            b"h 9 0 5 0 0 0 0 counted 1 1000 past",
        ] {
            assert_eq!(Message::parse(message), None, "{message:?}");
        }
        assert_eq!(HotKey::parse(b"k", b"", 0), None);
    }
}
