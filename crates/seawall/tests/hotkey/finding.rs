//! A key becomes hot by reads or by word, is held everywhere, and cools.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, LocalKeeps, Source},
    hotkey::{HotEvent, HotReason, HotRule, HotRules},
    testing::TestServer,
};
use seawall_testkit::{FaultProxy, ServerProcess};

use crate::setup::{Setup, on_every_backend};

/// Machines are slow at times; what is awaited comes long before.
const DEADLINE: Duration = Duration::from_secs(30);
const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn hot_only(seawall: &Seawall, rules: HotRules) -> Cache<u64, u64> {
    let cache = seawall.cache("hot").local_keeps(LocalKeeps::HotOnly).hot_keys(rules);
    cache.build().expect("settings that agree")
}

async fn held(cache: &Cache<u64, u64>, key: u64) -> bool {
    cache.explain(&key).await.expect("a good key").local.is_some()
}

async fn read(cache: &Cache<u64, u64>, freshness: Freshness, key: u64, value: u64) -> u64 {
    let load = move || async move { Ok::<_, Error>(Loaded::Found(value)) };
    let read = cache.get_or_load_as(freshness, &key, load).await.expect("an answer");
    read.value.as_deref().copied().expect("a value")
}

on_every_backend! {
    a_key_that_some_read_is_held_by_all
    what_is_declared_is_held_until_it_is_taken_back
    an_invalidation_reaches_every_process_and_the_key_stays_hot
    a_listener_that_panics_ends_nothing
}

/// Two of four processes read a key, neither often enough by itself.
async fn a_key_that_some_read_is_held_by_all(setup: Setup) {
    let mut handles = Vec::new();
    for _ in 0..4 {
        handles.push(setup.connect().await);
    }
    let rules = HotRules::all(HotRule::new(100, 5 * SECOND).cool_for(5 * SECOND));
    let caches: Vec<_> = handles.iter().map(|handle| hot_only(handle, rules.clone())).collect();
    caches[0].put(&7, &70).await.expect("stored");
    assert_eq!(read(&caches[0], Freshness::Cached, 7, 0).await, 70);
    assert!(!held(&caches[0], 7).await, "a key that is not hot is not kept");
    until("the key is in every process' memory", async || {
        for cache in &caches[..2] {
            for _ in 0..10 {
                read(cache, Freshness::Cached, 7, 0).await;
            }
        }
        held(&caches[2], 7).await && held(&caches[3], 7).await && held(&caches[0], 7).await
    })
    .await;
    let hot = handles[3].hot_keys().fleet().await.expect("a list");
    assert_eq!(hot.len(), 1, "{hot:?}");
    assert_eq!(hot[0].key, setup.entry("hot:7"));
    assert!(hot[0].reads >= 50 && hot[0].reason == HotReason::Counted, "{hot:?}");
    until("both that read it are named", async || {
        for cache in &caches[..2] {
            for _ in 0..10 {
                read(cache, Freshness::Cached, 7, 0).await;
            }
        }
        handles[3].hot_keys().fleet().await.expect("a list").first().map(|hot| hot.sources)
            == Some(2)
    })
    .await;
    let version =
        caches[2].get(&7).await.expect("an answer").map(|read| (read.source, read.version));
    assert_eq!(version.map(|read| read.0), Some(Source::Local));
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}

