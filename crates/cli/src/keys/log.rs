//! `--log`: stores keys above a threshold as rows of `big_key_log`.

use std::time::{SystemTime, UNIX_EPOCH};

use seawall::survey::Finding;
use seawall_market::{big_keys::BigKeyLog, config::Sources};

use crate::{Failure, terminal};

/// Opens the log before the scan, so that a mistake in it does not show only after an hour.
pub(super) async fn open(url: &str) -> Result<BigKeyLog, Failure> {
    // As for `serve`: a password comes from the environment, never from the command line.
    let sources = Sources::new().environment(std::env::vars_os().filter_map(crate::serve::text));
    let database = sources.flag("database", url).and_then(|sources| sources.config());
    let config = database.map_err(|what| Failure::Usage(what.replace("--database", "--log")))?;
    BigKeyLog::open(&config.database)
        .await
        .map_err(|error| Failure::Work(format!("--log {}: {error}", config.database)))
}

/// Inserts findings.
pub(super) async fn insert(log: &BigKeyLog, found: &[Finding]) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let inserted = log.insert(found, millis).await;
    let rows = inserted.map_err(|error| Failure::Work(format!("--log: {error}")))?;
    terminal::remark(&format!("{rows} rows inserted into big_key_log"));
    log.close().await;
    Ok(())
}
