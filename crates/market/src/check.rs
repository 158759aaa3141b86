//! Validation of user input, shared by the features: one message for each kind of mistake.
//!
//! Lengths are counted in characters, as the columns count them. Control characters are refused,
//! and so are characters that change the direction of the following text: no name needs them, and
//! they can mislead a reader of a log, a list or a terminal. A text that is not empty must contain
//! something visible.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use crate::error::{Error, Result};

/// Validates a text by its length in characters and trims it. Line breaks are allowed.
///
/// # Errors
/// [`Error::BadInput`] names the field and the allowed values.
pub(crate) fn text(field: &str, value: &str, chars: RangeInclusive<usize>) -> Result<String> {
    let value = value.trim();
    if value.chars().any(|one| is_deceptive(one) && one != '\n') {
        return Err(Error::bad("BAD_TEXT", format!("{field} has control characters")));
    }
    if !value.is_empty() && !is_seen(value) {
        return Err(Error::bad("BAD_TEXT", format!("{field} has nothing that can be seen")));
    }
    if !chars.contains(&value.chars().count()) {
        let (least, most) = (chars.start(), chars.end());
        return Err(Error::bad("BAD_TEXT", format!("{field} has {least} to {most} characters")));
    }
    Ok(value.to_owned())
}

/// Returns `true` if a character controls how others are shown: control characters, and those that
/// change the writing direction (Unicode's Bidi_Control).
pub(crate) fn is_deceptive(one: char) -> bool {
    one.is_control()
        || matches!(one, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `true` if the text has a visible character: not only whitespace and characters without a
/// glyph. The latter are allowed beside visible ones, because some scripts and emoji need them.
pub(crate) fn is_seen(text: &str) -> bool {
    text.chars().any(|one| !one.is_whitespace() && !is_deceptive(one) && !is_shapeless(one))
}

/// Unicode's Default_Ignorable_Code_Point: fillers, joiners, selectors and tags; and the blank
/// Braille pattern.
fn is_shapeless(one: char) -> bool {
    matches!(one,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Validates a whole number by its range.
///
/// # Errors
/// [`Error::BadInput`] names the field and the allowed range.
pub(crate) fn number(field: &str, value: i64, allowed: RangeInclusive<i64>) -> Result<i64> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(Error::bad("BAD_NUMBER", format!("{field} is from {least} to {most}")))
}

/// Parses an RFC 3339 time to milliseconds since the epoch; earlier times are refused.
///
/// # Errors
/// [`Error::BadInput`] names the field.
pub(crate) fn time(field: &str, value: &str) -> Result<i64> {
    let time = value.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    time.filter(|millis| *millis >= 0).ok_or_else(|| {
        let msg = format!("{field} is a time such as 2026-01-31T20:00:00+08:00");
        Error::bad("BAD_TIME", msg)
    })
}

/// Folders of pictures on this service: uploaded and generated ones.
const PICTURES: [&str; 2] = ["/uploads/", "/pictures/"];
/// Maximum length of a picture path, as the columns allow.
const PATH_CHARS: usize = 255;

/// Returns `true` if the path names a picture on this service: no way out of its folder, no
/// external address.
pub(crate) fn is_picture(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    path.len() <= PATH_CHARS
        && path.bytes().all(plain)
        && !path.contains("..")
        && !path.contains("//")
        && PICTURES.iter().any(|folder| path.len() > folder.len() && path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_our_own() {
        for good in ["/uploads/ab/0f.png", "/pictures/user/1.svg"] {
            assert!(is_picture(good), "{good}");
        }
        let long = format!("/uploads/{}", "a".repeat(250));
        for bad in [
            "",
            "/uploads/",
            "//evil.example/x",
            "https://x",
            "/uploads/../x",
            "/uploads//x",
            &long,
        ] {
            assert!(!is_picture(bad), "{bad}");
        }
    }

    #[test]
    fn text_is_trimmed_and_counted_in_characters() {
        assert_eq!(text("name", "  水  ", 1..=1).ok().as_deref(), Some("水"));
        for bad in ["", "   ", "水水", "\u{1b}", "\0"] {
            assert!(text("name", bad, 1..=1).is_err(), "{bad:?}");
        }
        assert!(text("rules", "a\nb", 0..=3).is_ok());
    }

    #[test]
    fn what_is_said_can_be_seen_and_does_not_lie() {
        for good in ["a", "水", "👩‍👩‍👧", "❤️", "می‌خواهم", "नहीं", "e\u{301}", "a\u{200b}b", "."]
        {
            assert!(is_seen(good) && !good.chars().any(is_deceptive), "{good:?}");
        }
        for unseen in ["", " ", "\u{3000}", "\u{200b}", "\u{3164}\u{3164}", "\u{2800}", "\u{feff}"]
        {
            assert!(!is_seen(unseen), "{unseen:?}");
            assert!(text("name", unseen, 1..=9).is_err(), "{unseen:?}");
        }
        for lie in ["a\u{202e}b", "\u{2066}a", "a\u{200f}", "a\u{7}"] {
            assert!(text("name", lie, 1..=9).is_err(), "{lie:?}");
        }
        assert!(text("rules", "", 0..=9).is_ok());
    }

    #[test]
    fn times_have_an_offset() {
        assert_eq!(time("t", "1970-01-01T08:00:01+08:00").ok(), Some(1_000));
        for bad in ["", "now", "1970-01-01", "1970-01-01T00:00:00", "1969-12-31T00:00:00Z", "1"] {
            assert!(time("t", bad).is_err(), "{bad}");
        }
    }
}
