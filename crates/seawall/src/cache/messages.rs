//! What first levels tell each other: which keys, tags or namespaces are no longer true.
//!
//! Messages of one namespace are numbered by Redis. Whoever sees a number missing, or was without a
//! connection, drops its whole first level: it cannot know what it missed. Because the *last*
//! message before a silence can be lost too, the counter itself is read five times a second and
//! compared with what was heard. So a first level is never more than about 300 ms behind as long as
//! Redis answers at all, messages or not.
//!
//! ```text
//! NUMBER ' ' 'k' (length:u32 key)*     these keys
//! NUMBER ' ' 't' tag                   this tag
//! NUMBER ' ' 'a'                       everything
//! ```

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{filter::Filter, level1::Level1, level2::Level2, metrics::Metrics, sabotage};
use crate::{
    clock::Clock,
    link::{Event, Subscription},
};

/// How often the counter is compared with what was heard.
const LOOK: Duration = Duration::from_millis(200);
/// How long a message may be under way before it counts as lost.
const GRACE: Duration = Duration::from_millis(100);

/// A message's body about these keys.
pub(super) fn about_keys<K: AsRef<[u8]>>(keys: &[K]) -> Vec<u8> {
    let mut body = vec![b'k'];
    for key in keys {
        let key = key.as_ref();
        body.extend_from_slice(&(key.len() as u32).to_be_bytes());
        body.extend_from_slice(key);
    }
    body
}

/// A message's body about a tag.
pub(super) fn about_tag(tag: &str) -> Vec<u8> {
    [b"t", tag.as_bytes()].concat()
}

/// A message's body about the whole namespace.
pub(super) fn about_all() -> Vec<u8> {
    b"a".to_vec()
}

/// What first levels remember of a tag.
pub(super) fn tag_hash(tag: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64(tag.as_bytes())
}

/// Follows the messages of a namespace until the handle is shut down.
pub(super) async fn listen<V: Send + Sync + 'static>(
    level2: Arc<Level2>,
    level1: Option<Arc<Level1<V>>>,
    filter: Option<Arc<Filter>>,
    metrics: Arc<Metrics>,
    clock: Clock,
    mut stop: watch::Receiver<bool>,
) {
    let subscription = level2.link.hub().join(level2.names.channel());
    let mut listener = Listener { level2, level1, filter, metrics, clock, heard: None };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = listener.run(subscription) => {}
    }
}

struct Listener<V> {
    level2: Arc<Level2>,
    level1: Option<Arc<Level1<V>>>,
    filter: Option<Arc<Filter>>,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// Number of the last message that was acted on.
    heard: Option<u64>,
}

impl<V> Listener<V> {
    async fn run(&mut self, mut subscription: Subscription) {
        let mut next_look = self.clock.now();
        loop {
            tokio::select! {
                biased;
                event = subscription.next() => match event {
                    Some(Event::Message(message)) => self.hear(&message),
                    Some(Event::Resumed) => {
                        self.lost_track("messages were interrupted");
                        self.heard = None;
                        next_look = self.clock.now();
                    }
                    Some(Event::Interrupted) => {}
                    None => return,
                },
                () = self.clock.sleep_until(next_look) => {
                    self.look(&mut subscription).await;
                    next_look = self.clock.now() + LOOK;
                }
            }
        }
    }

    /// Compares the counter with what was heard.
    async fn look(&mut self, subscription: &mut Subscription) {
        let (began, confirmed) = (self.clock.now(), subscription.is_confirmed());
        let Ok(counter) = self.level2.last_number().await else { return };
        self.catch_up(counter.unwrap_or(0), subscription).await;
        if let Some(filter) = &self.filter
            && confirmed
        {
            filter.complete_at(began);
        }
    }

