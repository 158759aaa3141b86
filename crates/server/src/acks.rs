//! Replies to changes that the log could not take.
//!
//! The engine has executed the change and others may have read it, but a restart would not find it.
//! Silence would leave the client waiting for as long as the disk is full, and "OK" would be a
//! promise that is not kept. So the reply is exchanged for an error that says both. Replies that
//! acknowledge nothing are left as they are.

use seawall_engine::Ack;

/// Moves positions by `offset`.
pub(crate) fn shift(acks: &mut [Ack], offset: usize) {
    for ack in acks {
        *ack = match *ack {
            Ack::Reply(from, to) => Ack::Reply(from + offset, to + offset),
            Ack::Part(from) => Ack::Part(from + offset),
        };
    }
}

/// The error line for a change that the log did not take.
fn error(why: &str) -> Vec<u8> {
    let why = why.replace(['\r', '\n'], " ");
    format!(
        "-UNLOGGED The change is in memory but not in the log: {why}. It is logged when the disk \
         takes it; a restart before that loses it.\r\n"
    )
    .into_bytes()
}

/// Exchanges the acknowledging replies in `out`, of which `written` bytes have left, for an error.
/// Says no if a reply cannot be exchanged, because parts of it are not here; what a reply already
/// says about an error stays.
pub(crate) fn confess(out: &mut Vec<u8>, written: usize, acks: &mut Vec<Ack>, why: &str) -> bool {
    let mut told = Vec::with_capacity(out.len().min(4096));
    let mut copied = 0;
    let line = error(why);
    for ack in acks.drain(..) {
        match ack {
            Ack::Part(from) if from >= written => return false,
            Ack::Reply(from, to) if from >= written && to <= out.len() && from >= copied => {
                if out[from] == b'-' {
                    continue;
                }
                told.extend_from_slice(&out[copied..from]);
                told.extend_from_slice(&line);
                copied = to;
            }
            Ack::Part(_) | Ack::Reply(..) => {}
        }
    }
    if copied > 0 {
        told.extend_from_slice(&out[copied..]);
        *out = told;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_acknowledgements_are_exchanged() {
        let mut out = b"$1\r\na\r\n+OK\r\n:1\r\n-ERR x\r\n+PONG\r\n".to_vec();
        let mut acks = vec![Ack::Reply(7, 12), Ack::Reply(16, 24)];
        assert!(confess(&mut out, 0, &mut acks, "No space left on device"));
        let text = String::from_utf8(out).expect("text");
        assert!(text.starts_with("$1\r\na\r\n-UNLOGGED "), "{text}");
        assert!(text.ends_with("loses it.\r\n:1\r\n-ERR x\r\n+PONG\r\n"), "{text}");
        assert!(acks.is_empty());
    }

    #[test]
    fn a_part_of_a_reply_cannot_be_exchanged() {
        let mut out = b":1\r\n".to_vec();
        assert!(!confess(&mut out, 0, &mut vec![Ack::Part(0)], "full"));
        let mut moved = [Ack::Reply(1, 2), Ack::Part(3)];
        shift(&mut moved, 10);
        assert_eq!(moved, [Ack::Reply(11, 12), Ack::Part(13)]);
    }
}
