//! The page about the toolkit's core: cache, locks, ids.

use std::error::Error;

use serde::Serialize;

use crate::{Ground, level1, level2, locks, sides::Report};

/// All results.
#[derive(Serialize)]
struct Results {
    reports: Vec<Report>,
    hand_over: Vec<locks::HandOver>,
    ids_per_second: f64,
}

pub(crate) async fn measure(ground: &Ground) -> Result<String, Box<dyn Error>> {
    let Ground { seawall, bare, plan, url, .. } = ground;
    let mut reports = Vec::new();
    if ground.wants("level1") {
        reports.push(level1::hits(seawall, plan).await?);
    }
    if ground.wants("level2") {
        reports.push(level2::hits(seawall, bare, plan).await?);
    }
    if ground.wants("batch") {
        reports.push(level2::batches(seawall, bare, plan).await?);
    }
    if ground.wants("lock") {
        reports.extend(locks::pairs(seawall, bare, plan).await?);
    }
    if ground.only.is_some() {
        return Ok(serde_json::to_string_pretty(&reports)?);
    }
    let hand_over = locks::hand_over(seawall, url, plan).await?;
    let ids_per_second = locks::ids(seawall, plan).await?;
    Ok(serde_json::to_string_pretty(&Results { reports, hand_over, ids_per_second })?)
}