    /// Hears everything up to this number, or gives up what it may have missed.
    async fn catch_up(&mut self, counter: u64, subscription: &mut Subscription) {
        if self.heard.is_none() {
            // Whatever was invalidated before this moment, no copy of it is older than this look.
            self.lost_track("the first look");
            self.heard = Some(counter);
            return;
        }
        if self.heard.is_some_and(|heard| counter < heard) {
            // Redis came back with an older state, or with none.
            self.gap("the counter went back");
            self.heard = Some(counter);
            return;
        }
        let deadline = self.clock.now() + GRACE;
        while self.heard.is_some_and(|heard| heard < counter) {
            tokio::select! {
                biased;
                event = subscription.next() => match event {
                    Some(Event::Message(message)) => self.hear(&message),
                    Some(Event::Interrupted) => {}
                    Some(Event::Resumed) | None => break,
                },
                () = self.clock.sleep_until(deadline) => break,
            }
        }
        if self.heard.is_some_and(|heard| heard < counter) {
            self.gap("a message did not come");
            self.heard = Some(counter);
        }
    }

    fn hear(&mut self, message: &[u8]) {
        let Some((number, body)) = parse(message) else {
            tracing::warn!("a message that nobody of ours sent");
            return;
        };
        match self.heard {
            Some(heard) if number == heard + 1 => self.heard = Some(number),
            // Missing, or an old one: the counter began anew.
            Some(_) => {
                self.gap("a number is missing");
                self.heard = Some(number);
            }
            // The one before it may have been lost: only a look can tell where we stand.
            None => {}
        }
        match body {
            Body::Keys(keys) => {
                for key in keys {
                    if let Some(filter) = &self.filter {
                        filter.insert(key);
                    }
                    if let Some(level1) = &self.level1 {
                        level1.invalidate(key);
                    }
                }
            }
            Body::Tag(tag) => {
                if let Some(level1) = &self.level1 {
                    level1.clear_tag(tag_hash(tag));
                }
            }
            Body::All => self.forget(),
        }
    }

    fn gap(&mut self, reason: &'static str) {
        if sabotage::ignores_gaps() {
            return;
        }
        self.metrics.gaps.increment(1);
        self.lost_track(reason);
    }

    fn lost_track(&mut self, reason: &'static str) {
        if sabotage::ignores_gaps() {
            return;
        }
        tracing::debug!(cache = self.level2.names.name(), reason, "first level dropped");
        self.forget();
    }

    fn forget(&self) {
        if let Some(level1) = &self.level1 {
            level1.clear();
        }
        if let Some(filter) = &self.filter {
            filter.lost_track();
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Body<'a> {
    Keys(Vec<&'a [u8]>),
    Tag(&'a str),
    All,
}

fn parse(message: &[u8]) -> Option<(u64, Body<'_>)> {
    let space = message.iter().position(|&byte| byte == b' ')?;
    let number = std::str::from_utf8(&message[..space]).ok()?.parse().ok()?;
    let (kind, mut rest) = message[space + 1..].split_first()?;
    let body = match kind {
        b'k' => {
            let mut keys = Vec::new();
            while !rest.is_empty() {
                let (length, tail) = rest.split_first_chunk::<4>()?;
                let (key, tail) = tail.split_at_checked(u32::from_be_bytes(*length) as usize)?;
                keys.push(key);
                rest = tail;
            }
            Body::Keys(keys)
        }
        b't' => Body::Tag(std::str::from_utf8(rest).ok()?),
        b'a' => Body::All,
        _ => return None,
    };
    Some((number, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written() {
        let with_number = |body: Vec<u8>| [b"17 ".to_vec(), body].concat();
        let keys = with_number(about_keys(&[&b"a b"[..], b"", b"c"]));
        assert_eq!(parse(&keys), Some((17, Body::Keys(vec![b"a b", b"", b"c"]))));
        assert_eq!(parse(&with_number(about_tag("x y"))), Some((17, Body::Tag("x y"))));
        assert_eq!(parse(&with_number(about_all())), Some((17, Body::All)));
    }

    #[test]
    fn strange_messages_are_ignored() {
        for message in
            [&b""[..], b"1", b"x k", b"1 z", b"1 k\0\0\0\x09ab", b"99999999999999999999999 a"]
        {
            assert_eq!(parse(message), None, "{message:?}");
        }
    }
}
