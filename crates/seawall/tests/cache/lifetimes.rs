//! Lifetimes on a clock that is advanced by hand, and settings that contradict each other.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    cache::{Cache, CacheBuilder, Loaded, Mode, Source, WhenBusy},
    testing::TestServer,
};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A source whose value is the number of times it was asked.
#[derive(Clone, Default)]
struct Source1(Arc<AtomicU64>);

impl Source1 {
    async fn read(&self, cache: &Cache<u64, u64>) -> (Option<u64>, Source) {
        let asked = Arc::clone(&self.0);
        let load = move || async move {
            Ok::<_, io::Error>(Loaded::Found(asked.fetch_add(1, Ordering::SeqCst) + 1))
        };
        let read = cache.get_or_load(&1, load).await.expect("an answer");
        (read.value.as_deref().copied(), read.source)
    }

    fn asked(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Waits until the source was asked this often: refreshes run in the background.
    async fn until_asked(&self, times: u64) {
        while self.asked() < times {
            tokio::task::yield_now().await;
        }
    }
}

fn exact(builder: CacheBuilder<u64, u64>) -> CacheBuilder<u64, u64> {
    builder.jitter(0.0).ttl(seconds(100)).max_stale(seconds(50)).local_max_bytes(0)
}

#[tokio::test]
async fn a_stale_value_is_given_while_one_refresh_runs() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache = exact(test_server.seawall().cache("a")).build().expect("options agree");
    let source = Source1::default();
    assert_eq!(source.read(&cache).await, (Some(1), Source::Loaded));
    test_server.advance(seconds(99)).await;
    assert_eq!(source.read(&cache).await, (Some(1), Source::Remote));
    test_server.advance(seconds(2)).await;
    assert_eq!(source.read(&cache).await, (Some(1), Source::Stale), "nobody waits");
    source.until_asked(2).await;
    while source.read(&cache).await != (Some(2), Source::Remote) {
        tokio::task::yield_now().await;
    }
    assert_eq!(source.asked(), 2, "exactly one refresh");
    test_server.advance(seconds(151)).await;
    assert_eq!(source.read(&cache).await, (Some(3), Source::Loaded), "too old to be given");
    test_server.shutdown().await;
}

#[tokio::test]
async fn in_mutex_mode_everybody_waits_for_the_new_value() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache =
        exact(test_server.seawall().cache("m")).mode(Mode::Mutex).build().expect("options agree");
    let source = Source1::default();
    assert_eq!(source.read(&cache).await.0, Some(1));
    test_server.advance(seconds(101)).await;
    assert_eq!(source.read(&cache).await, (Some(2), Source::Loaded));
    test_server.advance(seconds(101)).await;
    let failing = || async { Err::<Loaded<u64>, _>(io::Error::other("down")) };
    let read = cache.get_or_load(&1, failing).await.expect("the older value stands in");
    assert_eq!((read.value.as_deref(), read.source), (Some(&2), Source::Stale));
    test_server.shutdown().await;
}

#[tokio::test]
async fn under_logical_expiry_only_the_first_reader_ever_waits() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache = exact(test_server.seawall().cache("l"))
        .mode(Mode::LogicalExpiry)
        .build()
        .expect("options agree");
    let source = Source1::default();
    assert_eq!(source.read(&cache).await, (Some(1), Source::Loaded), "a miss loads");
    test_server.advance(seconds(30 * 24 * 3600)).await;
    assert_eq!(source.read(&cache).await, (Some(1), Source::Stale));
    source.until_asked(2).await;
    test_server.shutdown().await;
}

