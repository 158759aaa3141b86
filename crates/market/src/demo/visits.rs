//! Page views of the demo town: a week of them. They are in Redis alone, as all page views are.

use crate::{app::Context, error::Result, stats};

/// Visitors on each of the days before today, the last one first.
const VISITORS: [u32; 7] = [180, 240, 225, 150, 130, 145, 160];
/// Each day begins so much further among the same people: some come back, some are new.
const STRIDE: u32 = 60;

/// A week of page views up to yesterday, after the rows are there.
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
