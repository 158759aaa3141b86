//! What runs in the background for carts.

use std::{sync::Arc, time::Duration};

use seawall::cmd;

use super::{Carts, store};
use crate::{breaks::Breaks, error::Result, jobs::Jobs};

/// How often this process looks whether Redis answers again.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// How often it looks while Redis answers, where breaks of all servers are heard, and where not.
const LOOK_EVERY: Duration = Duration::from_secs(30);
const LOOK_EVERY_ON_CLUSTER: Duration = Duration::from_secs(1);
/// How often carts are looked for that were changed during an outage.
const RETURN_EVERY: Duration = Duration::from_secs(1);
/// How often old removals are taken out of the database, and how old they are, in milliseconds.
const PURGE_EVERY: Duration = Duration::from_secs(3600);
const PURGE_AFTER_MS: i64 = 60 * 24 * 3_600_000;

impl Carts {
    /// Starts what runs in the background.
    pub(crate) fn start_jobs(self: &Arc<Self>, jobs: &mut Jobs) -> Result<()> {
        let worker = self.start_worker()?;
        jobs.spawn("cart-behind", |mut stop| async move {
            stop.asked().await;
            let drained = worker.stop().await;
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

    /// Notices an outage, and its end, also when nobody touches a cart meanwhile.
    async fn watch(&self, mut breaks: Breaks) {
        let seawall = &self.context.seawall;
        let while_fine = if breaks.hears_all() { LOOK_EVERY } else { LOOK_EVERY_ON_CLUSTER };
        let mut losses = breaks.losses();
        loop {
            let ping = || async { seawall.client().send(b"", &cmd("PING")).await };
            // By way of the breaker: an answer closes it.
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
                    // It may be back by now, and have forgotten its last second.
                    self.outage.suspect();
                }
            }
        }
    }
}