#[tokio::test]
async fn what_is_read_stays_and_what_is_not_ends() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache = exact(test_server.seawall().cache("s"))
        .max_stale(Duration::ZERO)
        .sliding()
        .build()
        .expect("options agree");
    let source = Source1::default();
    assert_eq!(source.read(&cache).await.0, Some(1));
    for _ in 0..20 {
        test_server.advance(seconds(60)).await;
        assert_eq!(source.read(&cache).await, (Some(1), Source::Remote));
        // The slide runs in the background.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    test_server.advance(seconds(101)).await;
    assert_eq!(source.read(&cache).await, (Some(2), Source::Loaded));
    test_server.shutdown().await;
}

#[tokio::test]
async fn what_is_read_with_others_stays_too() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache: Cache<u64, u64> = exact(test_server.seawall().cache("m"))
        .max_stale(Duration::ZERO)
        .sliding()
        .build()
        .expect("options agree");
    let asked = Arc::new(AtomicU64::new(0));
    let read = async || {
        let asked = Arc::clone(&asked);
        let load = move |keys: Vec<u64>| {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                Ok::<HashMap<u64, u64>, io::Error>(
                    keys.into_iter().map(|key| (key, number)).collect(),
                )
            }
        };
        let mut values = Vec::new();
        for read in cache.get_many(&[1, 2], load).await {
            values.push(read.expect("a value").value.as_deref().copied());
        }
        values
    };
    assert_eq!(read().await, [Some(1), Some(1)]);
    for _ in 0..10 {
        test_server.advance(seconds(60)).await;
        assert_eq!(read().await, [Some(1), Some(1)]);
        // The slide runs in the background.
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    test_server.advance(seconds(101)).await;
    assert_eq!(read().await, [Some(2), Some(2)]);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_costly_value_is_refreshed_before_it_ends() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache = exact(test_server.seawall().cache("e"))
        .early_refresh(100.0)
        .loader_timeout(seconds(8))
        // Time jumps here: there is no moment to renew the lease in.
        .lease_ttl(seconds(10))
        .read_timeout(seconds(20))
        .build()
        .expect("options agree");
    let asked = Arc::new(AtomicU64::new(0));
    let slow = |asked: Arc<AtomicU64>, clock: seawall::clock::Clock| {
        move || async move {
            let value = asked.fetch_add(1, Ordering::SeqCst) + 1;
            clock.sleep(seconds(5)).await;
            Ok::<_, io::Error>(Loaded::Found(value))
        }
    };
    let clock = test_server.seawall().clock().clone();
    let first = tokio::spawn({
        let (cache, load) = (cache.clone(), slow(Arc::clone(&asked), clock.clone()));
        async move { cache.get_or_load(&1, load).await }
    });
    while asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    test_server.advance(seconds(5)).await;
    first.await.expect("no panic").expect("loaded");
    // A load takes 5 s and the factor is high: a refresh before the end is all but certain.
    test_server.advance(seconds(90)).await;
    for _ in 0..50 {
        let read =
            cache.get_or_load(&1, slow(Arc::clone(&asked), clock.clone())).await.expect("a hit");
        assert_eq!(read.value.as_deref(), Some(&1), "still fresh, nobody waits");
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "one early refresh, however many readers");
    test_server.shutdown().await;
}

#[tokio::test]
async fn not_modified_makes_a_value_fresh_again() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache = exact(test_server.seawall().cache("n")).build().expect("options agree");
    let source = Source1::default();
    assert_eq!(source.read(&cache).await.0, Some(1));
    test_server.advance(seconds(110)).await;
    let same = || async { Ok::<_, io::Error>(Loaded::NotModified) };
    assert_eq!(cache.get_or_load(&1, same).await.expect("stale").source, Source::Stale);
    while source.read(&cache).await != (Some(1), Source::Remote) {
        tokio::task::yield_now().await;
    }
    test_server.advance(seconds(99)).await;
    assert_eq!(source.read(&cache).await, (Some(1), Source::Remote));
    assert_eq!(source.asked(), 1);
    test_server.shutdown().await;
}

