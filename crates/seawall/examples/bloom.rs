//! A filter that says what cannot exist, rebuilt while it is in use: `cargo run -p seawall --example bloom`.

use seawall::{
    Seawall,
    bloom::{Answer, Bloom, BloomSink, Rebuild},
};

/// What a route for a shop would do before it asks any cache or database.
async fn shop(known: &Bloom<u64>, id: u64) -> Result<String, seawall::Error> {
    Ok(match known.contains(&id).await? {
        Answer::Absent => format!("404 for {id}, and nobody was asked"),
        Answer::Possible => format!("look for {id}"),
    })
}

/// In real life: pages through the primary keys of a table.
async fn all_shops(sink: BloomSink<u64>) -> Result<(), seawall::Error> {
    for page in 0..10 {
        let ids: Vec<u64> = (page * 1_000..(page + 1) * 1_000).collect();
        sink.add_many(&ids).await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let known = seawall.bloom::<u64>("shop", 20_000).false_positives(0.001).build()?;
    say(&shop(&known, 7).await?);

    // Built once; whoever comes second is told that somebody is at it.
    if let Rebuild::Done { generation } = known.rebuild(20_000, all_shops).await? {
        say(&format!("generation {generation} answers"));
    }
    say(&shop(&known, 7).await?);
    say(&shop(&known, 4_000_000).await?);

    // A new shop: the database first, then the filter.
    let _ = known.add(&4_000_000).await?;
    say(&shop(&known, 4_000_000).await?);

    // Rebuilt now and then, for what was deleted; nobody notices.
    let _ = known.rebuild(20_000, all_shops).await?;
    let status = known.status().await?;
    say(&format!(
        "{} of {} keys in {} bytes, {:.5} of absent ones pass",
        status.items, status.expected, status.bytes, status.false_positives
    ));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
