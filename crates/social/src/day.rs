//! Days and months of the calendar, for keys and streaks.
//!
//! The current day depends on the time zone, so nothing here reads a clock: the caller passes the
//! day, or a time with the offset of its zone. Proleptic Gregorian calendar, years 1970 to 9999.

use std::{fmt, str::FromStr};

use seawall_client::error::{Error, Result};

const SECONDS_A_DAY: i64 = 86_400;
/// 9999-12-31.
const LAST: i64 = 2_932_896;

/// A day of the calendar.
///
/// ```
/// use seawall::social::Day;
///
/// let day: Day = "2026-12-31".parse()?;
/// assert_eq!(day.next().to_string(), "20270101");
/// // 2026-11-15T23:30Z is the 16th in Shanghai.
/// assert_eq!(Day::at(1_794_785_400, 8 * 3600).to_string(), "20261116");
/// assert!("2026-02-29".parse::<Day>().is_err());
/// # Ok::<(), seawall::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day {
    /// Days since 1970-01-01; 0 to [`LAST`].
    number: i64,
}

/// A month of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: u16,
    month: u8,
}

impl Day {
    /// Returns the day of a time in seconds since the Unix epoch, in a zone this many seconds ahead
    /// of UTC.
    ///
    /// Times outside of 1970 to 9999 become the first or the last day.
    #[must_use]
    pub fn at(unix_seconds: i64, offset_seconds: i32) -> Self {
        let local = unix_seconds.saturating_add(i64::from(offset_seconds));
        Day { number: local.div_euclid(SECONDS_A_DAY).clamp(0, LAST) }
    }

    /// Returns the day after; for the last day, the same day.
    #[must_use]
    pub fn next(self) -> Self {
        Day { number: (self.number + 1).min(LAST) }
    }

    /// Returns the day before, or `None` for the first day.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        (self.number > 0).then(|| Day { number: self.number - 1 })
    }

    /// Returns the number of days from `earlier` to this one, both included; 0 if `earlier` is
    /// later.
    pub(super) fn days_from(self, earlier: Day) -> usize {
        usize::try_from(self.number - earlier.number + 1).unwrap_or(0)
    }

    /// Returns it as `2026-11-16`, the form that people and databases use.
    #[must_use]
    pub fn dashed(self) -> String {
        let (month, day) = self.split();
        format!("{}-{day:02}", month.dashed())
    }

    /// Returns its month.
    #[must_use]
    pub fn month(self) -> Month {
        self.split().0
    }

    /// Returns the day of the month, from 1.
    #[must_use]
    pub fn of_month(self) -> u8 {
        self.split().1
    }

    /// Computes year, month and day from the day's number, by cycles of 400 years that begin in
    /// March.
    fn split(self) -> (Month, u8) {
        let shifted = self.number + 719_468;
        let cycle = shifted / 146_097;
        let of_cycle = shifted % 146_097;
        let year = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
        let of_year = of_cycle - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year + cycle * 400 + i64::from(month <= 2);
        (Month { year: year as u16, month: month as u8 }, day as u8)
    }
}

impl Month {
    /// Creates a month from year and number.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no such month from 1970 to 9999.
    pub fn new(year: u16, month: u8) -> Result<Self> {
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
            return Err(Error::Invalid(format!("{year}-{month} is no month from 1970 to 9999")));
        }
        Ok(Month { year, month })
    }

    /// Returns a day of the month, from 1.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the month has no such day.
    pub fn day(self, day: u8) -> Result<Day> {
        if day == 0 || day > self.days() {
            return Err(Error::Invalid(format!("{self} has no day {day}")));
        }
        let (year, month) = (i64::from(self.year), i64::from(self.month));
        let year = year - i64::from(month <= 2);
        let (cycle, of_cycle) = (year / 400, year % 400);
        let from_march = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * from_march + 2) / 5 + i64::from(day) - 1;
        let number = cycle * 146_097 + of_cycle * 365 + of_cycle / 4 - of_cycle / 100 + of_year;
        Ok(Day { number: number - 719_468 })
    }

    /// Returns it as `2026-11`.
    #[must_use]
    pub fn dashed(self) -> String {
        format!("{:04}-{:02}", self.year, self.month)
    }

    /// Returns the number of days of the month.
    #[must_use]
    pub fn days(self) -> u8 {
        let by = |years| self.year.is_multiple_of(years);
        let leap = by(4) && (!by(100) || by(400));
        match self.month {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u8::from(leap),
            _ => 31,
        }
    }

    /// Returns the month before, or `None` for the first month.
    #[must_use]
    pub fn previous(self) -> Option<Self> {
        match (self.year, self.month) {
            (1970, 1) => None,
            (year, 1) => Some(Month { year: year - 1, month: 12 }),
            (year, month) => Some(Month { year, month: month - 1 }),
        }
    }
}

