//! Background jobs of accounts: completing log-outs that Redis missed, and deleting expired session
//! rows.
//!
//! Completing log-outs is urgent: a session that its user wants to end works again as soon as Redis
//! does. An expired row grants nothing and only takes space, so rows are deleted in small batches
//! that do not block other writers.

use std::{sync::Arc, time::Duration};

use super::{Accounts, session_store};
use crate::{error::Result, jobs::Jobs};

/// Interval between attempts to complete log-outs that Redis missed.
const LOG_OUTS_EVERY: Duration = Duration::from_secs(1);
/// Interval between deletions of expired rows.
const EXPIRED_EVERY: Duration = Duration::from_secs(10 * 60);
/// Maximum batches of rows in one round; the next round continues.
const SLICES: usize = 200;

/// Starts the jobs.
pub(crate) fn start(accounts: &Arc<Accounts>, jobs: &mut Jobs) {
    let here = Arc::clone(accounts);
    jobs.every("log-outs", LOG_OUTS_EVERY, move || {
        let accounts = Arc::clone(&here);
        async move { accounts.sessions.close_ending().await }
    });
    let (seawall, db) = (accounts.seawall.clone(), Arc::clone(&accounts.db));
    jobs.every("ended sessions", EXPIRED_EVERY, move || {
        let (seawall, db) = (seawall.clone(), Arc::clone(&db));
        async move {
            let now = seawall.client().server_millis();
            for _ in 0..SLICES {
                if session_store::delete_expired(&db, now).await? == 0 {
                    break;
                }
            }
            Result::Ok(())
        }
    });
}
