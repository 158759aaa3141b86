//! Large values in a cache: all of its promises, whether a value is cut or not.

use std::{collections::HashMap, io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, PutOutcome, RemoteState, Source},
    cmd,
};

use crate::{
    content::content,
    eventually::eventually,
    keyspace::keys,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    without sentinel:
    a_large_value_is_cut_and_read_like_any_other
    replaced_invalidated_and_refused_values_leave_parts_that_end
    versioned_writes_compare_contents_not_parts
    parts_that_are_gone_make_a_miss_that_is_loaded_once
    a_batch_reads_small_and_large_alike
}

const SIZE: usize = 100_000;

fn cache(seawall: &Seawall) -> Cache<u64, String> {
    let builder = seawall.cache("big").local_max_bytes(0);
    builder.split_above_bytes(10_000).warn_above_bytes(20_000).build().expect("options agree")
}

/// The names of all parts, with what is left of their lifetimes.
pub(crate) async fn parts(setup: &Setup, seawall: &Seawall) -> Vec<(String, i64)> {
    let mut parts = Vec::new();
    for name in keys(seawall, &setup.entry("cache-part:*")).await {
        let left: i64 =
            seawall.client().query(name.as_bytes(), cmd("PTTL").arg(&name)).await.expect("asked");
        parts.push((name, left));
    }
    parts
}

async fn a_large_value_is_cut_and_read_like_any_other(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = cache(&seawall);
    let value = content(1, SIZE);
    let loaded = value.clone();
    let load = move || async { Ok::<_, io::Error>(Loaded::Found(loaded)) };
    let read = cache.get_or_load(&7, load).await.expect("loaded");
    assert_eq!(read.source, Source::Loaded);
    for freshness in [Freshness::Cached, Freshness::Strong] {
        let read = cache.get_as(freshness, &7).await.expect("answered").expect("it is there");
        assert_eq!((read.source, read.value.as_deref()), (Source::Remote, Some(&value)));
    }
    let parts = parts(&setup, &seawall).await;
    assert_eq!(parts.len(), value.len().div_ceil(10_000));
    assert!(parts.iter().all(|(_, left)| *left > 0), "all end by themselves: {parts:?}");
    let explanation = cache.explain(&7).await.expect("a key");
    let RemoteState::Entry(entry) = &explanation.remote else { panic!("{explanation}") };
    assert_eq!((entry.parts as usize, entry.size_bytes >= SIZE), (parts.len(), true));
    let big = cache.big_values();
    assert_eq!((big.len(), big[0].parts as usize), (1, parts.len()));
    // A value that compresses well is not cut.
    cache.put(&8, &"x".repeat(SIZE)).await.expect("stored");
    assert_eq!(crate::values::parts(&setup, &seawall).await.len(), parts.len());
    assert_eq!(cache.big_values().len(), 1, "nor is it big");
    seawall.shutdown().await;
}

async fn replaced_invalidated_and_refused_values_leave_parts_that_end(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = cache(&seawall);
    let soon = |parts: &[(String, i64)]| parts.iter().filter(|(_, left)| *left <= 10_000).count();
    cache.put(&7, &content(1, SIZE)).await.expect("stored");
    let one = parts(&setup, &seawall).await.len();
    cache.put(&7, &content(2, SIZE)).await.expect("stored");
    let all = parts(&setup, &seawall).await;
    assert_eq!((all.len(), soon(&all)), (2 * one, one), "the old ones end soon");
    let done = cache.invalidate(&7).await.expect("a key");
    assert!(matches!(done, Invalidation::Applied(_)));
    let all = parts(&setup, &seawall).await;
    assert_eq!(soon(&all), 2 * one, "now all do");
    assert!(cache.get(&7).await.expect("answered").is_none());

    // A load that an invalidation overtakes leaves nothing at all.
    let other = cache.clone();
    let load = move || async move {
        let _ = other.invalidate(&8).await.expect("a key");
        Ok::<_, io::Error>(Loaded::Found(content(3, SIZE)))
    };
    let read = cache.get_or_load(&8, load).await.expect("loaded");
    assert_eq!(read.value.as_deref(), Some(&content(3, SIZE)));
    let removed = async || parts(&setup, &seawall).await.len() == 2 * one;
    eventually("refused parts are removed", removed).await;
    seawall.shutdown().await;
}

