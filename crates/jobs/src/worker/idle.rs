//! Waits until nothing is in progress.

use tokio::sync::Notify;

/// Wakes the task that waits until a table of items is idle.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    notify: Notify,
}

impl Idle {
    /// Notes that the table has become idle.
    pub(crate) fn reached(&self) {
        self.notify.notify_waiters();
    }

    /// Waits until `is_idle` returns `true`; looks again whenever [`reached`](Self::reached) is
    /// called.
    pub(crate) async fn wait(&self, is_idle: impl Fn() -> bool) {
        // Every iteration but the first follows a notification.
        loop {
            let told = self.notify.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if is_idle() {
                return;
            }
            told.await;
        }
    }
}
