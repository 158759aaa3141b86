//! Loaders that fail, panic, take too long or say that nothing has changed, and who hears of it.

use std::{
    collections::HashMap,
    error::Error as _,
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use seawall::{
    cache::{
        Cache, CacheError, Freshness, Invalidation, Loaded, OnInvalidate, Source, Version, WhenBusy,
    },
    guard::ResiliencePipeline,
};
use tokio::sync::Semaphore;

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_panic_is_an_error_and_gives_the_lease_back
    a_panic_in_a_batch_is_an_error_and_gives_the_leases_back
    a_panic_in_a_refresh_gives_the_lease_back
    a_load_that_panics_when_it_is_cut_is_cut
    a_batch_that_panics_when_it_is_cut_is_cut
    a_load_that_panics_when_it_ends_has_failed
    a_load_that_panics_when_its_handle_ends_does_not_hold_it_up
    an_error_has_its_source
    a_load_that_is_cut_names_the_setting
    not_modified_means_what_was_kept
    not_modified_without_an_entry_is_an_error_of_the_loader
    a_spent_loader_makes_nobody_busy
    a_reader_that_loads_is_not_busy
    a_load_answers_its_own_reader_however_short_the_value_lives
    a_load_answers_its_own_reader_however_far_ahead_its_version_is
    who_waits_for_another_process_is_answered_from_redis
}

const PATIENCE: Duration = Duration::from_secs(30);
/// Nobody may wait for a lease of this length to end.
const LONG_LEASE: Duration = Duration::from_secs(60);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

async fn found(value: u64) -> io::Result<Loaded<u64>> {
    Ok(Loaded::Found(value))
}

async fn panics() -> io::Result<Loaded<u64>> {
    tokio::task::yield_now().await;
    panic!("no such {}", "column");
}

async fn a_panic_is_an_error_and_gives_the_lease_back(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let build = |handle: &seawall::Seawall| -> Cache<u64, u64> {
        let cache = handle.cache("panic").local_max_bytes(0);
        cache.lease_ttl(LONG_LEASE).read_timeout(LONG_LEASE * 2).build().expect("options agree")
    };
    let (first, second) = (build(&one), build(&two));
    let began = Instant::now();
    let error = first.get_or_load(&1, panics).await.expect_err("it panicked");
    assert!(matches!(error, CacheError::Load(_)), "{error:?}");
    assert!(error.to_string().contains("no such column"), "{error}");
    // The closure itself may panic, too.
    let at_once = || -> std::future::Ready<io::Result<Loaded<u64>>> { panic!("at once") };
    let error = second.get_or_load(&1, at_once).await.expect_err("it panicked");
    assert!(error.to_string().contains("at once"), "{error}");
    let read = first.get_or_load(&1, || found(7)).await.expect("loaded");
    assert_eq!(read.value.as_deref(), Some(&7));
    assert!(began.elapsed() < LONG_LEASE / 2, "somebody waited for the lease to end");
}

async fn a_panic_in_a_batch_is_an_error_and_gives_the_leases_back(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("panics")
        .local_max_bytes(0)
        .lease_ttl(LONG_LEASE)
        .read_timeout(LONG_LEASE * 2)
        .build()
        .expect("options agree");
    let began = Instant::now();
    let load = |_: Vec<u64>| async { panics().await.map(|_| HashMap::new()) };
    for answer in cache.get_many(&[1, 2, 3], load).await {
        let error = answer.expect_err("it panicked");
        assert!(matches!(error, CacheError::Load(_)), "{error:?}");
        assert!(error.to_string().contains("no such column"), "{error}");
    }
    for key in 1..=3 {
        let read = cache.get_or_load(&key, || found(7)).await.expect("loaded");
        assert_eq!(read.source, Source::Loaded);
    }
    assert!(began.elapsed() < LONG_LEASE / 2, "somebody waited for the leases to end");
}

