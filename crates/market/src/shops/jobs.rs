//! What shops have done in the background: the map is compared with the database.

use std::{sync::Arc, time::Duration};

use super::Shops;
use crate::jobs::Jobs;

/// How often, besides after a break: this is how long a change that did not reach the map, because its
/// process was killed, can go unnoticed.
const COMPARE_EVERY: Duration = Duration::from_secs(5 * 60);

/// Begins them.
pub(crate) fn start(jobs: &mut Jobs, shops: &Arc<Shops>) {
    let shops = Arc::clone(shops);
    jobs.every("shop-map", COMPARE_EVERY, move || {
        let shops = Arc::clone(&shops);
        async move { shops.compare_map().await }
    });
}
