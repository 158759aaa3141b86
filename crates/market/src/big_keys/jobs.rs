//! Task that runs the survey at its time of day.

use std::{sync::Arc, time::Duration};

use jiff::{civil, tz::TimeZone};
use tokio::{sync::watch, task::JoinHandle};

use super::{BigKeys, Nightly, schedule};

/// Longest sleep, so that a changed system clock is noticed by then.
const LOOK_EVERY: Duration = Duration::from_secs(600);
/// Attempts in one night while a store is away, and the pause between them.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(60);
const DAY_MILLIS: i64 = 86_400_000;
/// Time limit for a running survey to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The running schedule; has no task if surveys are off.
#[derive(Debug)]
pub(crate) struct Schedule {
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Schedule {
    pub(crate) fn start(big_keys: Arc<BigKeys>, zone: TimeZone) -> Self {
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let task = big_keys.settings.at.map(|time| {
            tokio::spawn(async move {
                tokio::select! {
                    // The sender lives as long as the schedule.
                    _ = stopped.wait_for(|stop| *stop) => {}
                    () = every_day(&big_keys, &zone, time) => {}
                }
            })
        });
        Schedule { stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        if let Some(task) = self.task {
            let abort = task.abort_handle();
            if tokio::time::timeout(STOP_LIMIT, task).await.is_err() {
                abort.abort();
            }
        }
    }
}

async fn every_day(big_keys: &BigKeys, zone: &TimeZone, time: civil::Time) {
    let client = big_keys.seawall.client();
    let mut due = schedule::next(client.server_millis(), zone, time);
    loop {
        let now = client.server_millis();
        if now < due.at_millis {
            let left = Duration::from_millis(now.abs_diff(due.at_millis));
            client.clock().sleep(left.min(LOOK_EVERY)).await;
            continue;
        }
        one_night(big_keys, due.day).await;
        // A missed night, as on a sleeping laptop, is made up for; only the last one.
        let yesterday = client.server_millis().saturating_sub(DAY_MILLIS);
        due = schedule::next(due.at_millis.max(yesterday), zone, time);
    }
}

async fn one_night(big_keys: &BigKeys, day: civil::Date) {
    for attempt in 1..=ATTEMPTS {
        match big_keys.survey(day).await {
            Ok(Nightly::Done { .. } | Nightly::Elsewhere) => return,
            Ok(Nightly::Unfinished) => {}
            Err(error) => tracing::warn!(%error, attempt, "the survey of big keys failed"),
        }
        if attempt < ATTEMPTS {
            big_keys.seawall.clock().sleep(PAUSE).await;
        }
    }
    tracing::warn!(%day, "no survey of big keys this night");
}
