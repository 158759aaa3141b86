//! How long a cache's tasks live: until the handle is shut down, or the last handle of the cache is
//! dropped.

use seawall_client::Handle;
use tokio::sync::watch;

/// Held by the cache itself: when it is dropped, its tasks see the end.
pub(crate) struct Alive(watch::Sender<()>);

impl Alive {
    pub(crate) fn new() -> Self {
        Alive(watch::Sender::new(()))
    }

    /// What a task of this cache watches.
    pub(crate) fn life(&self, handle: &Handle) -> Life {
        Life { handle: handle.stopping(), cache: self.0.subscribe() }
    }
}

/// What a task watches to know when it is over.
pub(crate) struct Life {
    handle: watch::Receiver<bool>,
    cache: watch::Receiver<()>,
}

impl Life {
    /// The handle is being shut down.
    pub(crate) async fn stopped(&mut self) {
        // A handle that is gone was shut down before.
        let _ = self.handle.wait_for(|stop| *stop).await;
    }

    /// Both ends, each to be waited for by itself: the handle is being shut down, and the last handle of
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

    /// Either of them.
    pub(crate) async fn over(&mut self) {
        let (stopped, dropped) = self.ends();
        tokio::select! {
            biased;
            () = stopped => {}
            () = dropped => {}
        }
    }
}
