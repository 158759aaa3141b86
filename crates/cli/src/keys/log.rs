//! `--log`: what is above a threshold, as rows of `big_key_log`.

use std::time::{SystemTime, UNIX_EPOCH};

use seawall::survey::Finding;
use seawall_market::big_keys::BigKeyLog;

use crate::{Failure, terminal};

/// Opens the log before the survey: what is wrong with it should not show after an hour.
pub(super) async fn open(url: &str) -> Result<BigKeyLog, Failure> {
    let Some(path) = url.strip_prefix("sqlite:").map(|path| path.trim_start_matches("//")) else {
        return Err(Failure::Usage(format!(
            "--log cannot be '{url}': it takes sqlite:PATH; MySQL is not built into this version"
        )));
    };
    if path.is_empty() {
        return Err(Failure::Usage("--log: sqlite: needs the path of a file".into()));
    }
    BigKeyLog::open_sqlite(path.as_ref())
        .await
        .map_err(|error| Failure::Work(format!("--log {url}: {error}")))
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