#[tokio::test]
async fn without_redis_copies_stand_in_and_the_source_is_asked() {
    let test_server = TestServer::start().await.expect("an engine");
    let builder = test_server.seawall().cache::<u64, u64>("o").jitter(0.0).local_ttl(seconds(10));
    let cache = builder.build().expect("options agree");
    let source = Source1::default();
    assert_eq!(source.read(&cache).await, (Some(1), Source::Loaded));
    test_server.faults().begin_outage();
    assert_eq!(source.read(&cache).await, (Some(1), Source::Local));
    test_server.advance(seconds(11)).await;
    assert_eq!(source.read(&cache).await, (Some(1), Source::Stale), "the copy stands in");
    test_server.advance(seconds(400)).await;
    assert_eq!(source.read(&cache).await, (Some(2), Source::Loaded), "from the source");
    assert_eq!(source.read(&cache).await, (Some(2), Source::Local), "kept for a second");
    test_server.faults().end_outage();
    test_server.advance(seconds(60)).await;
    assert_eq!(source.read(&cache).await, (Some(3), Source::Loaded));
    assert!(cache.get(&1).await.expect("an answer").is_some());
    test_server.shutdown().await;
}

#[tokio::test]
async fn contradictions_are_named() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache = |name: &str| test_server.seawall().cache::<u64, u64>(name);
    for (builder, names) in [
        (cache(""), vec!["name"]),
        (cache("a{b}"), vec!["name"]),
        (cache("c").ttl(Duration::ZERO), vec!["ttl"]),
        (
            cache("c").loader_timeout(seconds(10)),
            vec!["loader_timeout", "lease_ttl", "read_timeout"],
        ),
        (cache("c").lease_ttl(seconds(6)), vec!["loader_timeout", "lease_ttl", "read_timeout"]),
        (cache("c").read_timeout(seconds(6)), vec!["loader_timeout", "lease_ttl", "read_timeout"]),
        (cache("c").wait_budget(seconds(11)), vec!["wait_budget", "read_timeout"]),
        (cache("c").jitter(1.0), vec!["jitter"]),
        (cache("c").jitter(f64::NAN), vec!["jitter"]),
        (cache("c").early_refresh(-1.0), vec!["early_refresh"]),
        (cache("c").mode(Mode::LogicalExpiry).sliding(), vec!["sliding", "LogicalExpiry"]),
        (
            cache("c").mode(Mode::LogicalExpiry).when_busy(WhenBusy::Load),
            vec!["when_busy", "LogicalExpiry"],
        ),
        (cache("c").max_value_bytes(0), vec!["max_value_bytes"]),
        (cache("c").local_ttl(Duration::ZERO), vec!["local_ttl", "local_max_bytes"]),
        (cache("c").ttl(Duration::MAX), vec!["ttl"]),
        (cache("c").negative_ttl(Duration::MAX), vec!["negative_ttl"]),
        (cache("c").lease_ttl(Duration::MAX), vec!["lease_ttl"]),
        (cache("c").loader_timeout(Duration::MAX), vec!["loader_timeout"]),
    ] {
        let error = builder.build().expect_err("a contradiction").to_string();
        assert!(names.iter().all(|name| error.contains(name)), "{error}");
    }
    test_server.shutdown().await;
}

#[tokio::test]
async fn too_large_a_value_is_given_but_not_kept() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache: Cache<u64, String> =
        test_server.seawall().cache("big").max_value_bytes(100).build().expect("options agree");
    let big = || async { Ok::<_, io::Error>(Loaded::Found("x".repeat(1000))) };
    let read = cache.get_or_load(&1, big).await.expect("an answer");
    assert_eq!((read.value.map(|value| value.len()), read.version.0), (Some(1000), 0));
    assert!(cache.get(&1).await.expect("an answer").is_none());
    let error = cache.put(&1, &"x".repeat(1000)).await.expect_err("refused").to_string();
    assert!(error.contains("max_value_bytes"), "{error}");
    test_server.shutdown().await;
}