async fn a_panic_in_a_refresh_gives_the_lease_back(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("refresh")
        .local_max_bytes(0)
        .jitter(0.0)
        .ttl(Duration::from_millis(20))
        .max_stale(seconds(600))
        .lease_ttl(LONG_LEASE)
        .read_timeout(LONG_LEASE * 2)
        .build()
        .expect("options agree");
    assert!(cache.get_or_load(&1, || found(1)).await.is_ok());
    tokio::time::sleep(Duration::from_millis(60)).await;
    let calls = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&calls);
    let read = cache.get_or_load(&1, move || {
        count.fetch_add(1, Ordering::SeqCst);
        panics()
    });
    assert_eq!(read.await.expect("the old value").source, Source::Stale);
    let began = Instant::now();
    loop {
        let read = cache.get_or_load(&1, || found(2)).await.expect("an answer");
        if read.value.as_deref() == Some(&2) && calls.load(Ordering::SeqCst) == 1 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "nobody refreshes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Panics when it is dropped.
struct Temper;

impl Drop for Temper {
    fn drop(&mut self) {
        panic!("dropped in anger");
    }
}

async fn never_in_peace() -> io::Result<Loaded<u64>> {
    let _temper = Temper;
    std::future::pending().await
}

/// By `loader_timeout`, or by the pipeline that goes by it; the load takes down nobody who waits, and its
/// lease is free at once.
async fn a_load_that_panics_when_it_is_cut_is_cut(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    for governed in [false, true] {
        let build = |handle: &seawall::Seawall| -> Cache<u64, u64> {
            let mut cache = handle.cache("temper").local_max_bytes(0).lease_ttl(LONG_LEASE);
            if governed {
                cache =
                    cache.pipeline(ResiliencePipeline::builder("temper").build().expect("valid"));
            }
            let cache =
                cache.loader_timeout(Duration::from_millis(50)).read_timeout(LONG_LEASE * 2);
            cache.build().expect("options agree")
        };
        let (first, second) = (build(&one), build(&two));
        let began = Instant::now();
        let key = u64::from(governed);
        for cache in [&first, &second] {
            let readers = (0..3).map(|_| cache.get_or_load(&key, never_in_peace));
            for answer in join_all(readers).await {
                let error = answer.expect_err("it was cut");
                assert!(matches!(error, CacheError::LoadTimeout { .. }), "{error:?}");
            }
        }
        let read = first.get_or_load(&key, || found(7)).await.expect("loaded");
        assert_eq!(read.value.as_deref(), Some(&7));
        assert!(began.elapsed() < LONG_LEASE / 2, "somebody waited for the lease to end");
    }
}

async fn a_batch_that_panics_when_it_is_cut_is_cut(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("tempers")
        .local_max_bytes(0)
        .lease_ttl(LONG_LEASE)
        .loader_timeout(Duration::from_millis(50))
        .read_timeout(LONG_LEASE * 2)
        .build()
        .expect("options agree");
    let began = Instant::now();
    let load = |_: Vec<u64>| async { never_in_peace().await.map(|_| HashMap::new()) };
    for answer in cache.get_many(&[1, 2, 3], load).await {
        let error = answer.expect_err("it was cut");
        assert!(matches!(error, CacheError::LoadTimeout { .. }), "{error:?}");
    }
    for key in 1..=3 {
        let read = cache.get_or_load(&key, || found(7)).await.expect("loaded");
        assert_eq!(read.source, Source::Loaded);
    }
    assert!(began.elapsed() < LONG_LEASE / 2, "somebody waited for the leases to end");
}

/// A future that is ready, and panics when it is dropped.
async fn a_load_that_panics_when_it_ends_has_failed(setup: Setup) {
    struct Ready(Temper);
    impl Future for Ready {
        type Output = io::Result<Loaded<u64>>;
        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
            Poll::Ready(Ok(Loaded::Found(7)))
        }
    }
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("ready")
        .local_max_bytes(0)
        .lease_ttl(LONG_LEASE)
        .read_timeout(LONG_LEASE * 2)
        .build()
        .expect("options agree");
    let began = Instant::now();
    let error = cache.get_or_load(&1, || Ready(Temper)).await.expect_err("it panicked");
    assert!(matches!(error, CacheError::Load(_)), "{error:?}");
    assert!(error.to_string().contains("dropped in anger"), "{error}");
    assert!(cache.get_or_load(&1, || found(7)).await.is_ok());
    assert!(began.elapsed() < LONG_LEASE / 2, "somebody waited for the lease to end");
}

