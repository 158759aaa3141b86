//! Background jobs of carts.

use std::{sync::Arc, time::Duration};

use seawall::cmd;

use super::{Carts, store};
use crate::{breaks::Breaks, error::Result, jobs::Jobs};

/// Interval between checks whether Redis answers again.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// Interval between checks while Redis answers: where breaks of all servers are reported, and on a
/// Cluster.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const LOOK_EVERY_ON_CLUSTER: Duration = Duration::from_secs(1);
/// Interval between searches for carts changed during an outage.
const RETURN_EVERY: Duration = Duration::from_secs(1);
/// Interval between purges of old removals from the database, and their minimum age in
/// milliseconds.
const PURGE_EVERY: Duration = Duration::from_secs(3600);
const PURGE_AFTER_MS: i64 = 60 * 24 * 3_600_000;

impl Carts {
    /// Starts the background jobs.
    pub(crate) fn start_jobs(self: &Arc<Self>, jobs: &mut Jobs) -> Result<()> {
        let worker = self.start_worker()?;
        jobs.spawn("cart-behind", |mut stop| async move {
            stop.asked().await;
            let drained = worker.shutdown().await;
            tracing::debug!(?drained, "carts are written");
        });
        let (carts, breaks) = (Arc::clone(self), jobs.breaks());
        jobs.spawn("cart-watch", |mut stop| async move {
            tokio::select! {
                () = stop.asked() => {}
                () = carts.watch(breaks) => {}
            }
        });
        let carts = Arc::clone(self);
        jobs.spawn("cart-notice", |stop| async move { carts.keep_looking(stop).await });
        let carts = Arc::clone(self);
        jobs.every("cart-return", RETURN_EVERY, move || {
            let carts = Arc::clone(&carts);
            async move { carts.after_outage().await }
        });
        let carts = Arc::clone(self);
        jobs.every("cart-purge", PURGE_EVERY, move || {
            let carts = Arc::clone(&carts);
            async move {
                let before = carts.context.now() - PURGE_AFTER_MS;
                store::purge(&carts.context.db, before).await
            }
        });
        Ok(())
    }

    /// Detects an outage and its end, even if no request touches a cart meanwhile.
    async fn watch(&self, mut breaks: Breaks) {
        let seawall = &self.context.seawall;
        let while_fine = if breaks.hears_all() { LOOK_EVERY } else { LOOK_EVERY_ON_CLUSTER };
        let mut losses = breaks.losses();
        loop {
            let ping = || async { seawall.client().send(b"", &cmd("PING")).await };
            // Goes through the breaker: a reply closes it.
            let pause = match self.outage.attempt(ping).await {
                Ok(Some(_)) => while_fine,
                Ok(None) => WATCH_EVERY,
                Err(error) => {
                    tracing::debug!(%error, "Redis does not take a ping");
                    WATCH_EVERY
                }
            };
            tokio::select! {
                () = seawall.clock().sleep(pause) => {}
                () = breaks.lost(losses) => {
                    losses = breaks.losses();
                    // Redis may be back by now without its last second of writes.
                    self.outage.suspect();
                }
            }
        }
    }
}
