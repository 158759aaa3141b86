//! Queue of events that one subscriber has not read yet.
//!
//! Each subscriber has its own queue, because a process may subscribe to ten thousand channels,
//! most of which never carry a message: an empty mailbox allocates no space for messages. A full
//! mailbox is cleared and delivers [`Event::Resumed`]. A slow subscriber therefore uses a bounded
//! amount of memory, delays no other subscriber, and learns that it must check the state itself.
//!
//! Invariants: at most [`ROOM`] events are queued, in the order of insertion; after
//! [`Mailbox::close`] nothing is added. There is one reader; several readers would take events from
//! each other.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::pubsub::Event;

/// Number of events a mailbox holds before it is cleared and the subscriber is told to check for
/// itself.
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
    /// Adds an event. A full mailbox is cleared first and reports this with [`Event::Resumed`].
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

    /// Accepts no further events; queued events can still be read.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.arrived.notify_one();
    }

    /// Returns the next event, or `None` if the mailbox is empty and closed.
    pub(super) async fn next(&self) -> Option<Event> {
        // Every iteration but the first follows a notification.
        loop {
            {
                let mut waiting = self.waiting();
                if let Some(event) = waiting.events.pop_front() {
                    if waiting.events.is_empty() {
                        // Release the memory of a past burst.
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