async fn a_load_that_panics_when_its_handle_ends_does_not_hold_it_up(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let build = |handle: &seawall::Seawall| -> Cache<u64, u64> {
        let cache = handle.cache("ending").local_max_bytes(0).lease_ttl(LONG_LEASE);
        let cache = cache.loader_timeout(LONG_LEASE).read_timeout(LONG_LEASE * 2);
        cache.build().expect("options agree")
    };
    // The first handle may own the engine: it outlives the other.
    let (ending, staying) = (build(&two), build(&one));
    let began = Instant::now();
    let (tell, told) = tokio::sync::oneshot::channel();
    let reader = tokio::spawn(async move {
        let load = || {
            tell.send(()).expect("the test listens");
            never_in_peace()
        };
        ending.get_or_load(&1, load).await
    });
    told.await.expect("it loads");
    two.shutdown().await;
    let error = reader.await.expect("no panic").expect_err("it was cut");
    assert!(matches!(error, CacheError::Redis(seawall::Error::Closed)), "{error:?}");
    let read = staying.get_or_load(&1, || found(7)).await.expect("loaded");
    assert_eq!(read.value.as_deref(), Some(&7));
    assert!(began.elapsed() < LONG_LEASE / 2, "somebody waited for the lease to end");
}

async fn an_error_has_its_source(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("source").build().expect("defaults");
    let fails = || async { Err::<u64, _>(io::Error::new(io::ErrorKind::NotFound, "no table")) };
    let error = cache.get_or_load(&1, fails).await.expect_err("it failed");
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
    let fails = |_: Vec<u64>| async {
        Err::<HashMap<u64, u64>, _>(io::Error::new(io::ErrorKind::NotFound, "no table"))
    };
    let error = cache.get_many(&[2], fails).await.remove(0).expect_err("it failed");
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
}

async fn a_load_that_is_cut_names_the_setting(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("cut")
        .loader_timeout(Duration::from_millis(50))
        .build()
        .expect("options agree");
    let error = cache.get_or_load(&1, std::future::pending::<io::Result<u64>>).await;
    let text = error.expect_err("it was cut").to_string();
    assert!(text.contains("loader_timeout") && text.contains("50ms"), "{text}");
}

async fn not_modified_means_what_was_kept(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("kept")
        .on_invalidate(OnInvalidate::KeepForStale)
        .build()
        .expect("options agree");
    for round in 0..5 {
        assert!(cache.get_or_load(&round, move || found(round)).await.is_ok());
        let applied = cache.invalidate(&round).await.expect("a key");
        assert!(matches!(applied, Invalidation::Applied(_)));
        let unchanged = || async { Ok::<_, io::Error>(Loaded::NotModified) };
        let read = cache.get_or_load(&round, unchanged).await.expect("what was kept");
        assert_eq!(read.value.as_deref(), Some(&round));
        // And it counts as fresh again, for everybody.
        let read = cache.get_as(Freshness::Strong, &round).await.expect("a hit");
        assert_eq!(read.expect("there").value.as_deref(), Some(&round));
    }
}

async fn not_modified_without_an_entry_is_an_error_of_the_loader(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("none").build().expect("defaults");
    let unchanged = || async { Ok::<_, io::Error>(Loaded::NotModified) };
    let error = cache.get_or_load(&1, unchanged).await.expect_err("there is nothing");
    assert!(matches!(error, CacheError::Load(_)), "{error:?}");
}

