//! Nightly survey of big keys: one row per key found, and an alarm.
//!
//! One process of the fleet runs it. A lock keeps other processes out while it runs, and a mark
//! with the day keeps out processes that come later. Keys above a threshold are logged in
//! `big_key_log`. If a key is critical, or was absent from the previous survey, there is a log
//! warning, a metric and, if configured, a web hook call.
//!
//! Deliberately absent: any action on the keys. `seawall keys` shows more and can delete.

mod hook;
pub(crate) mod jobs;
mod schedule;
pub(crate) mod store;

use std::{sync::Arc, time::Duration};

use axum::body::Bytes;
use jiff::civil;
use seawall::{
    Seawall, cmd,
    lock::AcquireOutcome,
    survey::{End, Finding, Severity},
};
use serde_json::json;

pub use self::{hook::Hook, store::BigKeyLog};
use crate::{db::Db, error::Result, keys};

/// Lifetime of the mark of a day's survey; longer than the time to the next one.
const MARK_LIFETIME: Duration = Duration::from_secs(3 * 86_400);
/// Maximum keys named in an alarm.
const NAMED: usize = 20;

/// Settings of the survey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Time of day of the survey in the business zone; `None` disables it.
    pub at: Option<civil::Time>,
    /// Keys scanned a second.
    pub rate: u64,
    /// Web hook for alarms, in addition to log and metrics.
    pub hook: Option<Hook>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { at: Some(civil::time(3, 30, 0, 0)), rate: 2_000, hook: None }
    }
}

/// Outcome of a day's survey.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Nightly {
    /// This process ran the survey.
    Done {
        /// Logged rows.
        rows: usize,
        /// Critical keys among them.
        critical: usize,
        /// Keys that the previous survey did not find.
        new: usize,
    },
    /// Another process is running or has run it.
    Elsewhere,
    /// A server or the lock was lost during the survey. The findings so far are logged, and another
    /// attempt is possible.
    Unfinished,
}

/// Runs the surveys of this process.
#[derive(Debug)]
pub(crate) struct BigKeys {
    seawall: Seawall,
    log: BigKeyLog,
    settings: Settings,
}

impl BigKeys {
    pub(crate) fn new(seawall: &Seawall, db: Arc<Db>, settings: Settings) -> Self {
        BigKeys { seawall: seawall.clone(), log: BigKeyLog::new(db), settings }
    }

    /// Runs the survey of a day, unless another process is running or has run it.
    pub(crate) async fn survey(&self, day: civil::Date) -> Result<Nightly> {
        let AcquireOutcome::Acquired(guard) =
            self.seawall.lock(keys::BIG_KEYS_LOCK).try_acquire().await?
        else {
            return Ok(Nightly::Elsewhere);
        };
        let client = self.seawall.client();
        let (mark, today) = (keys::big_keys_day(), day.to_string());
        let last: Option<String> = client.query(&mark, cmd("GET").arg(&mark)).await?;
        if last.is_some_and(|last| last >= today) {
            guard.release().await.map(drop)?;
            return Ok(Nightly::Elsewhere);
        }
        let survey = self.seawall.survey().rate(self.settings.rate);
        let surveyed = survey.run(|_| {}, guard.lost()).await?;
        let known = self.log.latest().await?;
        let found = &surveyed.report.flagged;
        let rows = self.log.insert(found, client.server_millis()).await?;
        let new: Vec<_> = found.iter().filter(|one| !known.contains(&one.key_text())).collect();
        let critical: Vec<_> =
            found.iter().filter(|one| one.severity == Severity::Critical).collect();
        let complete = matches!(surveyed.end, End::Complete);
        if complete {
            let mut set = cmd("SET");
            set.arg(&mark).arg(&today).arg("EX").arg(MARK_LIFETIME.as_secs());
            client.send(&mark, &set).await?;
        }
        // A lost lock needs no release, and if Redis is away the lease expires.
        let _ = guard.release().await;
        metrics::gauge!("seawall_big_keys", "severity" => "critical").set(critical.len() as f64);
        metrics::gauge!("seawall_big_keys", "severity" => "warn")
            .set((found.len() - critical.len()) as f64);
        if !critical.is_empty() || !new.is_empty() {
            self.alarm(&critical, &new).await;
        }
        let (keys, critical, new) = (surveyed.report.totals.keys, critical.len(), new.len());
        if !complete {
            tracing::warn!(end = ?surveyed.end, rows, "the survey of big keys did not end");
            return Ok(Nightly::Unfinished);
        }
        tracing::info!(keys, rows, critical, new, "big keys surveyed");
        Ok(Nightly::Done { rows, critical, new })
    }

    async fn alarm(&self, critical: &[&Finding], new: &[&Finding]) {
        let named = |found: &[&Finding]| -> Vec<_> {
            let one = |one: &&Finding| {
                json!({
                    "key": one.key_text(),
                    "type": one.kind.name(),
                    "bytes": one.bytes,
                    "members": one.members,
                    "severity": one.severity.name(),
                    "node": &*one.node,
                })
            };
            found.iter().take(NAMED).map(one).collect()
        };
        let first = critical.first().or(new.first()).map(|one| one.key_text()).unwrap_or_default();
        tracing::warn!(critical = critical.len(), new = new.len(), first, "big keys");
        metrics::counter!("seawall_big_key_alarms_total").increment(1);
        let Some(hook) = &self.settings.hook else { return };
        let body = json!({
            "alarm": "big keys",
            "critical": { "count": critical.len(), "keys": named(critical) },
            "new": { "count": new.len(), "keys": named(new) },
        });
        if let Err(error) = hook.post(&Bytes::from(body.to_string())).await {
            metrics::counter!("seawall_big_key_hook_failures_total").increment(1);
            tracing::warn!(?hook, error, "the alarm's web hook was not reached");
        }
    }
}
