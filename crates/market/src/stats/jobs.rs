//! Counts page views in the background, in batches.

use std::collections::HashMap;

use seawall::social::{Day, VisitsOf};
use tokio::sync::mpsc;

use super::View;
use crate::jobs::Stop;

/// Views per batch.
const BATCH: usize = 1000;

/// Counts views until it is asked to stop, and then those that still wait.
pub(super) async fn count(site: VisitsOf, mut waiting: mpsc::Receiver<View>, mut stop: Stop) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut stopped = false;
    loop {
        if stopped {
            // No more views are accepted; those in the queue end the loop.
            waiting.close();
        }
        let received = tokio::select! {
            received = waiting.recv_many(&mut batch, BATCH) => received,
            () = stop.asked(), if !stopped => {
                stopped = true;
                continue;
            }
        };
        if received == 0 {
            return;
        }
        flush(&site, &mut batch).await;
    }
}

async fn flush(site: &VisitsOf, batch: &mut Vec<View>) {
    let mut days: HashMap<Day, Vec<String>> = HashMap::new();
    for View { day, visitor } in batch.drain(..) {
        days.entry(day).or_default().push(visitor.0);
    }
    for (day, visitors) in days {
        if let Err(error) = site.visit_all(day, &visitors).await {
            tracing::warn!(%error, views = visitors.len(), "page views are lost");
            lost(visitors.len());
        }
    }
}

/// Counts views that were lost.
pub(super) fn lost(views: usize) {
    metrics::counter!("market_page_views_lost_total").increment(views as u64);
}