/// Two readers with [`WhenBusy::Load`] wait for a load elsewhere that fails.
async fn a_spent_loader_makes_nobody_busy(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let holder: Cache<u64, u64> = one.cache("spent").local_max_bytes(0).build().expect("agree");
    let cache: Cache<u64, u64> = two
        .cache("spent")
        .local_max_bytes(0)
        .when_busy(WhenBusy::Load)
        .wait_budget(Duration::from_millis(300))
        .build()
        .expect("options agree");
    let (gate, loading) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let failing = tokio::spawn({
        let (gate, loading) = (Arc::clone(&gate), Arc::clone(&loading));
        async move {
            let load = move || async move {
                loading.add_permits(1);
                let _ = gate.acquire().await;
                Err::<Loaded<u64>, _>(io::Error::other("not now"))
            };
            holder.get_or_load(&1, load).await
        }
    });
    loading.acquire().await.expect("open").forget();
    // The first one makes the lease be asked for, and loads by itself when its patience ends.
    let first = cache.get_or_load(&1, || found(1)).await.expect("its own load");
    assert_eq!(first.value.as_deref(), Some(&1));
    // The second one waits for that lease, which comes: nobody can load with a loader that ran.
    let second = tokio::spawn({
        let cache = cache.clone();
        async move { cache.get_or_load(&1, || found(2)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.close();
    assert!(failing.await.expect("no panic").is_err());
    let second = second.await.expect("no panic").expect("a value");
    assert_eq!(second.value.as_deref(), Some(&2));
}

/// Nobody else loads: there is nothing to be refused for, however short the patience.
async fn a_reader_that_loads_is_not_busy(setup: Setup) {
    let seawall = setup.connect().await;
    for policy in [WhenBusy::Refuse, WhenBusy::Load] {
        let cache: Cache<u64, u64> = seawall
            .cache("alone")
            .local_max_bytes(0)
            .when_busy(policy)
            .wait_budget(Duration::ZERO)
            .build()
            .expect("options agree");
        for key in 0..20 {
            let read = cache.get_or_load(&key, move || found(key)).await;
            assert!(read.is_ok(), "{policy:?}: {read:?}");
        }
    }
}

async fn a_load_answers_its_own_reader_however_short_the_value_lives(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("brief")
        .ttl(Duration::from_millis(1))
        .max_stale(Duration::ZERO)
        .build()
        .expect("options agree");
    for key in 0..300 {
        let read = cache.get_or_load_as(Freshness::Strong, &(key % 3), move || found(key)).await;
        assert!(read.is_ok(), "{key}: {read:?}");
    }
}

async fn a_load_answers_its_own_reader_however_far_ahead_its_version_is(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("ahead").build().expect("defaults");
    let Invalidation::Applied(version) = cache.invalidate(&1).await.expect("a key") else {
        panic!("Redis answers");
    };
    let ahead = Freshness::After(Version(version.0 + 3_600_000_000));
    for round in 0..3 {
        let read = cache.get_or_load_as(ahead, &1, move || found(round)).await.expect("its load");
        assert_eq!(read.value.as_deref(), Some(&round));
    }
}

/// The source of an answer is whoever gave it: only the process that loaded says `Loaded`.
async fn who_waits_for_another_process_is_answered_from_redis(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let build = |handle: &seawall::Seawall| -> Cache<u64, u64> {
        let cache = handle.cache("elsewhere").local_max_bytes(0);
        cache.lease_ttl(LONG_LEASE).read_timeout(LONG_LEASE * 2).build().expect("options agree")
    };
    let (mut first, second) = (build(&one), build(&two));
    for freshness in [Freshness::Cached, Freshness::Strong] {
        assert!(matches!(first.invalidate(&1).await, Ok(Invalidation::Applied(_))));
        let (loading, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (begun, opened) = (Arc::clone(&loading), Arc::clone(&gate));
        let loader = tokio::spawn(async move {
            let load = move || async move {
                begun.add_permits(1);
                opened.acquire().await.expect("open").forget();
                found(7).await
            };
            first.get_or_load_as(freshness, &1, load).await.map(|read| (read.source, first))
        });
        loading.acquire().await.expect("open").forget();
        // Polled once, it is on its way before the load ends.
        let waiter = tokio::spawn({
            let second = second.clone();
            async move { second.get_or_load_as(freshness, &1, || found(8)).await }
        });
        tokio::task::yield_now().await;
        gate.add_permits(1);
        let (source, again) = loader.await.expect("no panic").expect("loaded");
        first = again;
        assert_eq!(source, Source::Loaded);
        let read = waiter.await.expect("no panic").expect("answered");
        assert_eq!((read.value.as_deref(), read.source), (Some(&7), Source::Remote));
    }
}
