//! Keys that do not exist: remembered, and filtered: `cargo run -p seawall --example negative`.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, KeyFilter, KeySink, Loaded, Source},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seawall = Seawall::connect("embedded:").await?;
    let queries = Arc::new(AtomicU64::new(0));
    let missing = || {
        let queries = Arc::clone(&queries);
        move || async move {
            queries.fetch_add(1, Ordering::SeqCst);
            Ok::<_, io::Error>(Loaded::<String>::Missing)
        }
    };

    // "There is none" is an answer, and is kept for a short time.
    let shops: Cache<u64, String> =
        seawall.cache("shop").negative_ttl(Duration::from_secs(5)).build()?;
    for _ in 0..100 {
        assert!(shops.get_or_load(&404, missing()).await?.value.is_none());
    }
    say(&format!("one absent key, 100 reads: {} query", queries.swap(0, Ordering::SeqCst)));

    // An attacker takes another key each time: a filter knows which ones exist.
    let known = KeyFilter::new(10_000, |sink: KeySink<u64>| async move {
        (1..=10_000).for_each(|id| sink.add(&id));
        Ok::<_, io::Error>(())
    });
    let users: Cache<u64, String> = seawall.cache("user").filter(known).build()?;
    users.filter_ready().await;
    let mut filtered = 0;
    for id in 1_000_000..1_010_000 {
        filtered += u64::from(users.get_or_load(&id, missing()).await?.source == Source::Filtered);
    }
    let queried = queries.load(Ordering::SeqCst);
    say(&format!("10,000 absent keys: {filtered} filtered, {queried} queries"));
    assert!(queried < 500);

    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
