//! Numbered messages over pub/sub: notices those that did not arrive.
//!
//! Publishing is fire and forget. A sender that numbers its messages, in one step with sending them,
//! lets each receiver see what it missed: a number is left out, or the counter has started again. A
//! message is its number in decimal, a space, and a body:
//!
//! ```text
//! NUMBER ' ' body
//! ```
//!
//! The last message before a silence can be lost, too, and no later number shows it; a receiver that
//! must know reads the counter ([`Sequence::place`]).

/// The position of a receiver among numbered messages.
///
/// ```
/// use seawall_client::sequence::{Arrival, Sequence};
///
/// let mut sequence = Sequence::default();
/// assert_eq!(sequence.receive(7), Arrival::Unplaced);
/// sequence.place(7);
/// assert_eq!(sequence.receive(8), Arrival::Next);
/// assert_eq!(sequence.receive(11), Arrival::Gap(2));
/// assert_eq!(sequence.receive(3), Arrival::Restarted);
/// assert_eq!(sequence.last(), Some(3));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sequence {
    last: Option<u64>,
}

/// What a message's number says about the messages before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Arrival {
    /// None is missing.
    Next,
    /// This many are missing.
    Gap(u64),
    /// The counter has started again, so an unknown number is missing; or the message is an old one.
    Restarted,
    /// Nothing: the receiver's position is unknown, and stays so until it is placed.
    Unplaced,
}

impl Sequence {
    /// Notes the number of a message that was received.
    pub fn receive(&mut self, number: u64) -> Arrival {
        let Some(last) = self.last else { return Arrival::Unplaced };
        self.last = Some(number);
        match number.checked_sub(last) {
            None | Some(0) => Arrival::Restarted,
            Some(1) => Arrival::Next,
            Some(more) => Arrival::Gap(more - 1),
        }
    }

    /// Returns the number of the last message, or `None` if the position is unknown.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Sets the position: nothing is missing up to this number, or what is missing was accounted for.
    pub fn place(&mut self, number: u64) {
        self.last = Some(number);
    }

    /// Forgets the position, because an unknown number of messages may have been missed.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

/// Splits a message into its number and its body. Returns `None` if it has no number.
#[must_use]
pub fn numbered(message: &[u8]) -> Option<(u64, &[u8])> {
    let space = message.iter().position(|&byte| byte == b' ')?;
    let number = std::str::from_utf8(&message[..space]).ok()?.parse().ok()?;
    Some((number, &message[space + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_may_follow_any_other() {
        for last in [0, 1, u64::MAX - 1, u64::MAX] {
            for number in [0, 1, 2, u64::MAX - 1, u64::MAX] {
                let mut sequence = Sequence::default();
                sequence.place(last);
                let arrival = match i128::from(number) - i128::from(last) {
                    1 => Arrival::Next,
                    more if more > 1 => Arrival::Gap(u64::try_from(more - 1).expect("it fits")),
                    _ => Arrival::Restarted,
                };
                assert_eq!(sequence.receive(number), arrival, "{number} after {last}");
                assert_eq!(sequence.last(), Some(number));
            }
        }
    }

    #[test]
    fn without_a_position_no_message_says_anything() {
        let mut sequence = Sequence::default();
        for _ in 0..2 {
            assert_eq!(sequence.receive(1), Arrival::Unplaced);
            assert_eq!(sequence.receive(2), Arrival::Unplaced);
            sequence.place(2);
            assert_eq!(sequence.receive(3), Arrival::Next);
            sequence.forget();
        }
    }

    #[test]
    fn a_message_is_split_at_its_first_space() {
        assert_eq!(numbered(b"17 a b"), Some((17, &b"a b"[..])));
        assert_eq!(numbered(b"0 "), Some((0, &b""[..])));
        for strange in [&b""[..], b"17", b" 17 a", b"-1 a", b"18446744073709551616 a", b"x a"] {
            assert_eq!(numbered(strange), None);
        }
    }
}
