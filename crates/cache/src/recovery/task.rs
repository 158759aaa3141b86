//! Carries out what the recovery queue holds, in the background.
//!
//! One task a cache. It also does once more what was acknowledged lately, whenever a connection was
//! opened anew (`recent.rs`), and what is to be invalidated a second time after a delay. When the
//! handle is shut down it carries out at once what is still to come; when the cache's last handle is
//! dropped it goes on until there is nothing left to do.
//!
//! A second task, where there is a log, writes additions into it: a hanging Redis must not keep those
//! waiting who are told "queued" when the log has it.

use std::{io, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use seawall_client::error::{Error, Result};
use seawall_resilience::{
    Backoff,
    clock::{Clock, Moment},
};
use tokio::sync::watch;

use crate::{
    life::Life,
    recovery::backlog::Batch,
    recovery::queue::RecoveryQueue,
    recovery::recent::Recent,
    recovery::sweep::{Sweep, sweep},
    tier::remote::RemoteTier,
};

const PAUSES: Backoff = Backoff::doubling(Duration::from_millis(50), Duration::from_secs(1));
/// How often the log is read for what others added.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// What the task works with.
pub(crate) struct Carer {
    pub(crate) recovery: Arc<RecoveryQueue>,
    pub(crate) recent: Arc<Recent>,
    pub(crate) remote: Arc<RemoteTier>,
    pub(crate) way: Sweep,
    pub(crate) clock: Clock,
    pub(crate) opened: watch::Receiver<u64>,
    pub(crate) life: Life,
}

impl Drop for Carer {
    fn drop(&mut self) {
        // It ended in order, or its runtime did.
        if !self.recovery.has_ended() {
            self.recovery.abandon();
        }
    }
}

/// Why the task stopped waiting.
enum Woken {
    ToWork,
    Connected,
    Dropped,
    Stopped,
}

impl Carer {
    /// Works until the handle is shut down, or the cache is gone and nothing is left to do.
    pub(crate) async fn work(mut self) {
        let (mut pauses, mut log) = (PAUSES, LogReader::new(&self.clock));
        let (mut stopping, mut dropped) = (false, false);
        // Ends when the handle does.
        loop {
            let next_due = self.recovery.take_due(self.clock.now(), stopping);
            if !dropped {
                log.begin(&self.recovery, &self.clock);
            }
            // A log that answers slowly keeps nothing waiting, but for the end.
            let read = if stopping { log.end().await } else { log.end().now_or_never().flatten() };
            if stopping && read.is_some_and(|read| read.is_err()) {
                self.recovery.end(true);
                return;
            }
            let batch = self.recovery.next_batch();
            if batch == Batch::Nothing {
                let over =
                    stopping || dropped && next_due.is_none() && self.recent.is_over(&self.clock);
                if over && self.recovery.end(false) {
                    return;
                }
                match self.wait(next_due, &mut log, dropped).await {
                    Woken::ToWork => {}
                    Woken::Connected => self.repeat(),
                    Woken::Dropped => dropped = true,
                    Woken::Stopped => stopping = true,
                }
                continue;
            }
            match self.carry_out(batch).await {
                Ok(()) => pauses.reset(),
                Err(_) if stopping => {
                    self.recovery.end(true);
                    return;
                }
                Err(error) => {
                    let waiting = self.recovery.len();
                    tracing::debug!(%error, waiting, "the recovery queue waits for Redis");
                    tokio::select! {
                        biased;
                        () = self.life.stopped() => stopping = true,
                        () = self.clock.sleep(pauses.pause()) => {}
                    }
                }
            }
        }
    }

    async fn wait(&mut self, due: Option<Moment>, log: &mut LogReader, dropped: bool) -> Woken {
        let (has_log, is_reading) = (self.recovery.log.is_some() && !dropped, log.is_reading());
        let next_log = log.next;
        let over = self.recent.over_at();
        let (stopped, gone) = self.life.ends();
        tokio::select! {
            biased;
            () = stopped => Woken::Stopped,
            // Before new work, which may never cease. Connections end with the handle.
            opened = self.opened.changed() => match opened {
                Ok(()) => Woken::Connected,
                Err(_) => Woken::Stopped,
            },
            () = self.recovery.added.notified() => Woken::ToWork,
            () = self.clock.sleep_until(due.unwrap_or_default()), if due.is_some() => Woken::ToWork,
            _ = log.end(), if is_reading => Woken::ToWork,
            () = self.clock.sleep_until(next_log), if has_log && !is_reading => Woken::ToWork,
            () = gone, if !dropped => Woken::Dropped,
            () = self.clock.sleep_until(over), if dropped => Woken::ToWork,
        }
    }

    /// Repeats recent invalidations after a new connection: its server may have forgotten what another
    /// acknowledged.
    fn repeat(&self) {
        let (entries, bumps) = self.recent.since(self.clock.now());
        if !entries.is_empty() || !bumps.is_empty() {
            let count = entries.len() + bumps.len();
            tracing::debug!(count, "a new connection: invalidating once more");
            self.recovery.repeat(entries, bumps);
        }
    }

    async fn carry_out(&mut self, batch: Batch) -> Result<()> {
        let (done, outcome) = match batch {
            Batch::Nothing => return Ok(()),
            Batch::Entries(entries) => {
                let names = entries.iter().map(|(entry, _)| entry.clone()).collect();
                let outcome = self.remote.invalidate(names, false).await;
                let (left, done): (Vec<_>, Vec<_>) =
                    entries.into_iter().partition(|(entry, _)| outcome.left.contains(entry));
                if !left.is_empty() {
                    self.recovery.failed(&left);
                }
                (Batch::Entries(done), outcome.error.map_or(Ok(()), Err))
            }
            Batch::Generation(bump, number) => {
                self.remote.bump(&bump).await?;
                (Batch::Generation(bump, number), Ok(()))
            }
            Batch::Everything(covered, rows) => {
                tokio::select! {
                    biased;
                    swept = sweep(&self.remote, self.way) => swept?,
                    () = self.life.stopped() => return Err(Error::Closed),
                }
                (Batch::Everything(covered, rows), Ok(()))
            }
        };
        let rows = self.recovery.done(done);
        if let (Some(log), false) = (&self.recovery.log, rows.is_empty())
            && let Err(error) = self.recovery.in_time(log.remove(&self.recovery.cache, &rows)).await
        {
            // They are found again, and carried out once more.
            let cache = &self.recovery.cache;
            tracing::warn!(cache, %error, "rows of the recovery log could not be removed");
        }
        outcome
    }
}

/// Reads the log now and then, beside everything else.
struct LogReader {
    reading: Option<BoxFuture<'static, io::Result<()>>>,
    /// When it is read next.
    next: Moment,
    /// Whether the log answered last time.
    is_healthy: bool,
}

impl LogReader {
    fn new(clock: &Clock) -> Self {
        LogReader { reading: None, next: clock.now(), is_healthy: true }
    }

    fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Begins to read, if that is due.
    fn begin(&mut self, recovery: &Arc<RecoveryQueue>, clock: &Clock) {
        let now = clock.now();
        let is_due = now >= self.next || self.is_healthy && recovery.log_is_due();
        if recovery.log.is_some() && self.reading.is_none() && is_due {
            self.next = now + LOG_EVERY;
            let recovery = Arc::clone(recovery);
            let read = async move {
                let read = Arc::clone(&recovery).read_log().await;
                read.inspect_err(|error| {
                    let cache = &recovery.cache;
                    tracing::warn!(cache, %error, "the recovery log cannot be read");
                })
            };
            self.reading = Some(read.boxed());
        }
    }

    /// Waits until what is being read was read.
    async fn end(&mut self) -> Option<io::Result<()>> {
        let read = self.reading.as_mut()?.await;
        self.reading = None;
        self.is_healthy = read.is_ok();
        Some(read)
    }
}

/// Writes what is queued into the log, until the queue has ended.
pub(crate) async fn write_log(recovery: Arc<RecoveryQueue>, clock: Clock) {
    let Some(log) = &recovery.log else { return };
    let mut pauses = PAUSES;
    while let Some((entries, number)) = recovery.take_unwritten() {
        if entries.is_empty() {
            recovery.wrote(number, Vec::new());
            recovery.unwritten.notified().await;
            continue;
        }
        match recovery.in_time(log.add(&recovery.cache, &entries)).await {
            Ok(()) => {
                recovery.wrote(number, Vec::new());
                recovery.added.notify_one();
                pauses.reset();
            }
            Err(error) => {
                let cache = &recovery.cache;
                tracing::error!(cache, %error, "a queued invalidation would not survive a restart");
                recovery.wrote(number, entries);
                if recovery.has_ended() {
                    return;
                }
                clock.sleep(pauses.pause()).await;
            }
        }
    }
}
