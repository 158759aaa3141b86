//! Members by time, a copy of what a database says: `cargo run -p seawall --example timeline`.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use seawall::{Seawall, social::Change};

#[tokio::main]
async fn main() -> Result<(), seawall::Error> {
    let seawall = Seawall::connect("embedded:").await?;

    // The table `blog_like`: who likes note 42, and since when.
    let table = Arc::new(Mutex::new(vec![(7_u64, 1_000_i64), (8, 2_000), (9, 3_000)]));
    let reads = Arc::new(AtomicU64::new(0));
    let (rows, count) = (Arc::clone(&table), Arc::clone(&reads));
    let load = move |_note: u64| {
        count.fetch_add(1, Ordering::Relaxed);
        let rows = rows.lock().map(|rows| rows.clone()).unwrap_or_default();
        async move { Ok::<_, std::io::Error>(rows) }
    };
    let likes = seawall.timelines::<u64, _, _, _>("likes", load).build()?;
    let note = likes.of(&42)?;

    // The first look reads the table, by one process; the others find the copy.
    say(&format!("the first: {:?}", note.first(2).await?));
    say(&format!(
        "how many: {}, read {} times",
        note.count().await?,
        reads.load(Ordering::Relaxed)
    ));

    // The table first, then the copy. Twice is as good as once.
    if let Ok(mut rows) = table.lock() {
        rows.push((10, 4_000));
    }
    assert_eq!(note.put(&10, 4_000).await?, Change::Changed);
    assert_eq!(note.put(&10, 4_000).await?, Change::Unchanged);
    for (member, time) in note.newest(9_999, 2).await?.members {
        say(&format!("{member} since {time}"));
    }

    // Redis lost it: never taken for a note that nobody likes.
    note.forget().await?;
    assert_eq!(note.put(&10, 4_000).await?, Change::Unchanged, "nothing is added to nothing");
    say(&format!("after the loss: {}", note.count().await?));
    say(&format!("read {} times in all", reads.load(Ordering::Relaxed)));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
