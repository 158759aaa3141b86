//! Computes when the next survey is due: a time of day in the business zone, every day.

use jiff::{Timestamp, ToSpan as _, civil, tz::TimeZone};

/// One day's survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    /// Day of the survey.
    pub(super) day: civil::Date,
    /// Start time, in milliseconds since the epoch.
    pub(super) at_millis: i64,
}

/// Returns the first time after `now_millis` at which the zone's clocks show this time of day.
pub(super) fn next(now_millis: i64, zone: &TimeZone, time: civil::Time) -> Due {
    let now = Timestamp::from_millisecond(now_millis).unwrap_or_default();
    let mut day = now.to_zoned(zone.clone()).date();
    // Today's time may be past; a clock change moves a day by less than a day.
    for _ in 0..3 {
        // A time skipped by a clock change becomes the next existing time.
        if let Ok(due) = day.to_datetime(time).to_zoned(zone.clone())
            && due.timestamp() > now
        {
            return Due { day, at_millis: due.timestamp().as_millisecond() };
        }
        day = day.saturating_add(1.day());
    }
    // The calendar has ended.
    Due { day, at_millis: i64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a time").as_millisecond()
    }

    #[test]
    fn it_is_the_zones_time_of_day_also_across_clock_changes() {
        let shanghai = TimeZone::get("Asia/Shanghai").expect("it is built in");
        let half_past_three = civil::time(3, 30, 0, 0);
        let due = next(millis("2026-01-31T18:00:00Z"), &shanghai, half_past_three);
        assert_eq!(due.at_millis, millis("2026-01-31T19:30:00Z"));
        assert_eq!(due.day, civil::date(2026, 2, 1));
        let after = next(due.at_millis, &shanghai, half_past_three);
        assert_eq!(after.at_millis, millis("2026-02-01T19:30:00Z"));
        // 02:30 does not exist on that day in Berlin, so the survey runs an hour later.
        let berlin = TimeZone::get("Europe/Berlin").expect("it is built in");
        let due = next(millis("2026-03-28T23:00:00Z"), &berlin, civil::time(2, 30, 0, 0));
        assert_eq!(due.at_millis, millis("2026-03-29T01:30:00Z"));
    }
}
