//! Glob patterns, as KEYS, SCAN, PSUBSCRIBE, CONFIG GET and ACL understand them.
//!
//! `*` any bytes, `?` one byte, `[abc]`, `[a-z]`, `[^…]` classes, `\` takes the next byte
//! literally. Patterns come from clients, so matching neither recurses nor goes back more than
//! one star: every token but `*` takes exactly one byte, hence once a later star is reached an
//! earlier one never needs to grow. The cost is at most pattern times text.
//!
//! The corners are Redis' (7.0) and are kept on purpose:
//! - no pattern but the empty one matches the empty text, not even `*`;
//! - an unterminated class ends with the pattern; `[a-` has no range, `[a-]` has one that runs
//!   from `]` to `a` and leaves the class open;
//! - ranges compare bytes as signed, and swap their ends before folding case; folding makes
//!   the bytes above ASCII unsigned;
//! - an escaped byte inside a class is compared with its case, even when case is ignored.

/// Whether letters match their other case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    /// Bytes must be equal.
    Sensitive,
    /// ASCII letters match both cases.
    Insensitive,
}

/// Whether `pattern` matches all of `text`.
pub(crate) fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut position) = (0, 0);
    // Where to resume if a byte fails: behind the last star, one text byte further.
    let mut resume: Option<(usize, usize)> = None;
    while position < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += stars(&pattern[at..]);
            if at == pattern.len() {
                return true;
            }
            resume = Some((at, position));
            continue;
        }
        match take_one(&pattern[at..], text[position], case) {
            Some(length) => {
                at += length;
                position += 1;
            }
            None => {
                let Some((after_star, tried)) = resume else { return false };
                resume = Some((after_star, tried + 1));
                (at, position) = (after_star, tried + 1);
            }
        }
    }
    at + stars(&pattern[at..]) == pattern.len()
}

fn stars(pattern: &[u8]) -> usize {
    pattern.iter().take_while(|&&byte| byte == b'*').count()
}

/// Length of the token at the start of the pattern if it takes `byte`.
fn take_one(pattern: &[u8], byte: u8, case: Case) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => {
            let (taken, length) = class_takes(class, byte, case);
            taken.then_some(1 + length)
        }
        [b'\\', literal, ..] => equal(literal, byte, case).then_some(2),
        [literal, ..] => equal(literal, byte, case).then_some(1),
    }
}

/// Whether a class (behind its bracket) takes the byte, and the length up to its end.
fn class_takes(class: &[u8], byte: u8, case: Case) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut taken = false;
    loop {
        match class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                taken |= literal == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                taken |= in_range(first, last, byte, case);
                at += 3;
            }
            [literal, ..] => {
                taken |= equal(literal, byte, case);
                at += 1;
            }
        }
    }
    (taken != negated, at)
}

fn in_range(first: u8, last: u8, byte: u8, case: Case) -> bool {
    let [mut low, mut high] = [first as i8, last as i8];
    if low > high {
        (low, high) = (high, low);
    }
    // The C library folds the bytes above ASCII to themselves as unsigned, except the last.
    let fold = |value: i8| match (case, value) {
        (Case::Sensitive, _) | (_, -1) => i16::from(value),
        (Case::Insensitive, _) => i16::from(value.cast_unsigned().to_ascii_lowercase()),
    };
    (fold(low)..=fold(high)).contains(&fold(byte as i8))
}

fn equal(left: u8, right: u8, case: Case) -> bool {
    match case {
        Case::Sensitive => left == right,
        Case::Insensitive => left.eq_ignore_ascii_case(&right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn yes(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Sensitive)
    }

    #[test]
    fn ordinary_patterns() {
        for (pattern, text, expected) in [
            ("*", "anything", true),
            ("user:*", "user:7", true),
            ("user:*", "user", false),
            ("user:*", "user:", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\?llo", "h?llo", true),
            ("h\\?llo", "hello", false),
            ("*a*b*c*", "xxaxxbxxcxx", true),
            ("*a*b*c*", "xxaxxcxxbxx", false),
            ("a**c", "abc", true),
            ("*abc", "ababc", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(yes(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn corners_are_those_of_the_reference() {
        for (pattern, text, expected) in [
            ("*", "", false),
            ("", "", true),
            ("", "a", false),
            ("[", "a", false),
            ("[^", "a", true),
            ("[a", "a", true),
            ("[a-", "-", true),
            ("[a-]", "^", true),
            ("[a-]b", "b", true),
            ("[]", "]", false),
            ("[]]", "]", false),
            ("[^]", "a", true),
            ("[\\]]", "]", true),
            ("[\\", "\\", true),
            ("[a\\-z]", "-", true),
            ("*[^", "ab", true),
        ] {
            assert_eq!(yes(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn case_folds_outside_escapes_in_classes() {
        let folded = |pattern: &str, text: &str| {
            matches(pattern.as_bytes(), text.as_bytes(), Case::Insensitive)
        };
        assert!(folded("MaxMem*", "maxmemory"));
        assert!(folded("[A-C]x", "bX"));
        assert!(folded("\\A", "a"));
        assert!(!folded("[\\A]", "a"));
        assert!(!yes("ABC", "abc"));
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = "a*".repeat(40) + "b";
        assert!(!yes(&pattern, &"a".repeat(10_000)));
    }

    proptest! {
        #[test]
        fn a_text_with_every_byte_escaped_matches_itself(text in prop::collection::vec(any::<u8>(), 1..20)) {
            let pattern: Vec<u8> = text.iter().flat_map(|&byte| [b'\\', byte]).collect();
            prop_assert!(matches(&pattern, &text, Case::Sensitive));
        }

        #[test]
        fn no_pattern_panics(pattern in "[\\]\\[*?^a-c\\\\-]{0,16}", text in "[\\]a-c^-]{0,16}") {
            matches(pattern.as_bytes(), text.as_bytes(), Case::Insensitive);
        }
    }
}
