//! What a hot key may ask of Redis and of the source.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Error,
    cache::{Cache, CacheError, Loaded, Source},
    guard::Rate,
    hotkey::{HotRule, HotRules},
    testing::TestServer,
};

use crate::finding::until;

/// Key 1 is let through ten times a second once it is hot. Without a first level every read asks Redis.
fn limited(test_server: &TestServer) -> Cache<u64, u64> {
    let rule = HotRule::new(1000, Duration::from_secs(1)).limit(Rate::per_second(10));
    let builder = test_server.seawall().cache("limited").local_max_bytes(0);
    builder.hot_keys(HotRules::off().prefix(1, rule)).build().expect("settings that agree")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_limit_a_hot_key_is_shed_and_others_are_not() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let cache = limited(&test_server);
    let loads = Arc::new(AtomicU64::new(0));
    let read = async |key: u64| {
        let loads = Arc::clone(&loads);
        let load = move || async move {
            loads.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Error>(Loaded::DontCache(key))
        };
        cache.get_or_load(&key, load).await
    };
    for _ in 0..50 {
        assert!(read(1).await.is_ok(), "not hot yet");
    }
    cache.declare_hot(&1, Duration::from_secs(60)).await.expect("declared");
    cache.declare_hot(&2, Duration::from_secs(60)).await.expect("declared");
    until("both are hot", async || test_server.seawall().hot_keys().here().len() == 2).await;
    let before = loads.load(Ordering::SeqCst);
    let mut shed = 0;
    for _ in 0..100 {
        match read(1).await {
            Ok(_) => {}
            Err(CacheError::Shed { retry_after }) => {
                assert!(!retry_after.is_zero());
                shed += 1;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(read(2).await.is_ok(), "hot, but its rule has no limit");
    }
    assert!(shed >= 85, "{shed} of 100 were shed");
    let loaded = loads.load(Ordering::SeqCst) - before;
    assert!(loaded <= 100 + 15, "{loaded} loads");
    test_server.advance(Duration::from_secs(1)).await;
    assert!(read(1).await.is_ok(), "a second later there is more");
    test_server.shutdown().await;
}

/// In a batch the limit is its key's alone, and who was let in is not asked again by a later step.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_limit_a_hot_key_is_shed_in_a_batch_and_its_neighbours_are_not() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let cache = limited(&test_server);
    cache.declare_hot(&1, Duration::from_secs(60)).await.expect("declared");
    until("it is hot", async || test_server.seawall().hot_keys().here().len() == 1).await;
    let load = |keys: Vec<u64>| async {
        Ok::<_, Error>(keys.into_iter().map(|key| (key, key * 10)).collect())
    };
    let mut shed = 0;
    for _ in 0..100 {
        let reads = cache.get_many(&[0, 1, 2], load).await;
        for (key, read) in (0_u64..).zip(reads) {
            match read {
                Ok(read) => assert_eq!(read.value.as_deref(), Some(&(key * 10))),
                Err(CacheError::Shed { .. }) if key == 1 => shed += 1,
                Err(error) => panic!("{key}: {error}"),
            }
        }
    }
    // The clock stands still: what the bucket held, and no more.
    assert!((85..100).contains(&shed), "{shed} of 100 were shed");
    test_server.advance(Duration::from_secs(1)).await;
    assert!(cache.get_many(&[1], load).await[0].is_ok(), "a second later there is more");
    test_server.shutdown().await;
}

/// The copy that is past its lifetime is better than nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_its_limit_a_hot_key_gives_its_older_copy() {
    let test_server = TestServer::start().await.expect("the engine starts");
    let rule = HotRule::new(1000, Duration::from_secs(1)).limit(Rate::per_second(1));
    let cache: Cache<u64, u64> = test_server
        .seawall()
        .cache("limited")
        .local_ttl(Duration::from_millis(10))
        .hot_keys(HotRules::all(rule))
        .build()
        .expect("settings that agree");
    cache.put(&1, &10).await.expect("stored");
    cache.declare_hot(&1, Duration::from_secs(60)).await.expect("declared");
    until("it is hot", async || !test_server.seawall().hot_keys().here().is_empty()).await;
    let mut stale = false;
    until("an older copy is given", async || {
        match cache.get(&1).await {
            Ok(Some(read)) => {
                assert_eq!(read.value.as_deref(), Some(&10));
                stale = read.source == Source::Stale;
                test_server.advance(Duration::from_millis(11)).await;
            }
            // The message of the write came only now and took the copy along: the next token brings one.
            Err(CacheError::Shed { .. }) => test_server.advance(Duration::from_secs(1)).await,
            other => panic!("{other:?}"),
        }
        stale
    })
    .await;
    test_server.shutdown().await;
}
