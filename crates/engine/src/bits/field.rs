//! Integers of any width at any bit of a string, most significant bit first.
//!
//! A field is written across at most nine bytes. Redis' arithmetic is kept to the letter where
//! it wraps in 64 bits, because the outcome is visible.

/// The type of a field: signed up to 64 bits, unsigned up to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field {
    signed: bool,
    width: u32,
}

/// What happens to a value that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

impl Field {
    /// Reads `i<bits>` or `u<bits>`.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (signed, digits, limit) = match text {
            [b'i', digits @ ..] => (true, digits, 64),
            [b'u', digits @ ..] => (false, digits, 63),
            _ => return None,
        };
        // Redis: the width ends at a NUL byte.
        let digits = digits.split(|&byte| byte == 0).next().unwrap_or(digits);
        let width = crate::number::parse_i64(digits)?;
        let width = u32::try_from(width).ok().filter(|width| (1..=limit).contains(width))?;
        Some(Self { signed, width })
    }

    /// Bits of the field.
    pub(crate) fn width(self) -> u32 {
        self.width
    }

    /// The value at a bit offset; bits behind the end are zero.
    pub(crate) fn read(self, bytes: &[u8], offset: u64) -> i64 {
        let start = usize::try_from(offset >> 3).unwrap_or(usize::MAX).min(bytes.len());
        let mut window = [0; 16];
        let available = &bytes[start..bytes.len().min(start + 9)];
        window[..available.len()].copy_from_slice(available);
        let shifted = u128::from_be_bytes(window) << (offset & 7);
        if self.signed {
            (shifted.cast_signed() >> (128 - self.width)) as i64
        } else {
            (shifted >> (128 - self.width)) as i64
        }
    }

    /// Stores the low bits of a value at a bit offset; the bytes reach that far.
    pub(crate) fn write(self, bytes: &mut [u8], offset: u64, value: i64) {
        let start = (offset >> 3) as usize;
        let length = (bytes.len() - start).min(9);
        let target = &mut bytes[start..start + length];
        let mut window = [0; 16];
        window[..length].copy_from_slice(target);
        let shift = 128 - self.width - (offset & 7) as u32;
        let mask = (u128::MAX >> (128 - self.width)) << shift;
        let bits = (u128::from(value.cast_unsigned()) << shift) & mask;
        let merged = u128::from_be_bytes(window) & !mask | bits;
        target.copy_from_slice(&merged.to_be_bytes()[..length]);
    }

    /// What `value + increment` becomes in this type; `None` if it does not fit and must fail.
    pub(crate) fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        let limit = if self.signed {
            self.signed_limit(value, increment)
        } else {
            self.unsigned_limit(value.cast_unsigned(), increment)
        };
        let sum = value.wrapping_add(increment);
        match (limit, overflow) {
            (None, _) => Some(sum),
            (Some(_), Overflow::Wrap) => Some(self.truncate(sum)),
            (Some(limit), Overflow::Saturate) => Some(limit),
            (Some(_), Overflow::Fail) => None,
        }
    }

    fn unsigned_limit(self, value: u64, increment: i64) -> Option<i64> {
        let max = (1u64 << self.width) - 1;
        if value > max || (increment > 0 && increment.cast_unsigned() > max - value) {
            Some(max.cast_signed())
        } else if increment < 0 && increment.unsigned_abs() > value {
            Some(0)
        } else {
            None
        }
    }

    /// The bound that the sum violates, if any.
    // Redis: for a value to be set that is far below the minimum, the room above it wraps
    // around and the maximum is what it saturates to.
    fn signed_limit(self, value: i64, increment: i64) -> Option<i64> {
        let narrow = self.width < 64;
        let max = i64::MAX >> (64 - self.width);
        let min = -max - 1;
        let above = max.wrapping_sub(value);
        let below = min.wrapping_sub(value);
        if value > max || (narrow || (value >= 0 && increment > 0)) && increment > above {
            Some(max)
        } else if value < min || (narrow || (value < 0 && increment < 0)) && increment < below {
            Some(min)
        } else {
            None
        }
    }

    fn truncate(self, value: i64) -> i64 {
        let shift = 64 - self.width;
        if self.signed {
            value << shift >> shift
        } else {
            (value.cast_unsigned() << shift >> shift).cast_signed()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field(text: &str) -> Field {
        Field::parse(text.as_bytes()).expect("a type")
    }

    #[test]
    fn types_have_their_widths() {
        for refused in ["u64", "i65", "i0", "u", "8", "x8", "u08", "i-1", "U8", ""] {
            assert_eq!(Field::parse(refused.as_bytes()), None, "{refused}");
        }
        assert_eq!(field("i64").width(), 64);
        assert_eq!(field("u63").width(), 63);
    }

    #[test]
    fn overflow_follows_its_kind() {
        let byte = field("u8");
        assert_eq!(byte.add(250, 10, Overflow::Wrap), Some(4));
        assert_eq!(byte.add(250, 10, Overflow::Saturate), Some(255));
        assert_eq!(byte.add(250, 10, Overflow::Fail), None);
        assert_eq!(byte.add(5, -10, Overflow::Saturate), Some(0));
        assert_eq!(byte.add(-1, 0, Overflow::Saturate), Some(255));
        let signed = field("i8");
        assert_eq!(signed.add(127, 1, Overflow::Wrap), Some(-128));
        assert_eq!(signed.add(-128, -1, Overflow::Saturate), Some(-128));
        assert_eq!(signed.add(-129, 0, Overflow::Saturate), Some(-128));
        assert_eq!(signed.add(i64::MIN, 0, Overflow::Saturate), Some(127));
        let long = field("i64");
        assert_eq!(long.add(i64::MAX, 1, Overflow::Wrap), Some(i64::MIN));
        assert_eq!(long.add(i64::MIN, -1, Overflow::Saturate), Some(i64::MIN));
        assert_eq!(long.add(i64::MAX, i64::MIN, Overflow::Fail), Some(-1));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_changes(
            signed: bool,
            width in 1u32..=63,
            offset in 0u64..72,
            value: i64,
            before in prop::collection::vec(any::<u8>(), 17),
        ) {
            let field = Field { signed, width };
            let mut bytes = before.clone();
            field.write(&mut bytes, offset, value);
            prop_assert_eq!(field.read(&bytes, offset), field.truncate(value));
            for bit in (0..136).filter(|bit| !(offset..offset + u64::from(width)).contains(bit)) {
                prop_assert_eq!(super::super::get(&bytes, bit), super::super::get(&before, bit));
            }
            field.write(&mut bytes, offset, field.read(&before, offset));
            prop_assert_eq!(bytes, before);
        }
    }
}
