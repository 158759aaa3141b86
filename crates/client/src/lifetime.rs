//! How long something may live at a server: long enough to be sent, and short enough to be added to a date.
//!
//! Redis takes whole milliseconds. A shorter time would mean "gone at once" or "for ever", a longer one
//! makes `PEXPIRE` fail after a script has written its value.

use std::time::Duration;

use crate::error::{Error, Result};

/// The longest lifetime: ten years.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// A lifetime in milliseconds.
///
/// # Errors
/// [`Error::Invalid`] names the setting that is below a millisecond or beyond ten years.
pub fn millis(setting: &str, time: Duration) -> Result<u64> {
    match u64::try_from(time.as_millis()) {
        Ok(millis @ 1..) if time <= LONGEST => Ok(millis),
        _ => {
            Err(Error::Invalid(format!("{setting} is {time:?}: it must be from 1 ms to ten years")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_cannot_keep_is_refused() {
        for time in [Duration::ZERO, Duration::from_nanos(1), LONGEST * 2, Duration::MAX] {
            let error = millis("lifetime", time).expect_err("refused").to_string();
            assert!(error.contains("lifetime is") && error.contains("ten years"), "{error}");
        }
        assert_eq!(millis("lifetime", Duration::from_millis(1)).ok(), Some(1));
        assert_eq!(millis("lifetime", LONGEST).ok(), Some(315_360_000_000));
    }
}
