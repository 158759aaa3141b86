//! Ids without a round trip each: `cargo run -p seawall --example ids`.

use std::time::Instant;

use seawall::{
    Seawall,
    id::{Id, Snowflake},
};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;
    let orders = seawall.ids("order").build()?;

    let first = orders.next().await?;
    let second = orders.next().await?;
    say(&format!("orders {first} and {second}"));
    assert!(first < second);

    // In JSON an id is a string, because JavaScript rounds numbers beyond 2^53.
    let json = serde_json::to_string(&first).expect("an id is a string");
    let back: Id = serde_json::from_str(&json).expect("and back");
    assert_eq!(back, first);
    say(&format!("as JSON {json}, made at {:?}", first.decode().time));

    let began = Instant::now();
    for _ in 0..100_000 {
        orders.next().await?;
    }
    let (taken, time) = (orders.taken_today().await?, began.elapsed());
    say(&format!("100,000 more in {time:?}; {taken} taken from Redis today"));

    // Without Redis: a worker number that no other process has.
    let flakes = Snowflake::new(7)?;
    let flake = flakes.next().await?;
    say(&format!("snowflake {flake} of worker {}", Snowflake::decode(flake).worker));

    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
