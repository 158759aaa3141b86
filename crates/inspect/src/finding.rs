//! One key that was examined.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use seawall_client::error::{Error, Result};

use super::{Kind, Severity};

/// A key, its size, and its other properties.
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
    /// The server or file in which it was found.
    pub node: Arc<str>,
    /// The number of its database.
    pub database: u32,
    /// Remaining lifetime; `None` if it never expires.
    pub lifetime: Option<Duration>,
    /// Time since its last use, where the server knows it.
    pub idle: Option<Duration>,
    /// Severity by the thresholds.
    pub severity: Severity,
}

impl Finding {
    /// Returns the key as text, as [`key_text`] writes it.
    #[must_use]
    pub fn key_text(&self) -> String {
        key_text(&self.key)
    }
}

/// Converts a key to text without loss: valid UTF-8 stays, other bytes and control characters
/// become `\xNN`, a backslash becomes `\\`.
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

/// Converts text of [`key_text`] back to the key.
///
/// `\xNN` is that byte, `\\` is a backslash, and every other byte is itself, even if it is not
/// valid UTF-8.
///
/// ```
/// use seawall::survey::{key_of_text, key_text};
///
/// let key = b"caf\xc3\xa9:\x00\xff\\";
/// assert_eq!(key_of_text(key_text(key).as_bytes())?, key);
/// # Ok::<(), seawall::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] if a backslash does not begin an escape: guessing its meaning could name
/// another key.
pub fn key_of_text(text: &[u8]) -> Result<Vec<u8>> {
    let mut key = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        let byte = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                rest = tail;
                b'\\'
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                rest = tail;
                digit(*high)
                    .zip(digit(*low))
                    .map(|(high, low)| high << 4 | low)
                    .ok_or_else(wrong)?
            }
            (b'\\', _) => return Err(wrong()),
            (other, _) => *other,
        };
        key.push(byte);
    }
    Ok(key)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn wrong() -> Error {
    let sentence =
        "a backslash in a key is written \\\\, and a byte \\xNN with two hexadecimal digits";
    Error::Invalid(sentence.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read_as_it_is_written() {
        let all: Vec<u8> = (0..=255).collect();
        let long = "caf\u{e9} \u{202e}\u{85}\u{10ffff} \\x41 \\\\".as_bytes();
        for key in [&b""[..], &all, long, b"b\xffk", b"\\", b"\\x4", b"\xe2\x82", b" a b "] {
            assert_eq!(key_of_text(key_text(key).as_bytes()).expect("it is written so"), key);
        }
        // As a user may type it: capital digits, and raw bytes.
        assert_eq!(key_of_text(br"b\xFFk").expect("it is right"), b"b\xffk");
        assert_eq!(key_of_text(b"b\xffk").expect("it is right"), b"b\xffk");
    }

    #[test]
    fn a_backslash_that_begins_nothing_is_refused() {
        for text in [r"\", r"a\b", r"\x", r"\x4", r"\x4g", r"\x+4", r"\\\", r"\u0041"] {
            key_of_text(text.as_bytes()).expect_err(text);
        }
    }
}
