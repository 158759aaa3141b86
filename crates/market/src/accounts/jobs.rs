//! What accounts do in the background: rows of sessions that have ended go.
//!
//! A row that has ended opens nothing; it only takes room. So this has no hurry, and takes a few at a
//! time, so that nobody who writes waits for it.

use std::{sync::Arc, time::Duration};

use super::{Accounts, store};
use crate::{error::Result, jobs::Jobs};

/// How often it is looked for ended sessions.
const EVERY: Duration = Duration::from_secs(10 * 60);
/// Most slices of rows in one round; the next one goes on.
const SLICES: usize = 200;

/// Starts them.
pub(crate) fn start(accounts: &Accounts, jobs: &mut Jobs) {
    let (seawall, db) = (accounts.seawall.clone(), Arc::clone(&accounts.db));
    jobs.every("ended sessions", EVERY, move || {
        let (seawall, db) = (seawall.clone(), Arc::clone(&db));
        async move {
            let now = seawall.link().server_millis();
            for _ in 0..SLICES {
                if store::delete_ended(&db, now).await? == 0 {
                    break;
                }
            }
            Result::Ok(())
        }
    });
}
