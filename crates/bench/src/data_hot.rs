//! What counting accesses costs a read: alone, and as part of a first-level hit.

use std::{
    error::Error,
    hint::black_box,
    io,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, CacheError, Loaded, Source},
    hotkey::HotRules,
};

use crate::{
    Ground, VALUE_BYTES,
    data::{Figure, Findings},
    sides::median,
};

const KEYS: u64 = 1000;
/// Reads that are timed together.
const READS: u64 = 1_000_000;
/// Maximum cost of counting per read.
const GOAL_NANOS: f64 = 50.0;

/// Nanoseconds of one call.
fn time(mut call: impl FnMut(u64)) -> f64 {
    let began = Instant::now();
    (0..READS).for_each(&mut call);
    began.elapsed().as_nanos() as f64 / READS as f64
}

async fn warm(seawall: &Seawall, rules: HotRules) -> Result<Cache<u64, String>, CacheError> {
    let name = if rules == HotRules::off() { "bench-uncounted" } else { "bench-counted" };
    let builder = seawall.cache(name).local_ttl(Duration::from_secs(3600));
    let cache: Cache<u64, String> = builder.hot_keys(rules).build()?;
    let mut warm = false;
    while !warm {
        warm = true;
        for key in 0..KEYS {
            warm &= cache.get_or_load(&key, load).await?.source == Source::Local;
        }
    }
    Ok(cache)
}

async fn load() -> io::Result<Loaded<String>> {
    Ok(Loaded::Found("x".repeat(VALUE_BYTES)))
}

/// Nanoseconds of one hit in the first level.
async fn hits(cache: &Cache<u64, String>) -> f64 {
    let began = Instant::now();
    for read in 0..READS {
        let read = cache.get_or_load(&(read % KEYS), load).await;
        black_box(read.is_ok_and(|read| read.value.is_some()));
    }
    began.elapsed().as_nanos() as f64 / READS as f64
}

pub(crate) async fn counting(ground: &Ground) -> Result<Findings, Box<dyn Error>> {
    let names: Vec<Vec<u8>> =
        (0..KEYS).map(|key| format!("bench-sketch:{key}").into_bytes()).collect();
    let name = |read: u64| names[(read % KEYS) as usize].as_slice();
    // Without a cache nothing empties the sketch, and every read is counted.
    let exact = Seawall::connect("embedded:").await?;
    let each = exact.hot_keys();
    // With a cache, reads at this rate are sampled.
    let sampled = ground.seawall.hot_keys();
    let counted = warm(&ground.seawall, HotRules::default()).await?;
    let uncounted = warm(&ground.seawall, HotRules::off()).await?;
    let mut nanos: [Vec<f64>; 3] = Default::default();
    for _ in 0..=ground.plan.rounds {
        let bare = time(|read| {
            black_box(black_box(name(read)));
        });
        nanos[0].push(time(|read| each.count(black_box(name(read)))) - bare);
        nanos[1].push(time(|read| sampled.count(black_box(name(read)))) - bare);
        nanos[2].push(hits(&counted).await - hits(&uncounted).await);
        // Lets the ticks measure the load.
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    exact.shutdown().await;
    let whats = [
        "counting a read, each one counted",
        "counting a read, sampled because there are many",
        "counting, as part of a hit in the first level",
    ];
    let figures = whats.into_iter().zip(nanos).map(|(what, nanos)| Figure {
        what,
        value: median(nanos),
        unit: "ns",
        at_most: Some(GOAL_NANOS),
    });
    Ok(Findings { comparisons: Vec::new(), figures: figures.collect() })
}
