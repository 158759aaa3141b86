//! Splits lines into words and literals: the common part of commands and expected replies.

/// A cursor over one line.
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
}

/// Maximum words of one `{a..b}`.
const MAX_EXPANSION: i64 = 100_000;
/// Maximum length of one `"x"*n`.
const MAX_REPEAT_BYTES: usize = 64 << 20;

impl<'a> Lexer<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { rest: line.as_bytes() }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn skip_spaces(&mut self) {
        while let [b' ' | b'\t', tail @ ..] = self.rest {
            self.rest = tail;
        }
    }

    /// Consumes `token` if it is next.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token.as_bytes()) {
            Some(tail) => {
                self.rest = tail;
                true
            }
            None => false,
        }
    }

    /// Consumes a word of letters and hyphens if it is exactly `word`.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
        match self.rest.strip_prefix(word.as_bytes()) {
            Some(tail) if !tail.first().is_some_and(goes_on) => {
                self.rest = tail;
                true
            }
            _ => false,
        }
    }

    /// Consumes everything up to a byte for which `stop` holds.
    pub(super) fn take_until(&mut self, stop: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.rest.iter().position(|&b| stop(b)).unwrap_or(self.rest.len());
        let (taken, tail) = self.rest.split_at(end);
        self.rest = tail;
        taken
    }

    /// Parses a string in double quotes, with escapes and an optional `*count` after it.
    pub(super) fn quoted(&mut self) -> Result<Vec<u8>, String> {
        if !self.eat("\"") {
            return Err("expected a string in double quotes".into());
        }
        let mut escaped = false;
        let end = self.rest.iter().position(|&byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let end = end.ok_or("a string without its closing quote")?;
        let bytes = unescape(&self.rest[..end])?;
        self.rest = &self.rest[end + 1..];
        if !self.eat("*") {
            return Ok(bytes);
        }
        let digits = self.take_until(|b| !b.is_ascii_digit());
        let count: usize = text(digits).parse().map_err(|_| "expected a count after `\"..\"*`")?;
        match bytes.len().checked_mul(count) {
            Some(length) if length <= MAX_REPEAT_BYTES => Ok(bytes.repeat(count)),
            _ => Err(format!("a repeated string above {MAX_REPEAT_BYTES} bytes")),
        }
    }

    /// Parses all words that remain on the line.
    pub(super) fn words(&mut self) -> Result<Vec<Vec<u8>>, String> {
        let mut words = Vec::new();
        loop {
            self.skip_spaces();
            match self.rest {
                [] => return Ok(words),
                [b'"', ..] => words.push(self.quoted()?),
                [b'\'', tail @ ..] => {
                    let end = tail.iter().position(|&b| b == b'\'');
                    let end = end.ok_or("a word without its closing quote")?;
                    words.push(tail[..end].to_vec());
                    self.rest = &tail[end + 1..];
                }
                _ => expand(self.take_until(|b| b == b' ' || b == b'\t'), &mut words)?,
            }
        }
    }
}

/// `{1..3}` becomes `1 2 3`; `k{1..3}` becomes `k1 k2 k3`; other words stay.
fn expand(word: &[u8], words: &mut Vec<Vec<u8>>) -> Result<(), String> {
    let range = || {
        let text = std::str::from_utf8(word).ok()?;
        let (head, inner) = text.strip_suffix('}')?.split_once('{')?;
        let (from, to) = inner.split_once("..")?;
        Some((head, from.parse::<i64>().ok()?, to.parse::<i64>().ok()?))
    };
    let Some((head, from, to)) = range() else {
        words.push(word.to_vec());
        return Ok(());
    };
    if to.saturating_sub(from) > MAX_EXPANSION {
        return Err(format!("more than {MAX_EXPANSION} words"));
    }
    words.extend((from..=to).map(|n| format!("{head}{n}").into_bytes()));
    Ok(())
}

/// Undoes `\n`, `\r`, `\t`, `\"`, `\\` and `\xNN`.
pub(super) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let [kind, tail @ ..] = rest else { return Err("a backslash at the end".into()) };
        rest = tail;
        out.push(match kind {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'"' | b'\\' => *kind,
            b'x' => {
                let [high, low, tail @ ..] = rest else { return Err("\\x without digits".into()) };
                rest = tail;
                let digit = |b: u8| (b as char).to_digit(16).ok_or("\\x without digits");
                u8::try_from(digit(*high)? * 16 + digit(*low)?).expect("two hex digits")
            }
            other => return Err(format!("unknown escape \\{}", *other as char)),
        });
    }
    Ok(out)
}

/// Converts bytes of a line that came from a `str`, cut at ASCII only, back to text.
pub(super) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_quote_repeat_and_expand() {
        let words = Lexer::new(r#"SET "a\x00\n" 'x "y"' "ab"*2 k{1..2} {x}"#).words().unwrap();
        let expected: [&[u8]; 7] = [b"SET", b"a\0\n", b"x \"y\"", b"abab", b"k1", b"k2", b"{x}"];
        assert_eq!(words, expected);
        for broken in [r#""a"#, "'a", r#""\x1""#, r#""\q""#, r#""a"*"#, "{1..999999999}"] {
            assert!(Lexer::new(broken).words().is_err(), "{broken}");
        }
    }
}
