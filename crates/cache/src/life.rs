//! Ends a cache's tasks: when the handle is shut down, or the last handle of the cache is dropped.

use seawall_client::Handle;
use tokio::sync::watch;

/// Keeps the tasks of a cache alive; they end after it is dropped.
pub(crate) struct Alive(watch::Sender<()>);

impl Alive {
    pub(crate) fn new() -> Self {
        Alive(watch::Sender::new(()))
    }

    /// Returns a watcher for a task of this cache.
    pub(crate) fn life(&self, handle: &Handle) -> Life {
        Life { handle: handle.stopping(), cache: self.0.subscribe() }
    }
}

/// Tells a task when to end.
pub(crate) struct Life {
    handle: watch::Receiver<bool>,
    cache: watch::Receiver<()>,
}

impl Life {
    /// Waits until the handle is shut down.
    pub(crate) async fn stopped(&mut self) {
        // A handle that is gone was shut down before.
        let _ = self.handle.wait_for(|stop| *stop).await;
    }

    /// Returns both ends, to wait for each by itself: the handle is shut down, and the last handle of
    /// the cache is gone.
    pub(crate) fn ends(&mut self) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
        let (handle, cache) = (&mut self.handle, &mut self.cache);
        let stopped = async {
            let _ = handle.wait_for(|stop| *stop).await;
        };
        // Nothing is ever sent: it ends with the sender.
        let dropped = async { while cache.changed().await.is_ok() {} };
        (stopped, dropped)
    }

    /// Waits for either end.
    pub(crate) async fn over(&mut self) {
        let (stopped, dropped) = self.ends();
        tokio::select! {
            biased;
            () = stopped => {}
            () = dropped => {}
        }
    }
}