async fn versioned_writes_compare_contents_not_parts(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = cache(&seawall);
    let put = async |version, value: &String| {
        cache.put_if_newer(&7, version, Some(value)).await.expect("answered")
    };
    let (old, new) = (content(1, SIZE), content(2, SIZE));
    assert!(matches!(put(5, &new).await, PutOutcome::Stored(_)));
    assert_eq!(put(5, &new).await, PutOutcome::Unchanged);
    assert_eq!(put(4, &old).await, PutOutcome::Older);
    let read = cache.get(&7).await.expect("answered").expect("it is there");
    assert_eq!(read.value.as_deref(), Some(&new));
    assert_eq!(parts(&setup, &seawall).await.len(), new.len().div_ceil(10_000), "no other parts");
    assert!(matches!(put(5, &old).await, PutOutcome::Undecided(_)));
    assert!(cache.get(&7).await.expect("answered").is_none());
    seawall.shutdown().await;
}

async fn parts_that_are_gone_make_a_miss_that_is_loaded_once(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = cache(&seawall);
    cache.put(&7, &content(1, SIZE)).await.expect("stored");
    let (name, _) = parts(&setup, &seawall).await.swap_remove(0);
    seawall.client().send(name.as_bytes(), cmd("DEL").arg(&name)).await.expect("deleted");
    assert!(cache.get(&7).await.expect("answered").is_none(), "never half of it");
    let loads = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let read = async || {
        let loads = std::sync::Arc::clone(&loads);
        let load = move || async move {
            loads.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Ok::<_, io::Error>(Loaded::Found(content(2, SIZE)))
        };
        cache.get_or_load(&7, load).await.expect("an answer").value
    };
    let (one, other) = tokio::join!(read(), read());
    assert_eq!(
        (one.as_deref(), other.as_deref()),
        (Some(&content(2, SIZE)), Some(&content(2, SIZE)))
    );
    assert_eq!(loads.load(std::sync::atomic::Ordering::SeqCst), 1);
    let read = cache.get(&7).await.expect("answered").expect("it is there again");
    assert_eq!(read.value.as_deref(), Some(&content(2, SIZE)));
    seawall.shutdown().await;
}

async fn a_batch_reads_small_and_large_alike(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = cache(&seawall);
    let size = |key: u64| if key.is_multiple_of(3) { SIZE } else { 100 };
    let keys: Vec<u64> = (0..12).collect();
    let load = move |keys: Vec<u64>| async move {
        let all = keys.into_iter().map(|key| (key, content(key, size(key))));
        Ok::<_, io::Error>(all.collect::<HashMap<_, _>>())
    };
    for source in [Source::Loaded, Source::Remote] {
        for (key, read) in keys.iter().zip(cache.get_many(&keys, load).await) {
            let read = read.expect("an answer");
            assert_eq!(
                (read.source, read.value.as_deref()),
                (source, Some(&content(*key, size(*key))))
            );
        }
    }
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_live_as_long_as_an_entry_that_slides() {
    let test_server = seawall::testing::TestServer::start().await.expect("an engine");
    let seawall = test_server.seawall();
    let cache: Cache<u64, String> = seawall
        .cache("sliding")
        .local_max_bytes(0)
        .split_above_bytes(10_000)
        .ttl(Duration::from_secs(100))
        .max_stale(Duration::ZERO)
        .jitter(0.0)
        .sliding()
        .build()
        .expect("options agree");
    cache.put(&7, &content(1, SIZE)).await.expect("stored");
    for _ in 0..5 {
        test_server.advance(Duration::from_secs(60)).await;
        assert!(cache.get(&7).await.expect("answered").is_some(), "it is read, so it stays");
        let started = std::time::Instant::now();
        loop {
            let explanation = cache.explain(&7).await.expect("a key");
            let RemoteState::Entry(entry) = explanation.remote else { panic!("it is there") };
            if entry.fresh_millis > 90_000 {
                break;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "it slides");
            tokio::task::yield_now().await;
        }
    }
}
