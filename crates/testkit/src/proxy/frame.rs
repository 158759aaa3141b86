//! Finds the ends of requests and replies without copying them: a large value must not slow the
//! proxy down.

use super::rules::Command;

/// Maximum nesting of a reply.
const MAX_DEPTH: usize = 128;

/// What is at the front of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front<T> {
    /// One complete item and its length.
    Whole(T, usize),
    /// The beginning of an item.
    Partial,
    /// Not part of the protocol.
    Foreign,
}

/// Parses the request at the front of `input`: an array of bulk strings, or a line of words.
pub(super) fn request(input: &[u8]) -> Front<Command> {
    let Some((line, mut at)) = line(input, 0) else { return Front::Partial };
    let Some(count) = line.strip_prefix(b"*") else {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Front::Whole(words.map(<[u8]>::to_vec).collect(), at);
    };
    let Some(count) = number(count) else { return Front::Foreign };
    let mut command = Command::new();
    for _ in 0..count.max(0) {
        let Some((header, start)) = self::line(input, at) else { return Front::Partial };
        let Some(Ok(length)) = header.strip_prefix(b"$").and_then(number).map(usize::try_from)
        else {
            return Front::Foreign;
        };
        if input.len() < start.saturating_add(length).saturating_add(2) {
            return Front::Partial;
        }
        command.push(input[start..start + length].to_vec());
        at = start + length + 2;
    }
    Front::Whole(command, at)
}

/// Returns the length of the reply at the front of `input`.
pub(super) fn reply(input: &[u8]) -> Front<()> {
    match skip(input, 0, 0) {
        Ok(Some(end)) => Front::Whole((), end),
        Ok(None) => Front::Partial,
        Err(Foreign) => Front::Foreign,
    }
}

struct Foreign;

/// Returns the end of the reply that begins at `at`; `None` if it has not arrived yet.
fn skip(input: &[u8], at: usize, depth: usize) -> Result<Option<usize>, Foreign> {
    let Some((line, mut end)) = line(input, at) else { return Ok(None) };
    let Some((kind, rest)) = line.split_first() else { return Err(Foreign) };
    let nested = match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => return Ok(Some(end)),
        b'$' | b'=' | b'!' => {
            let Ok(length) = usize::try_from(number(rest).ok_or(Foreign)?) else {
                return Ok(Some(end));
            };
            end = end.saturating_add(length).saturating_add(2);
            return Ok((input.len() >= end).then_some(end));
        }
        b'*' | b'~' | b'>' => number(rest).ok_or(Foreign)?,
        b'%' | b'|' => number(rest).ok_or(Foreign)?.saturating_mul(2),
        _ => return Err(Foreign),
    };
    if depth == MAX_DEPTH {
        return Err(Foreign);
    }
    for _ in 0..nested.max(0) {
        match skip(input, end, depth + 1)? {
            Some(next) => end = next,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

/// Returns the line that begins at `at`, and where the next one begins.
fn line(input: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let rest = input.get(at..)?;
    let end = rest.iter().position(|&byte| byte == b'\n')?;
    let line = &rest[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), at + end + 1))
}

fn number(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Front, reply, request};

    #[test]
    fn requests_end_where_they_end() {
        let wire = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\nPING x\r\n";
        for end in 0..21 {
            assert_eq!(request(&wire[..end]), Front::Partial, "{end}");
        }
        assert_eq!(request(wire), Front::Whole(vec![b"GET".to_vec(), b"\r\n".to_vec()], 21));
        assert_eq!(request(b"PING x\r\n"), Front::Whole(vec![b"PING".to_vec(), b"x".to_vec()], 8));
        assert_eq!(request(b"*1\r\n:1\r\n"), Front::Foreign);
    }

    #[test]
    fn replies_end_where_they_end() {
        let wire: &[u8] = b"*4\r\n$-1\r\n%1\r\n+a\r\n:1\r\n>1\r\n,1.5\r\n=5\r\ntxt:a\r\n";
        for end in 0..wire.len() {
            assert_eq!(reply(&wire[..end]), Front::Partial, "{end}");
        }
        assert_eq!(reply(wire), Front::Whole((), wire.len()));
        assert_eq!(reply(b"?\r\n"), Front::Foreign);
        assert_eq!(reply("*1\r\n".repeat(1000).as_bytes()), Front::Foreign);
    }
}
