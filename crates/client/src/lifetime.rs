//! Validation of lifetimes that are sent to a server.
//!
//! Redis takes whole milliseconds. A shorter lifetime would mean "expire at once" or "never
//! expire"; a longer one makes `PEXPIRE` fail after a script has already written its value.

use std::time::Duration;

use crate::error::{Error, Result};

/// The longest accepted lifetime: ten years.
pub const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Converts a lifetime to milliseconds.
///
/// # Errors
/// [`Error::Invalid`], with the name of the setting, if it is below 1 ms or above ten years.
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
