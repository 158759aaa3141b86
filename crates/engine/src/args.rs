//! Reading arguments: numbers, option words, lifetimes.

use crate::error::Error;
use crate::number;

/// An argument as a whole number.
#[inline]
pub(crate) fn int(arg: &[u8]) -> Result<i64, Error> {
    number::parse_i64(arg).ok_or(Error::NOT_INTEGER)
}

/// An argument as a whole number of 32 bits.
pub(crate) fn int32(arg: &[u8]) -> Result<i64, Error> {
    const RANGE: Error =
        Error::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    let n = int(arg)?;
    if i32::try_from(n).is_ok() { Ok(n) } else { Err(RANGE) }
}

/// Reads an argument as a count of zero or more; anything else is refused with one text.
pub(crate) fn count(arg: &[u8]) -> Result<usize, Error> {
    count_or(arg, Error::NOT_POSITIVE)
}

/// Like [`count`], with the command's own refusal text.
pub(crate) fn count_or(arg: &[u8], refusal: Error) -> Result<usize, Error> {
    number::parse_i64(arg).and_then(|n| usize::try_from(n).ok()).ok_or(refusal)
}

/// As [`count_or`], for one or more.
pub(crate) fn positive_or(arg: &[u8], refusal: Error) -> Result<usize, Error> {
    match number::parse_i64(arg) {
        Some(n @ 1..) => Ok(n as usize),
        _ => Err(refusal),
    }
}

/// Reads the number of requested random elements; a negative number allows repetitions.
pub(crate) fn signed_count(arg: &[u8]) -> Result<i64, Error> {
    match int(arg)? {
        i64::MIN => Err(Error::new(format!(
            "ERR value is out of range, value must between {} and {}",
            -i64::MAX,
            i64::MAX
        ))),
        n => Ok(n),
    }
}

/// Turns an index that may count from the end into one that counts from the start; it is still
/// negative when it lies before the start.
pub(crate) fn from_start(index: i64, len: usize) -> i64 {
    if index < 0 { index.saturating_add(len as i64) } else { index }
}

/// Turns two inclusive indices, which may count from the end, into a start and a length.
pub(crate) fn range(start: i64, end: i64, len: usize) -> (usize, usize) {
    let start = from_start(start, len).max(0);
    let end = from_start(end, len).min(len as i64 - 1);
    if start > end { (0, 0) } else { (start as usize, (end - start + 1) as usize) }
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
    number::Extended::parse(arg).ok_or(Error::TIMEOUT_NOT_FLOAT)?;
    // A fraction of a millisecond waits a whole one instead of for ever.
    let millis = number::parse_f64_lenient(arg).map_or(f64::INFINITY, |s| (s * 1000.0).ceil());
    // Redis: 7.0 lets numbers beyond 64 bits wrap around, so they are reported as negative, too.
    if millis < 0.0 || millis >= i64::MAX as f64 {
        return Err(Error::TIMEOUT_NEGATIVE);
    }
    Ok(millis as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_and_refuse_what_redis_refuses() {
        assert_eq!(timeout_ms(b"0.0001"), Ok(1));
        assert_eq!(timeout_ms(b"-0.0001"), Ok(0));
        assert_eq!(timeout_ms(b"1.5"), Ok(1500));
        for text in ["-1", "inf", "1e30", "9223372036854775807"] {
            assert_eq!(timeout_ms(text.as_bytes()), Err(Error::TIMEOUT_NEGATIVE), "{text}");
        }
        for text in ["", "abc", "nan", " 1", "1 "] {
            assert_eq!(timeout_ms(text.as_bytes()), Err(Error::TIMEOUT_NOT_FLOAT), "{text}");
        }
    }

    #[test]
    fn ranges_are_clipped() {
        assert_eq!(range(0, -1, 3), (0, 3));
        assert_eq!(range(-2, 100, 3), (1, 2));
        assert_eq!(range(-100, 1, 3), (0, 2));
        assert_eq!(range(2, 1, 3), (0, 0));
        assert_eq!(range(3, 5, 3), (0, 0));
        assert_eq!(range(0, -4, 3), (0, 0));
        assert_eq!(range(i64::MIN, i64::MAX, 3), (0, 3));
        assert_eq!(range(0, 0, 0), (0, 0));
    }
}
