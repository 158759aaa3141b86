//! Checks of what people type in, shared by the features: one sentence for each kind of mistake.
//!
//! Lengths are counted in characters, as the columns count them. Control characters are refused: no
//! name needs them, and they can lie to whoever reads a log or a terminal.

use std::ops::RangeInclusive;

use jiff::Timestamp;

use crate::error::{Error, Result};

/// Text of so many characters, without blanks around it. Line breaks are allowed.
///
/// # Errors
/// [`Error::BadInput`] names the field and what is allowed.
pub(crate) fn text(field: &str, value: &str, chars: RangeInclusive<usize>) -> Result<String> {
    let value = value.trim();
    if value.chars().any(|one| one.is_control() && one != '\n') {
        return Err(Error::bad("BAD_TEXT", format!("{field} has control characters")));
    }
    if !chars.contains(&value.chars().count()) {
        let (least, most) = (chars.start(), chars.end());
        return Err(Error::bad("BAD_TEXT", format!("{field} has {least} to {most} characters")));
    }
    Ok(value.to_owned())
}

/// A whole number within bounds.
///
/// # Errors
/// [`Error::BadInput`] names the field and what is allowed.
pub(crate) fn number(field: &str, value: i64, allowed: RangeInclusive<i64>) -> Result<i64> {
    if allowed.contains(&value) {
        return Ok(value);
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(Error::bad("BAD_NUMBER", format!("{field} is from {least} to {most}")))
}

/// A time of RFC 3339, in milliseconds since the epoch; not before it.
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

/// Where our pictures lie: those that people sent, and those that we draw.
const PICTURES: [&str; 2] = ["/uploads/", "/pictures/"];
/// Longest path of a picture, as columns hold it.
const PATH_CHARS: usize = 255;

/// Whether this is the path of a picture of ours: no way out of its folder, no address elsewhere.
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
    fn times_have_an_offset() {
        assert_eq!(time("t", "1970-01-01T08:00:01+08:00").ok(), Some(1_000));
        for bad in ["", "now", "1970-01-01", "1970-01-01T00:00:00", "1969-12-31T00:00:00Z", "1"] {
            assert!(time("t", bad).is_err(), "{bad}");
        }
    }
}
