//! Matches replies to requests.
//!
//! Redis answers in the order of the requests, with three exceptions that this file handles: pushes
//! arrive at any time; a subscription is answered once per channel, as pushes in RESP3 and as
//! arrays in RESP2; and in RESP2 a message looks like an array, which it can only be while the
//! connection is subscribed to something.
//!
//! Limit: `CLIENT REPLY OFF` and `SKIP`, and subscriptions inside MULTI, are not followed.

use std::collections::{HashSet, VecDeque};

use super::rules::{Command, Fate};
use crate::reply::{Reply, parse};

/// Kind of a reply.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The last or only reply to a request with this fate.
    Answer(Fate),
    /// One of several replies to a request with this fate.
    Part(Fate),
    /// A message on a channel, or an invalidation, whose channel is empty.
    Message(Vec<u8>),
    /// Not requested; it is forwarded.
    Unasked,
}

struct Request {
    fate: Fate,
    /// The first word of confirmations, if the request is about subscriptions.
    confirmed_as: Option<String>,
    /// Confirmations to come; unknown until the first one if the request is about all channels.
    confirmations: Option<usize>,
}

/// The requests of one connection that wait for their replies.
#[derive(Default)]
pub(super) struct Pending {
    requests: VecDeque<Request>,
    /// Channels, patterns and shard channels, under the word that confirms them.
    subscribed: HashSet<(&'static str, Vec<u8>)>,
}

impl Pending {
    /// Records a request that was forwarded, or that the proxy answers itself.
    pub(super) fn push(&mut self, command: &Command, fate: Fate) {
        let name = command.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let name = String::from_utf8_lossy(&name).into_owned();
        let channels = command.len().saturating_sub(1);
        let confirmed_as = kind(&name).map(|_| name);
        let confirmations = (channels > 0).then_some(channels);
        self.requests.push_back(Request { fate, confirmed_as, confirmations });
    }

    /// Returns the proxy's own next answer, if it is its turn.
    pub(super) fn own_answer(&mut self) -> Option<Vec<u8>> {
        match self.requests.front().map(|request| &request.fate) {
            Some(Fate::Answer(bytes)) => {
                let bytes = bytes.clone();
                self.requests.pop_front();
                Some(bytes)
            }
            _ => None,
        }
    }

    /// Classifies the reply in `frame` and updates the state.
    pub(super) fn arrive(&mut self, frame: &[u8]) -> Arrival {
        let may_be_message = match frame.first() {
            Some(b'>') => true,
            Some(b'*') => !self.subscribed.is_empty() || self.front_kind().is_some(),
            // Attributes of the reply that follows.
            Some(b'|') => return Arrival::Unasked,
            _ => false,
        };
        if may_be_message
            && let Ok(Some((Reply::Push(items) | Reply::Array(items), _))) = parse(frame)
        {
            let word = items.first().map(Reply::text).unwrap_or_default();
            let channel = items.get(1).and_then(Reply::as_bytes).unwrap_or_default();
            match word.as_str() {
                "message" | "pmessage" | "smessage" => return Arrival::Message(channel.to_vec()),
                "invalidate" => return Arrival::Message(Vec::new()),
                _ if kind(&word).is_some() => return self.confirm(&word, channel),
                _ if frame.first() == Some(&b'>') => return Arrival::Unasked,
                _ => {}
            }
        }
        match self.requests.pop_front() {
            Some(request) => Arrival::Answer(request.fate),
            None => Arrival::Unasked,
        }
    }

    fn front_kind(&self) -> Option<&str> {
        self.requests.front()?.confirmed_as.as_deref()
    }

    /// Records that one channel was subscribed to or left.
    fn confirm(&mut self, word: &str, channel: &[u8]) -> Arrival {
        let Some((kind, joined)) = kind(word) else { return Arrival::Unasked };
        let all = self.subscribed.iter().filter(|(own, _)| *own == kind).count();
        if joined {
            self.subscribed.insert((kind, channel.to_vec()));
        } else {
            self.subscribed.remove(&(kind, channel.to_vec()));
        }
        // A server may end a subscription by itself, for example when a slot moves away.
        if self.front_kind() != Some(word) {
            return Arrival::Unasked;
        }
        let Some(request) = self.requests.front_mut() else { return Arrival::Unasked };
        let left = request.confirmations.unwrap_or(all.max(1)).saturating_sub(1);
        request.confirmations = Some(left);
        let fate = request.fate.clone();
        if left > 0 {
            return Arrival::Part(fate);
        }
        self.requests.pop_front();
        Arrival::Answer(fate)
    }
}

/// Returns what a word of a (un)subscription is about, and whether it begins or ends it.
fn kind(word: &str) -> Option<(&'static str, bool)> {
    Some(match word {
        "subscribe" => ("channel", true),
        "unsubscribe" => ("channel", false),
        "psubscribe" => ("pattern", true),
        "punsubscribe" => ("pattern", false),
        "ssubscribe" => ("shard", true),
        "sunsubscribe" => ("shard", false),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Arrival, Fate, Pending};

    fn push(pending: &mut Pending, text: &str, fate: Fate) {
        let command = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        pending.push(&command, fate);
    }

    #[test]
    fn messages_and_confirmations_are_told_from_answers_in_both_protocols() {
        for mark in ["*", ">"] {
            let mut pending = Pending::default();
            let arrive = |pending: &mut Pending, text: &str| {
                pending.arrive(format!("{mark}3\r\n{text}").as_bytes())
            };
            push(&mut pending, "LRANGE l 0 -1", Fate::Pass);
            if mark == "*" {
                // Not subscribed: this is a list that happens to look like a message.
                let list = arrive(&mut pending, "$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n");
                assert_eq!(list, Arrival::Answer(Fate::Pass));
            } else {
                assert_eq!(pending.arrive(b"*0\r\n"), Arrival::Answer(Fate::Pass));
            }
            push(&mut pending, "SUBSCRIBE a b", Fate::LoseReply);
            push(&mut pending, "UNSUBSCRIBE", Fate::Pass);
            push(&mut pending, "GET k", Fate::Pass);
            let first = arrive(&mut pending, "$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
            assert_eq!(first, Arrival::Part(Fate::LoseReply));
            let message = arrive(&mut pending, "$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n");
            assert_eq!(message, Arrival::Message(b"a".to_vec()));
            let second = arrive(&mut pending, "$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n");
            assert_eq!(second, Arrival::Answer(Fate::LoseReply));
            let left = arrive(&mut pending, "$11\r\nunsubscribe\r\n$1\r\nb\r\n:1\r\n");
            assert_eq!(left, Arrival::Part(Fate::Pass));
            let left = arrive(&mut pending, "$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n");
            assert_eq!(left, Arrival::Answer(Fate::Pass));
            assert_eq!(pending.arrive(b"$1\r\nv\r\n"), Arrival::Answer(Fate::Pass));
            assert_eq!(pending.arrive(b"+late\r\n"), Arrival::Unasked);
        }
    }
}
