//! Replies to changes that the log could not accept.
//!
//! The engine has executed the change and other clients may have read it, but a restart would not
//! find it. Not replying would leave the client waiting for as long as the disk is full, and "OK"
//! would be a broken promise. So the reply is replaced with an error that says both. Replies that
//! acknowledge nothing are left as they are.

use std::ops::Range;

use seawall_engine::{Ack, Output};

/// Shifts positions by `offset`.
pub(crate) fn shift(acks: &mut [Ack], offset: usize) {
    for ack in acks {
        *ack = match *ack {
            Ack::Reply(from, to) => Ack::Reply(from + offset, to + offset),
            Ack::Part(from) => Ack::Part(from + offset),
        };
    }
}

/// Returns the error line for a change that the log did not accept.
fn error(why: &str) -> Vec<u8> {
    let why = why.replace(['\r', '\n'], " ");
    format!(
        "-UNLOGGED The change is in memory but not in the log: {why}. It is logged when the disk \
         takes it; a restart before that loses it.\r\n"
    )
    .into_bytes()
}

/// Replaces the acknowledging replies in `out` that have not left with an error. Returns `false` if
/// a reply cannot be replaced because parts of it are not here. Replies that are already errors
/// stay.
pub(crate) fn confess(out: &mut Output, acks: &mut Vec<Ack>, why: &str) -> bool {
    let mut exchanged: Vec<Range<usize>> = Vec::new();
    for ack in acks.drain(..) {
        match ack {
            Ack::Part(from) if from >= out.sent() => return false,
            Ack::Reply(from, to)
                if from >= out.sent() && exchanged.last().is_none_or(|last| last.end <= from) =>
            {
                if out.byte_at(from).is_some_and(|kind| kind != b'-') {
                    exchanged.push(from..to);
                }
            }
            Ack::Part(_) | Ack::Reply(..) => {}
        }
    }
    if !exchanged.is_empty() {
        out.exchange(&exchanged, &error(why));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acknowledgements_are_exchanged() {
        let mut out = Output::from(b"$1\r\na\r\n+OK\r\n:1\r\n-ERR x\r\n+PONG\r\n".to_vec());
        let mut acks = vec![Ack::Reply(7, 12), Ack::Reply(16, 24)];
        assert!(confess(&mut out, &mut acks, "No space left on device"));
        let text = String::from_utf8(out.into_bytes()).expect("text");
        assert!(text.starts_with("$1\r\na\r\n-UNLOGGED "), "{text}");
        assert!(text.ends_with("loses it.\r\n:1\r\n-ERR x\r\n+PONG\r\n"), "{text}");
        assert!(acks.is_empty());
    }

    #[test]
    fn a_part_of_a_reply_cannot_be_exchanged() {
        let mut out = Output::from(b":1\r\n".to_vec());
        assert!(!confess(&mut out, &mut vec![Ack::Part(0)], "full"));
        let mut moved = [Ack::Reply(1, 2), Ack::Part(3)];
        shift(&mut moved, 10);
        assert_eq!(moved, [Ack::Reply(11, 12), Ack::Part(13)]);
    }
}
