//! A thousand readers of one cold key, one load: `cargo run -p seawall --example stampede`.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Loaded},
};

const READERS: usize = 1000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seawall = Seawall::connect("embedded:").await?;
    let cache: Cache<u64, String> = seawall.cache("hot").build()?;
    let loads = Arc::new(AtomicU64::new(0));
    let began = Instant::now();

    let readers: Vec<_> = (0..READERS)
        .map(|_| {
            let (cache, loads) = (cache.clone(), Arc::clone(&loads));
            tokio::spawn(async move {
                let load = move || async move {
                    loads.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok::<_, io::Error>(Loaded::Found("a slow row".to_owned()))
                };
                cache.get_or_load(&1, load).await.map(|read| read.value.is_some())
            })
        })
        .collect();
    let mut answered = 0;
    for reader in readers {
        answered += usize::from(reader.await??);
    }

    let loads = loads.load(Ordering::SeqCst);
    say(&format!("{answered} readers, {loads} load, {:?}", began.elapsed()));
    assert_eq!((answered, loads), (READERS, 1));
    seawall.shutdown().await;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
