//! A local queue for each lock: the first task of a process contends, the others wait behind it.
//!
//! However many tasks want a lock, the process has one request for it at a time and listens on one
//! channel. The line is a fair mutex around that subscription: holding it is the right to contend.
//! A task that leaves, at any point, passes the turn on by dropping it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use seawall_client::client::Subscription;
use tokio::sync::OwnedMutexGuard;

/// All lines of a handle, by key.
#[derive(Default)]
pub(super) struct Lines {
    lines: Mutex<HashMap<Arc<[u8]>, Line>>,
}

/// The subscription stays with the line while a task is in it.
type Line = Arc<tokio::sync::Mutex<Option<Subscription>>>;

impl Lines {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<[u8]>, Line>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the line for a key and waits for the turn.
    pub(super) async fn turn(self: &Arc<Self>, key: Arc<[u8]>) -> Turn {
        let line = Arc::clone(self.lock().entry(Arc::clone(&key)).or_default());
        let place = Place { lines: Arc::clone(self), key, line: Some(Arc::clone(&line)) };
        Turn { subscription: line.lock_owned().await, _place: place }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.lock().len()
    }
}

/// The right to contend; dropping it passes the turn to the next task.
pub(super) struct Turn {
    // Invariant: dropped before the place, whose drop counts the remaining tasks.
    pub(super) subscription: OwnedMutexGuard<Option<Subscription>>,
    _place: Place,
}

/// A place in a line; the last place to be dropped removes the line.
struct Place {
    lines: Arc<Lines>,
    key: Arc<[u8]>,
    line: Option<Line>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.lines.lock();
        self.line = None;
        if lines.get(&self.key).is_some_and(|line| Arc::strong_count(line) == 1) {
            lines.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn turns_come_in_order_and_nothing_is_left() {
        let lines = Arc::new(Lines::default());
        let key: Arc<[u8]> = b"k".as_slice().into();
        let first = lines.turn(Arc::clone(&key)).await;
        let mut second = Box::pin(lines.turn(Arc::clone(&key)));
        let mut third = Box::pin(lines.turn(Arc::clone(&key)));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(third.as_mut().now_or_never().is_none());
        drop(first);
        assert!(third.as_mut().now_or_never().is_none(), "the second is before it");
        drop(second);
        drop(third.as_mut().now_or_never().expect("the second went away: it is its turn"));
        drop(third);
        assert_eq!(lines.len(), 0);
    }
}
