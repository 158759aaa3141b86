//! A first-level hit, compared with the underlying crate with a lifetime in the value.

use std::{
    error::Error,
    io,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    cache::{Cache, Loaded, Source},
};

use crate::{
    VALUE_BYTES,
    sides::{Plan, Report, Side, Time},
};

const KEYS: u64 = 1000;
/// A hit never waits, so tasks yield explicitly from time to time.
const BETWEEN_YIELDS: u64 = 1024;

#[derive(Clone)]
struct Copy {
    value: Arc<String>,
    until: Instant,
}

pub(crate) async fn hits(seawall: &Seawall, plan: &Plan) -> Result<Report, Box<dyn Error>> {
    let cache: Cache<u64, String> =
        seawall.cache("bench-level1").local_ttl(Duration::from_secs(3600)).build()?;
    let load = |_| async { Ok::<_, io::Error>(Loaded::Found("x".repeat(VALUE_BYTES))) };
    // The first level is cleared once, when it has found its position in the messages.
    let mut warm = false;
    while !warm {
        warm = true;
        for key in 0..KEYS {
            let read = cache.get_or_load(&key, move || load(key)).await?;
            warm &= read.source == Source::Local;
        }
    }
    let bare = Arc::new(quick_cache::sync::Cache::<u64, Copy>::new(usize::try_from(KEYS)? * 4));
    for key in 0..KEYS {
        let value = Arc::new("x".repeat(VALUE_BYTES));
        bare.insert(key, Copy { value, until: Instant::now() + Duration::from_secs(3600) });
    }
    let ours: Side = Arc::new(move |stop| {
        let cache = cache.clone();
        Box::pin(async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..BETWEEN_YIELDS {
                    let key = count % KEYS;
                    let read = cache.get_or_load(&key, move || load(key)).await;
                    std::hint::black_box(read.is_ok_and(|read| read.value.is_some()));
                    count += 1;
                }
                tokio::task::yield_now().await;
            }
            count
        })
    });
    let theirs: Side = Arc::new(move |stop| {
        let bare = Arc::clone(&bare);
        Box::pin(async move {
            let mut count = 0;
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..BETWEEN_YIELDS {
                    let copy = bare.get(&(count % KEYS)).filter(|copy| copy.until > Instant::now());
                    std::hint::black_box(copy.map(|copy| copy.value));
                    count += 1;
                }
                tokio::task::yield_now().await;
            }
            count
        })
    });
    // A hit does not wait for anything, so its processor time is what counts.
    Ok(Plan { time: Time::Processor, ..*plan }
        .compare("hit in the first level", "quick_cache with a lifetime in the value", ours, theirs)
        .await)
}
