//! Scores, ranks and seasons: `cargo run -p seawall --example leaderboard`.

use std::time::Duration;

use seawall::{Seawall, social::Standing};

fn show(list: &[Standing<String>]) {
    for standing in list {
        say(&format!(
            "  {:>2}. {:<6} {:>5} (competition rank {}, dense {})",
            standing.position, standing.member, standing.score, standing.rank, standing.dense_rank
        ));
    }
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    // A season is kept for 90 days after its first score.
    let board = seawall.leaderboard::<String>("race").ttl(Duration::from_secs(90 * 86_400));
    let november = board.season("2026-11")?;

    for (who, score) in [("ann", 700), ("ben", 900), ("carl", 700), ("dora", 400), ("eve", 650)] {
        november.set(&who.to_owned(), score).await?;
    }
    say("November, ann before carl because she was there first:");
    show(&november.top(10).await?);

    // A worse run does not count, a better one does.
    november.set_if_better(&"dora".to_owned(), 300).await?;
    november.set_if_better(&"dora".to_owned(), 720).await?;
    // Points are added once for each reference, however often the message comes.
    for _ in 0..3 {
        november.add(&"eve".to_owned(), 50, "match-77").await?;
    }
    say("around dora:");
    show(&november.around(&"dora".to_owned(), 1).await?);
    if let Some(eve) = november.standing(&"eve".to_owned()).await? {
        say(&format!("eve has {} and is behind those who had it before", eve.score));
    }

    let december = board.season("2026-12")?;
    say(&format!("December begins with {}", december.count().await?));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
