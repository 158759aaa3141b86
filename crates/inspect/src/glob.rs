//! Patterns as in `KEYS` and `SCAN`, for keys that are not matched by a server.
//!
//! `*`, `?`, `[a-c]`, `[^x]`, `\` before any of these. One `*` is remembered at a time, so that no
//! pattern takes more than pattern × text steps.

/// Returns `true` if a text matches a pattern.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to continue if the part after the last star does not match: the star takes one more
    // byte.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        match one(&pattern[p.min(pattern.len())..], text[t]) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match &mut star {
                Some((after, taken)) => {
                    *taken += 1;
                    (p, t) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[p.min(pattern.len())..].iter().all(|&byte| byte == b'*')
}

/// Returns the length of the pattern's first element if it matches this byte.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => class(pattern, byte),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    // A class without an end extends to the end of the pattern.
    while let Some(&first) = pattern.get(at) {
        match first {
            b']' => break,
            b'\\' if at + 1 < pattern.len() => {
                at += 1;
                found |= pattern[at] == byte;
            }
            _ if pattern.get(at + 1) == Some(&b'-') && at + 2 < pattern.len() => {
                let last = pattern[at + 2];
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 2;
            }
            _ => found |= first == byte,
        }
        at += 1;
    }
    (found != negated).then_some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("user:*", "user:1", true),
            ("user:*", "shop:1", false),
            ("h?llo", "hello", true),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("a*b*c", "axxbxxc", true),
            ("a*b*c", "axxbxx", false),
            (r"\*", "*", true),
            (r"\*", "a", false),
            ("**", "anything", true),
            ("[", "x", false),
            ("", "x", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let hostile = "*a".repeat(200);
        assert!(!matches(hostile.as_bytes(), "a".repeat(150).as_bytes()));
    }
}
