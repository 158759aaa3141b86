//! Validated changes of a user's own profile.
//!
//! A field that is absent is not changed. Text lengths are counted in Unicode characters. Control
//! characters and characters that change the writing direction are refused, so that no value breaks
//! or reverses a line of a log or list.

use seawall::social::Day;

use crate::{
    check,
    error::{Error, Result},
};

/// Allowed length of a name, in characters.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=32;
const CITY_CHARS: usize = 64;
const INTRODUCE_CHARS: usize = 128;

/// A validated profile change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub(super) nick_name: Option<String>,
    pub(super) icon: Option<String>,
    pub(super) city: Option<String>,
    pub(super) introduce: Option<String>,
    pub(super) gender: Option<i64>,
    /// An empty string clears the birthday.
    pub(super) birthday: Option<String>,
}

/// Gender in a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gender {
    /// Not specified: 0.
    Untold,
    /// Male: 1.
    Male,
    /// Female: 2.
    Female,
}

impl Gender {
    /// Parses the number used by columns and clients: 0, 1 or 2.
    ///
    /// # Errors
    /// [`Error::BadInput`] for any other number.
    pub fn parse(number: i64) -> Result<Self> {
        match number {
            0 => Ok(Gender::Untold),
            1 => Ok(Gender::Male),
            2 => Ok(Gender::Female),
            _ => Err(bad("gender is 0 (not told), 1 (male) or 2 (female)")),
        }
    }

    /// Returns the number stored in the column.
    #[must_use]
    pub fn number(self) -> i64 {
        match self {
            Gender::Untold => 0,
            Gender::Male => 1,
            Gender::Female => 2,
        }
    }
}

impl Change {
    /// Sets the name.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the name is empty, too long or not printable.
    pub fn nick_name(mut self, name: &str) -> Result<Self> {
        let name = name.trim();
        let fits = NAME_CHARS.contains(&name.chars().count());
        if !fits || !is_shown(name) || !check::is_seen(name) {
            return Err(bad("nickName is 1 to 32 characters on one line that can be seen"));
        }
        self.nick_name = Some(name.to_owned());
        Ok(self)
    }

    /// Sets the picture to a path on this service; an empty path removes it.
    ///
    /// # Errors
    /// [`Error::BadInput`] for any other path.
    pub fn icon(mut self, path: &str) -> Result<Self> {
        if !path.is_empty() && !check::is_picture(path) {
            return Err(no_icon());
        }
        self.icon = Some(path.to_owned());
        Ok(self)
    }

    /// Sets the city; an empty string removes it.
    ///
    /// # Errors
    /// [`Error::BadInput`] if it is too long or not printable.
    pub fn city(mut self, city: &str) -> Result<Self> {
        let city = city.trim();
        if city.chars().count() > CITY_CHARS || !is_shown(city) {
            return Err(bad("city is at most 64 characters on one line"));
        }
        self.city = Some(city.to_owned());
        Ok(self)
    }

    /// Sets the introduction; an empty string removes it.
    ///
    /// # Errors
    /// [`Error::BadInput`] if it is too long or not printable.
    pub fn introduce(mut self, words: &str) -> Result<Self> {
        let words = words.trim();
        if words.chars().count() > INTRODUCE_CHARS || !is_shown(words) {
            return Err(bad("introduce is at most 128 characters on one line"));
        }
        self.introduce = Some(words.to_owned());
        Ok(self)
    }

    /// Sets the gender.
    #[must_use]
    pub fn gender(mut self, gender: Gender) -> Self {
        self.gender = Some(gender.number());
        self
    }

    /// Sets the birthday, such as `1990-12-31`; an empty string removes it.
    ///
    /// # Errors
    /// [`Error::BadInput`] if the day does not exist or is after `today`.
    pub fn birthday(mut self, day: &str, today: Day) -> Result<Self> {
        // `Day` also parses without dashes, but the column stores them.
        let dashed = day.len() == 10;
        let past = day.parse::<Day>().is_ok_and(|day| day <= today);
        if !(day.is_empty() || dashed && past) {
            return Err(bad("birthday is a day that was, such as 1990-12-31, or empty"));
        }
        self.birthday = Some(day.to_owned());
        Ok(self)
    }
}

/// Returns `true` if the text is a single line without deceptive characters.
fn is_shown(text: &str) -> bool {
    let breaks = |one| matches!(one, '\u{2028}' | '\u{2029}');
    !text.chars().any(|one| check::is_deceptive(one) || breaks(one))
}

/// Returns the error for a path that is malformed or has no picture.
pub(super) fn no_icon() -> Error {
    bad("icon is a path that POST /upload/image answered, or empty")
}

fn bad(sentence: &str) -> Error {
    Error::bad("BAD_PROFILE", sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_in_characters_and_shown_on_one_line() {
        let name = |name: &str| Change::default().nick_name(name).map(|change| change.nick_name);
        assert_eq!(name(" 小明 ").ok().flatten().as_deref(), Some("小明"));
        assert!(name(&"名".repeat(32)).is_ok());
        for bad in [
            "",
            "   ",
            "a\nb",
            "a\u{0}b",
            "a\u{2028}b",
            "Ada\u{202e}nimda",
            "\u{3164}",
            "\u{200b}\u{200d}",
            &"名".repeat(33),
        ] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn birthdays_are_days_that_were() {
        let today = "2026-11-16".parse::<Day>().expect("a day");
        let birthday = |day: &str| Change::default().birthday(day, today);
        for good in ["", "2026-11-16", "2000-02-29", "1970-01-01"] {
            assert!(birthday(good).is_ok(), "{good}");
        }
        for bad in ["2026-11-17", "20001231", "2001-02-29", "yesterday", "2000-1-1"] {
            assert!(birthday(bad).is_err(), "{bad}");
        }
    }
}