async fn what_is_declared_is_held_until_it_is_taken_back(setup: Setup) {
    let (first, second) = (setup.connect().await, setup.connect().await);
    let (one, other) = (hot_only(&first, HotRules::off()), hot_only(&second, HotRules::off()));
    one.put(&1, &10).await.expect("stored");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    second.hot_keys().on_hot(move |event| sees.lock().expect("no panic").push(event.clone()));
    one.declare_hot(&1, 60 * SECOND).await.expect("declared");
    one.declare_hot(&1, 60 * SECOND).await.expect("declared twice is declared once");
    until("everybody holds it", async || held(&one, 1).await && held(&other, 1).await).await;
    let explained = other.explain(&1).await.expect("a good key");
    assert_eq!(explained.hot.as_ref().map(|hot| hot.reason), Some(HotReason::Declared));
    assert!(explained.to_string().contains("hot     declared"), "{explained}");

    assert!(one.undeclare_hot(&1).await.expect("taken back"));
    assert!(!one.undeclare_hot(&1).await.expect("nothing to take back"));
    until("nobody holds it", async || !held(&one, 1).await && !held(&other, 1).await).await;
    assert!(first.hot_keys().fleet().await.expect("a list").is_empty());
    // The copy goes first, then listeners are told.
    until("the listener is told", async || {
        matches!(seen.lock().expect("no panic").last(), Some(HotEvent::Cool(_)))
    })
    .await;
    let seen = seen.lock().expect("no panic").clone();
    // A list may be quicker than the messages of a Cluster, which then tell it once more.
    let [HotEvent::Hot(_), .., HotEvent::Cool(_)] = seen.as_slice() else { panic!("{seen:?}") };
    assert!(one.declare_hot(&1, Duration::ZERO).await.is_err());
    second.shutdown().await;
    first.shutdown().await;
}

async fn an_invalidation_reaches_every_process_and_the_key_stays_hot(setup: Setup) {
    let (first, second) = (setup.connect().await, setup.connect().await);
    let (one, other) = (hot_only(&first, HotRules::off()), hot_only(&second, HotRules::off()));
    one.put(&1, &1).await.expect("stored");
    one.declare_hot(&1, 60 * SECOND).await.expect("declared");
    until("everybody holds it", async || held(&one, 1).await && held(&other, 1).await).await;
    for value in 2..12 {
        let done = one.invalidate(&1).await.expect("a good key");
        assert!(matches!(done, Invalidation::Applied(_)));
        assert_eq!(read(&other, Freshness::Strong, 1, value).await, value, "strong");
        assert_eq!(read(&one, Freshness::Cached, 1, value).await, value, "one's own write");
        until("the other's memory follows", async || {
            read(&other, Freshness::Cached, 1, value).await == value
        })
        .await;
        until("it is held again", async || {
            read(&other, Freshness::Cached, 1, value).await;
            held(&other, 1).await
        })
        .await;
    }
    let hot = second.hot_keys().find(setup.entry("hot:1").as_bytes());
    assert!(hot.is_some(), "invalidated, and still hot");
    second.shutdown().await;
    first.shutdown().await;
}

/// A message that was lost names nothing to look for; a process that reads finds the key in a list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_whose_message_was_lost_is_held_by_all_who_read() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let first = Seawall::connect(&server.url()).await.expect("it answers");
    let second = Seawall::connect(&proxy.url()).await.expect("it answers");
    for (key, rules) in [(1, HotRules::off()), (2, HotRules::default())] {
        let (one, other) = (hot_only(&first, rules.clone()), hot_only(&second, rules));
        one.put(&key, &10).await.expect("stored");
        // It listens.
        until("a message comes through", async || {
            one.declare_hot(&(key + 100), SECOND).await.expect("declared");
            second.hot_keys().find(format!("hot:{}", key + 100).as_bytes()).is_some()
        })
        .await;
        until("nothing is hot there", async || second.hot_keys().status().hot == 0).await;
        proxy.drop_pushes(1.0);
        one.declare_hot(&key, 60 * SECOND).await.expect("declared");
        until("it is held there too", async || {
            let _ = other.get(&(key + 200)).await.expect("an answer");
            held(&other, key).await
        })
        .await;
        assert!(proxy.lost_pushes() > 0, "the message was not lost");
        proxy.heal();
        assert!(one.undeclare_hot(&key).await.expect("taken back"));
        until("it is let go", async || !held(&other, key).await).await;
    }
    second.shutdown().await;
    first.shutdown().await;
}