/// Formats as in keys: `20261116`.
impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (month, day) = self.split();
        write!(f, "{month}{day:02}")
    }
}

/// Parses `2026-11-16`, or the form in keys: `20261116`.
impl FromStr for Day {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let strange = || Error::Invalid("a day is written as 2026-11-16 or 20261116".into());
        let digits: Vec<u8> = match text.as_bytes() {
            [y @ .., b'-', m1, m2, b'-', d1, d2] if y.len() == 4 => {
                y.iter().chain([m1, m2, d1, d2]).copied().collect()
            }
            plain => plain.to_vec(),
        };
        if digits.len() != 8 || !digits.iter().all(u8::is_ascii_digit) {
            return Err(strange());
        }
        let number = |digits: &[u8]| {
            digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'))
        };
        let month = Month::new(number(&digits[..4]), number(&digits[4..6]) as u8)?;
        month.day(number(&digits[6..]) as u8)
    }
}

/// Parses `2026-11`, or the form in keys: `202611`.
impl FromStr for Month {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let strange = || Error::Invalid("a month is written as 2026-11 or 202611".into());
        let (year, month) = match text.split_once('-') {
            Some(parts) => parts,
            None => text.split_at_checked(4).ok_or_else(strange)?,
        };
        let digits = |part: &str, count| {
            part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(year, 4) || !digits(month, 2) {
            return Err(strange());
        }
        Month::new(year.parse().map_err(|_| strange())?, month.parse().map_err(|_| strange())?)
    }
}

/// Formats as in keys: `202611`.
impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}{:02}", self.year, self.month)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_follows_the_one_before_and_comes_back() {
        let mut day = "1970-01-01".parse::<Day>().unwrap();
        assert_eq!(day.number, 0);
        let mut count = 0;
        loop {
            let (month, of_month) = day.split();
            assert_eq!(month.day(of_month).unwrap(), day);
            let next = day.next();
            if next == day {
                break;
            }
            let (next_month, next_day) = next.split();
            if next_day == 1 {
                assert_eq!(of_month, month.days());
                assert_eq!(next_month.previous(), Some(month));
            } else {
                assert_eq!((next_month, next_day), (month, of_month + 1));
            }
            assert_eq!(next.previous(), Some(day));
            day = next;
            count += 1;
        }
        assert_eq!((count, day.to_string()), (LAST, "99991231".to_owned()));
    }

    #[test]
    fn times_are_days_where_one_is() {
        for (seconds, offset, expected) in [
            (0, 0, "19700101"),
            (951_782_400, 0, "20000229"),
            (1_640_995_199, 0, "20211231"),
            (1_640_995_199, 3600, "20220101"),
            (1_640_995_200, -1, "20211231"),
            (i64::MIN, -5, "19700101"),
            (i64::MAX, 5, "99991231"),
        ] {
            assert_eq!(Day::at(seconds, offset).to_string(), expected);
        }
        assert!(Month::new(2026, 13).is_err());
        let month = Month::new(2026, 2).unwrap();
        assert_eq!(month.day(3).unwrap().dashed(), "2026-02-03");
        for text in ["2026-02", "202602"] {
            assert_eq!(text.parse::<Month>().unwrap(), month);
        }
        for bad in ["", "2026", "2026-2", "2026-13", "2026-02-03", "+026-02", "１２３-02"] {
            assert!(bad.parse::<Month>().is_err(), "{bad}");
        }
        for bad in ["", "2023-02-29", "2023-2-9", "20230001", "１２", "99999999", "2023-02--1"] {
            assert!(bad.parse::<Day>().is_err(), "{bad}");
        }
    }
}
