//! Terminal output: log lines on stderr while the program serves, the banner on stdout.

use std::{
    fmt,
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use seawall_server::{Level, Notices};

/// Prints why the program ends.
pub(crate) fn complain(text: &str) {
    say(&mut io::stderr(), format_args!("seawall: {text}"));
}

/// Prints a line for the user.
pub(crate) fn announce(text: &str) {
    say(&mut io::stdout(), format_args!("{text}"));
}

/// Prints a line about running work, separate from its output.
pub(crate) fn remark(text: &str) {
    say(&mut io::stderr(), format_args!("{text}"));
}

/// Writes lines of at least this level to stderr, with the time in UTC.
pub(crate) fn notices(least: Level) -> Notices {
    Notices::to(move |level, line| {
        if level >= least {
            say(&mut io::stderr(), format_args!("{} {} {line}", now(), name(level)));
        }
    })
}

/// Returns the level with a name that the settings have accepted.
pub(crate) fn level(name: &str) -> Level {
    match name {
        "debug" => Level::Debug,
        "verbose" => Level::Verbose,
        "warning" => Level::Warning,
        _ => Level::Notice,
    }
}

fn name(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug  ",
        Level::Verbose => "verbose",
        Level::Notice => "notice ",
        Level::Warning => "warning",
    }
}

fn say(out: &mut dyn Write, line: fmt::Arguments<'_>) {
    // The output is closed when this fails; there is nowhere left to report it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: since.as_secs(), millis: since.subsec_millis() }
}

/// A point in time, printed as `2026-01-31 23:59:59.999`.
struct Timestamp {
    seconds: u64,
    millis: u32,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.seconds / 86_400, self.seconds % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        let millis = self.millis;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{millis:03}")
    }
}

/// The date of a day counted from 1970-01-01.
///
/// Years are taken to begin in March, so that the leap day is the last day of a year, and counted
/// in eras of 400 years, which all have the same number of days.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA_DAYS: u64 = 146_097;
    let shifted = days + 719_468; // Days from 0000-03-01 to 1970-01-01.
    let (era, in_era) = (shifted / ERA_DAYS, shifted % ERA_DAYS);
    let year_of_era = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let day_of_year = in_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_year_ends() {
        let at = |seconds| Timestamp { seconds, millis: 7 }.to_string();
        assert_eq!(at(0), "1970-01-01 00:00:00.007");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00.007");
        assert_eq!(at(1_709_164_800), "2024-02-29 00:00:00.007");
        assert_eq!(at(1_735_689_599), "2024-12-31 23:59:59.007");
    }
}