/// Hot and cool are followed by two tasks, and a listener is called by either.
async fn a_listener_that_panics_ends_nothing(setup: Setup) {
    let (first, second) = (setup.connect().await, setup.connect().await);
    let (one, other) = (hot_only(&first, HotRules::off()), hot_only(&second, HotRules::off()));
    let panics = Arc::new(AtomicU64::new(0));
    let counts = Arc::clone(&panics);
    second.hot_keys().on_hot(move |event| {
        counts.fetch_add(1, Ordering::SeqCst);
        panic!("a listener's own fault: {event:?}");
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    second.hot_keys().on_hot(move |event| sees.lock().expect("no panic").push(event.clone()));
    for key in 1..=3 {
        one.put(&key, &key).await.expect("stored");
        one.declare_hot(&key, 60 * SECOND).await.expect("declared");
        until("the other holds it", async || held(&other, key).await).await;
        assert!(one.undeclare_hot(&key).await.expect("taken back"));
        until("the other lets it go", async || !held(&other, key).await).await;
    }
    until("it is called for all of them, and so is whoever listens besides it", async || {
        let heard = seen.lock().expect("no panic").len();
        heard >= 6 && panics.load(Ordering::SeqCst) >= 6
    })
    .await;
    second.shutdown().await;
    first.shutdown().await;
}

/// In ticks of a clock that is moved by hand: no machine is too slow for this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_takes_two_ticks_to_be_hot_and_three_windows_to_cool() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let cache = hot_only(test_server.seawall(), HotRules::all(HotRule::new(1000, SECOND)));
    cache.put(&7, &70).await.expect("stored");
    let hot = test_server.seawall().hot_keys();
    until("the list of the beginning is there", async || hot.status().fleet).await;
    for _ in 0..2 {
        for _ in 0..1000 {
            read(&cache, Freshness::Cached, 7, 0).await;
        }
        test_server.advance(Duration::from_millis(100)).await;
    }
    until("two ticks are enough", async || held(&cache, 7).await).await;

    let mut passed = Duration::ZERO;
    while !hot.here().is_empty() {
        test_server.advance(Duration::from_millis(100)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        passed += Duration::from_millis(100);
        assert!(passed < 60 * SECOND, "it never cools");
    }
    assert!(passed > 2 * SECOND, "it cooled after {passed:?}, before its time");
    assert!(!held(&cache, 7).await, "what has cooled is let go");
    assert!(hot.fleet().await.expect("a list").is_empty());
    test_server.shutdown().await;
}

/// Twenty thousand keys, each read a few times: none is hot, and no report grows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_are_not_a_hot_key() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let cache = hot_only(test_server.seawall(), HotRules::all(HotRule::new(1000, SECOND)));
    for key in 0..20_000 {
        let _ = cache.get(&(key % 5_000)).await.expect("an answer");
        if key % 2_000 == 0 {
            test_server.advance(Duration::from_millis(100)).await;
        }
    }
    assert!(test_server.seawall().hot_keys().here().is_empty());
    assert!(test_server.seawall().hot_keys().status().sketch_bytes < 1 << 20);
    test_server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_contradict_each_other_are_refused() {
    let seawall = Seawall::connect("embedded:").await.expect("the engine starts");
    let build = || seawall.cache::<u64, u64>("hot");
    let rule = HotRule::new(10, SECOND);
    for (builder, word) in [
        (build().local_keeps(LocalKeeps::HotOnly).local_max_bytes(0), "local_keeps"),
        (build().copies(9), "copies"),
        (build().hot_keys(HotRules::all(rule.clone().copies_at(100))), "copies_at"),
        (build().copies(2).hot_keys(HotRules::all(rule.clone().copies_at(1))), "copies_at"),
        (build().hot_keys(HotRules::all(HotRule::new(0, SECOND))), "threshold"),
    ] {
        let error = builder.build().expect_err("it is refused").to_string();
        assert!(error.contains(word), "{error}");
    }
    seawall.shutdown().await;
}
