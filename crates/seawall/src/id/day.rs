//! The day in a key, in UTC: `20261116`.

const MILLIS_A_DAY: i64 = 86_400_000;

/// Returns the day of a time in milliseconds since the Unix epoch.
pub(super) fn day(unix_millis: i64) -> String {
    let mut left = unix_millis.max(0) / MILLIS_A_DAY;
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    // Whole cycles of 400 years first, so that the loop below is short.
    let mut year = 1970 + left / 146_097 * 400;
    left %= 146_097;
    while left >= 365 + i64::from(leap(year)) {
        left -= 365 + i64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + i64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    format!("{year:04}{month:02}{:02}", left + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101"),
            (951_782_400, "20000229"),
            (951_868_800, "20000301"),
            (1_640_995_199, "20211231"),
            (1_640_995_200, "20220101"),
            (1_709_164_800, "20240229"),
            (1_794_787_200, "20261116"),
            (4_107_542_399, "21000228"),
            (4_107_542_400, "21000301"),
        ] {
            assert_eq!(day(seconds * 1000), expected);
        }
        assert_eq!(day(-5), "19700101");
    }
}
