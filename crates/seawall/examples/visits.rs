//! Page views and different visitors, by day and range: `cargo run -p seawall --example visits`.

use std::time::Duration;

use seawall::{Seawall, social::Day};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let pages = seawall.visits("page").ttl(Duration::from_secs(400 * 86_400));
    let home = pages.of("home")?;

    // A week; each day 3,000 visitors, of whom 2,000 come again the day after.
    let first: Day = "2026-11-28".parse()?;
    let mut day = first;
    let mut last = first;
    for number in 0..7_u64 {
        let visitors: Vec<u64> = (number * 1_000..number * 1_000 + 3_000).collect();
        home.visit_all(day, &visitors).await?;
        say(&format!(
            "{day}: {} views, {} visitors",
            home.views(day..=day).await?,
            home.visitors(day..=day).await?
        ));
        (last, day) = (day, day.next());
    }
    // A range is a union, not a sum: 9,000 people made 21,000 views.
    let (views, visitors) = (home.views(first..=last).await?, home.visitors(first..=last).await?);
    say(&format!("the week: {views} views by about {visitors} of 9,000"));

    // One view by one visitor, as a request filter would count it.
    home.visit(last, &"guest-7f".to_owned()).await?;
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
