//! Reading arguments: numbers, option words, lifetimes.

use crate::error::Error;
use crate::number;

/// An argument as a whole number.
#[inline]
pub(crate) fn int(arg: &[u8]) -> Result<i64, Error> {
    number::parse_i64(arg).ok_or(Error::NOT_INTEGER)
}

/// An argument as a number of things: zero or more.
pub(crate) fn count(arg: &[u8]) -> Result<usize, Error> {
    let n = int(arg)?;
    usize::try_from(n).map_err(|_| Error::NOT_POSITIVE)
}

/// An argument as a double.
pub(crate) fn float(arg: &[u8]) -> Result<f64, Error> {
    number::parse_f64(arg).ok_or(Error::NOT_FLOAT)
}

/// Whether an argument is this option word, in any case.
#[inline]
pub(crate) fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// A blocking command's time-out in seconds, as milliseconds; 0 waits for ever.
pub(crate) fn timeout_ms(arg: &[u8]) -> Result<i64, Error> {
    let seconds = number::parse_f64(arg).ok_or(Error::TIMEOUT_NOT_FLOAT)?;
    let millis = seconds * 1000.0;
    if !millis.is_finite() || millis > i64::MAX as f64 {
        return Err(Error::fixed("ERR timeout is out of range"));
    }
    if millis < 0.0 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    // Redis: a fraction of a millisecond waits a whole one instead of for ever.
    Ok(millis.ceil() as i64)
}
