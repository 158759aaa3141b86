//! What one subscriber has not read yet.
//!
//! A queue of its own for each subscriber, because a process may wait on ten thousand channels on
//! most of which nothing is ever said: an empty mailbox takes no room for messages. A full one is
//! emptied and says [`Event::Resumed`], so a subscriber that is too slow costs a bounded amount of
//! memory, holds up nobody, and learns that it has to look for itself.
//!
//! Invariants: at most [`ROOM`] events wait, in the order in which they were put in; after
//! [`Mailbox::close`] nothing is added. There is one reader; several would steal from each other.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::pubsub::Event;

/// Events that may wait for a subscriber before it is told to look for itself.
const ROOM: usize = 128;

#[derive(Default)]
pub(super) struct Mailbox {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    closed: bool,
}

impl Mailbox {
    /// Adds an event; a full mailbox forgets what it had and says so.
    pub(super) fn put(&self, event: Event) {
        let mut waiting = self.waiting();
        if waiting.closed {
            return;
        }
        if waiting.events.len() >= ROOM {
            waiting.events.clear();
            waiting.events.push_back(Event::Resumed);
        }
        waiting.events.push_back(event);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Nothing more will come; what is there can still be read.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.arrived.notify_one();
    }

    /// The next event; `None` when there is none and none will come.
    pub(super) async fn next(&self) -> Option<Event> {
        // Each turn but the first follows a notification.
        loop {
            {
                let mut waiting = self.waiting();
                if let Some(event) = waiting.events.pop_front() {
                    if waiting.events.is_empty() {
                        // A burst once does not take its room for ever.
                        waiting.events.shrink_to(1);
                    }
                    return Some(event);
                }
                if waiting.closed {
                    return None;
                }
            }
            self.arrived.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn message(number: usize) -> Event {
        Event::Message(number.to_string().into_bytes().into())
    }

    #[tokio::test]
    async fn order_is_kept_and_the_end_comes_last() {
        let mailbox = Mailbox::default();
        assert!(mailbox.next().now_or_never().is_none());
        (0..ROOM).for_each(|number| mailbox.put(message(number)));
        mailbox.close();
        mailbox.put(message(ROOM));
        for number in 0..ROOM {
            assert_eq!(mailbox.next().await, Some(message(number)));
        }
        assert_eq!(mailbox.next().await, None);
        assert_eq!(mailbox.next().await, None);
    }

    #[tokio::test]
    async fn too_slow_a_reader_is_told_to_look() {
        let mailbox = Mailbox::default();
        (0..=ROOM).for_each(|number| mailbox.put(message(number)));
        assert_eq!(mailbox.next().await, Some(Event::Resumed));
        assert_eq!(mailbox.next().await, Some(message(ROOM)));
        assert!(mailbox.next().now_or_never().is_none());
    }

    #[tokio::test]
    async fn a_dropped_reader_loses_nothing() {
        let mailbox = Mailbox::default();
        {
            let mut reading = Box::pin(mailbox.next());
            assert!(reading.as_mut().now_or_never().is_none());
            mailbox.put(message(1));
        }
        assert_eq!(mailbox.next().now_or_never(), Some(Some(message(1))));
    }
}
