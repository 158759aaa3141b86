//! Times as clients see them: RFC 3339 with the offset of the business zone, and days that begin at
//! midnight there.

use jiff::{Timestamp, tz::TimeZone};
use seawall::social::Day;

/// Formats a time in milliseconds since the epoch, such as `2026-01-31T23:59:59.999+08:00`.
#[must_use]
pub fn rfc3339(zone: &TimeZone, millis: i64) -> String {
    let time = Timestamp::from_millisecond(millis).unwrap_or_default();
    // Zone names are not part of RFC 3339, so only the offset is written.
    let offset = zone.to_offset(time);
    time.display_with_offset(offset).to_string()
}

/// Returns the day of a time in milliseconds since the epoch, in the business zone.
#[must_use]
pub fn day(zone: &TimeZone, millis: i64) -> Day {
    let time = Timestamp::from_millisecond(millis).unwrap_or_default();
    Day::at(time.as_second(), zone.to_offset(time).seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_the_offset_of_the_zone() {
        let zone = TimeZone::get("Asia/Shanghai").expect("it is built in");
        assert_eq!(rfc3339(&zone, 0), "1970-01-01T08:00:00+08:00");
        assert_eq!(rfc3339(&TimeZone::UTC, 1_500), "1970-01-01T00:00:01.5+00:00");
    }

    #[test]
    fn a_day_begins_where_the_business_is() {
        let zone = TimeZone::get("Asia/Shanghai").expect("it is built in");
        let evening = 1_798_646_399_999; // 2026-12-30T15:59:59.999Z
        assert_eq!(day(&zone, evening).to_string(), "20261230");
        assert_eq!(day(&zone, evening + 1).to_string(), "20261231");
        assert_eq!(day(&TimeZone::UTC, evening + 1).to_string(), "20261230");
    }
}
