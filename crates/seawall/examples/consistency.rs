//! A write overtakes a slow load; the old row is not stored: `cargo run -p seawall --example consistency`.

use std::{io, sync::Arc};

use seawall::{
    Seawall,
    cache::{Cache, Loaded},
};
use tokio::sync::Semaphore;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seawall = Seawall::connect("embedded:").await?;
    let prices: Cache<u64, u64> = seawall.cache("price").build()?;
    let (has_read, may_go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));

    // A reader has read the old row from the database, and is held up.
    let slow = tokio::spawn({
        let (prices, has_read, may_go_on) =
            (prices.clone(), Arc::clone(&has_read), Arc::clone(&may_go_on));
        async move {
            let load = move || async move {
                let old_row = 10;
                has_read.add_permits(1);
                let _go = may_go_on.acquire().await.map_err(io::Error::other)?;
                Ok::<_, io::Error>(Loaded::Found(old_row))
            };
            prices.get_or_load(&1, load).await
        }
    });
    has_read.acquire().await?.forget();

    // Meanwhile the price is changed. This kills the reader's lease.
    let ((), done) = prices.write(&1, async { Ok::<_, io::Error>(()) }).await?;
    say(&format!("written: {done:?}"));

    // Now the reader wants to store what it read. Redis refuses: its lease is gone.
    may_go_on.add_permits(1);
    let early = slow.await??;
    say(&format!("the slow reader began before the write and got {:?}", early.value));

    let now = prices.get_or_load(&1, || async { Ok::<_, io::Error>(Loaded::Found(12)) }).await?;
    say(&format!("everybody after it gets {:?} from {:?}", now.value, now.source));
    assert_eq!(now.value.as_deref(), Some(&12));

    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
