//! One key that was looked at.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use super::{Kind, Severity};

/// A key, its size, and what else was learnt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The key, byte for byte.
    pub key: Arc<[u8]>,
    /// Its type.
    pub kind: Kind,
    /// Memory of key and value: by `MEMORY USAGE`, or estimated from a file.
    pub bytes: u64,
    /// Members, fields, entries; for a string its length; 0 for a module's type.
    pub members: u64,
    /// Where it was seen.
    pub node: Arc<str>,
    /// The number of its database.
    pub database: u32,
    /// How long it still lives; `None` for ever.
    pub lifetime: Option<Duration>,
    /// How long nobody used it, where the server knows.
    pub idle: Option<Duration>,
    /// By the thresholds.
    pub severity: Severity,
}

impl Finding {
    /// The key as text, as [`key_text`] writes it.
    #[must_use]
    pub fn key_text(&self) -> String {
        key_text(&self.key)
    }
}

/// A key as text that loses nothing: UTF-8 as it is, `\xNN` for other bytes and for control
/// characters, `\\` for a backslash.
///
/// ```
/// assert_eq!(seawall::survey::key_text(b"caf\xc3\xa9:\x00\xff\\"), r"café:\x00\xff\\");
/// ```
#[must_use]
pub fn key_text(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() => {
                    let mut bytes = [0; 4];
                    for byte in c.encode_utf8(&mut bytes).bytes() {
                        // Writing to a string cannot fail.
                        let _ = write!(text, "\\x{byte:02x}");
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
