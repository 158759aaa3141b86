//! Background job of shops: compares the map with the database.

use std::{sync::Arc, time::Duration};

use super::Shops;
use crate::jobs::Jobs;

/// Interval, in addition to comparisons after a break: the maximum time that a change can be
/// missing from the map if its process was killed.
const COMPARE_EVERY: Duration = Duration::from_secs(5 * 60);

/// Starts the job.
pub(crate) fn start(jobs: &mut Jobs, shops: &Arc<Shops>) {
    let shops = Arc::clone(shops);
    jobs.every("shop-map", COMPARE_EVERY, move || {
        let shops = Arc::clone(&shops);
        async move { shops.compare_map().await }
    });
}
