//! Demo page views: one week. They exist in Redis only, like all page views.

use crate::{app::Context, error::Result, stats};

/// Visitors on each day before today, the latest day first.
const VISITORS: [u32; 7] = [180, 240, 225, 150, 130, 145, 160];
/// Each day starts this much further into the same visitors: some return, some are new.
const STRIDE: u32 = 60;

/// Records a week of page views up to yesterday; runs after the rows are inserted.
pub(super) async fn fill(context: &Context) -> Result<()> {
    let site = stats::site(context)?;
    let days = std::iter::successors(context.today().previous(), |day| day.previous());
    for ((back, day), count) in (0..).zip(days).zip(VISITORS) {
        let first = back * STRIDE;
        let visitors: Vec<String> =
            (first..first + count).map(|one| format!("demo{one}")).collect();
        site.visit_all(day, &visitors).await?;
    }
    Ok(())
}
