//! What accounts do in the background: log-outs that Redis was not told of are told, and rows of
//! sessions whose time is over go.
//!
//! The former has some hurry: a session that somebody wants to end works again as soon as Redis does.
//! A row whose time is over opens nothing, it only takes room; a few go at a time, so that nobody who
//! writes waits for it.

use std::{sync::Arc, time::Duration};

use super::{Accounts, session_store};
use crate::{error::Result, jobs::Jobs};

/// How often Redis is told of log-outs that it missed.
const LOG_OUTS_EVERY: Duration = Duration::from_secs(1);
/// How often it is looked for rows whose time is over.
const EXPIRED_EVERY: Duration = Duration::from_secs(10 * 60);
/// Most slices of rows in one round; the next one goes on.
const SLICES: usize = 200;

/// Starts them.
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
