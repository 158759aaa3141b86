//! What somebody may change of their own profile, and which values make sense.
//!
//! Left out means left alone. Texts are counted in characters, as people count, and carry no control
//! characters nor any that turn the direction of writing, so that nothing in a log or a list breaks its
//! line or turns it round.

use seawall::social::Day;

use crate::{
    check,
    error::{Error, Result},
};

/// Shortest and longest name.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 1..=32;
const CITY_CHARS: usize = 64;
const INTRODUCE_CHARS: usize = 128;

/// A change that makes sense.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub(super) nick_name: Option<String>,
    pub(super) icon: Option<String>,
    pub(super) city: Option<String>,
    pub(super) introduce: Option<String>,
    pub(super) gender: Option<i64>,
    /// Empty to forget it.
    pub(super) birthday: Option<String>,
}

/// How somebody wishes to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gender {
    /// Not told.
    Untold,
    /// 1.
    Male,
    /// 2.
    Female,
}

impl Gender {
    /// As columns and clients write it: 0, 1 or 2.
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

    /// The number in its column.
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
    /// Another name.
    ///
    /// # Errors
    /// [`Error::BadInput`] for one that is empty, too long or cannot be shown.
    pub fn nick_name(mut self, name: &str) -> Result<Self> {
        let name = name.trim();
        let fits = NAME_CHARS.contains(&name.chars().count());
        if !fits || !is_shown(name) || !check::is_seen(name) {
            return Err(bad("nickName is 1 to 32 characters on one line that can be seen"));
        }
        self.nick_name = Some(name.to_owned());
        Ok(self)
    }

    /// Another picture: a path of ours; empty for none.
    ///
    /// # Errors
    /// [`Error::BadInput`] for anything else.
    pub fn icon(mut self, path: &str) -> Result<Self> {
        if !path.is_empty() && !check::is_picture(path) {
            return Err(no_icon());
        }
        self.icon = Some(path.to_owned());
        Ok(self)
    }

    /// Another city; empty for none.
    ///
    /// # Errors
    /// [`Error::BadInput`] when it is too long or cannot be shown.
    pub fn city(mut self, city: &str) -> Result<Self> {
        let city = city.trim();
        if city.chars().count() > CITY_CHARS || !is_shown(city) {
            return Err(bad("city is at most 64 characters on one line"));
        }
        self.city = Some(city.to_owned());
        Ok(self)
    }

    /// Other words about oneself; empty for none.
    ///
    /// # Errors
    /// [`Error::BadInput`] when they are too long or cannot be shown.
    pub fn introduce(mut self, words: &str) -> Result<Self> {
        let words = words.trim();
        if words.chars().count() > INTRODUCE_CHARS || !is_shown(words) {
            return Err(bad("introduce is at most 128 characters on one line"));
        }
        self.introduce = Some(words.to_owned());
        Ok(self)
    }

    /// Another gender.
    #[must_use]
    pub fn gender(mut self, gender: Gender) -> Self {
        self.gender = Some(gender.number());
        self
    }

    /// Another birthday, such as `1990-12-31`; empty to forget it.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a day that is none, or is after `today`.
    pub fn birthday(mut self, day: &str, today: Day) -> Result<Self> {
        // A day parses without its dashes as well; the column has them.
        let dashed = day.len() == 10;
        let past = day.parse::<Day>().is_ok_and(|day| day <= today);
        if !(day.is_empty() || dashed && past) {
            return Err(bad("birthday is a day that was, such as 1990-12-31, or empty"));
        }
        self.birthday = Some(day.to_owned());
        Ok(self)
    }
}

/// Whether it is on one line, and is shown as it is.
fn is_shown(text: &str) -> bool {
    let breaks = |one| matches!(one, '\u{2028}' | '\u{2029}');
    !text.chars().any(|one| check::is_deceptive(one) || breaks(one))
}

/// Says that a path is none of a picture, by its looks or because there is none.
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
