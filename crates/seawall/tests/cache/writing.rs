//! Invalidation, versioned writes, tags, namespaces, and the races between them and loads.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, OnInvalidate, PutOutcome, Source, WriteError},
    hotkey::HotRules,
};
use seawall_testkit::{FaultProxy, ServerProcess, proxy::On};
use tokio::sync::Semaphore;

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    an_invalidation_reaches_both_levels_everywhere
    a_load_that_was_overtaken_is_not_stored
    a_write_invalidates_whatever_it_says
    a_write_that_cannot_be_told_does_not_run
    late_versions_lose
    tags_and_namespaces_end_at_once
    a_kept_value_is_for_those_who_ask
    many_are_invalidated_in_one_go
}

fn found<V>(value: V) -> Result<Loaded<V>, io::Error> {
    Ok(Loaded::Found(value))
}

/// Waits until a condition holds; these are the second that first levels have to converge.
async fn within_a_second(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..100 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within a second: {what}");
}

async fn an_invalidation_reaches_both_levels_everywhere(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let first: Cache<u64, u64> = one.cache("i").build().expect("defaults");
    let second: Cache<u64, u64> = two.cache("i").build().expect("defaults");
    for cache in [&first, &second] {
        let _ = cache.get_or_load(&1, || async { found(1) }).await.expect("loaded");
    }
    let applied = first.invalidate(&1).await.expect("a good key");
    let Invalidation::Applied(version) = applied else { panic!("{applied:?}") };
    assert!(first.get(&1).await.expect("an answer").is_none(), "here at once");
    within_a_second("there soon", async || second.get(&1).await.expect("an answer").is_none())
        .await;
    let read = second.get_or_load(&1, || async { found(2) }).await.expect("loaded");
    assert!(read.version > version);
    let own =
        first.get_as(Freshness::After(version), &1).await.expect("an answer").expect("new enough");
    assert_eq!(own.value.as_deref(), Some(&2));
}

async fn a_load_that_was_overtaken_is_not_stored(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let reader: Cache<u64, u64> = one.cache("race").build().expect("defaults");
    let writer: Cache<u64, u64> = two.cache("race").build().expect("defaults");
    let gate = Arc::new(Semaphore::new(0));
    let started = Arc::new(Semaphore::new(0));
    let reading = tokio::spawn({
        let (reader, gate, started) = (reader.clone(), Arc::clone(&gate), Arc::clone(&started));
        async move {
            // It read the row, then the write came.
            let load = move || async move {
                started.add_permits(1);
                let _open = gate.acquire().await.expect("never closed");
                found(1)
            };
            reader.get_or_load(&1, load).await
        }
    });
    let _began = started.acquire().await.expect("never closed");
    assert!(matches!(writer.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    // A reader that begins now must not share the old load.
    let late = tokio::spawn({
        let reader = reader.clone();
        async move { reader.get_or_load_as(Freshness::Strong, &1, || async { found(2) }).await }
    });
    tokio::task::yield_now().await;
    gate.add_permits(1);
    let early = reading.await.expect("no panic").expect("its own answer");
    assert_eq!(early.value.as_deref(), Some(&1), "it began before the write");
    assert_eq!(late.await.expect("no panic").expect("loaded").value.as_deref(), Some(&2));
    for cache in [&reader, &writer] {
        let read = cache.get_or_load(&1, || async { found(3) }).await.expect("an answer");
        assert_eq!(read.value.as_deref(), Some(&2), "the old row was not stored");
    }
}

async fn a_write_that_cannot_be_told_does_not_run(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<String, u64> = seawall.cache("w").build().expect("defaults");
    let ran = AtomicBool::new(false);
    let work = || async {
        ran.store(true, Ordering::SeqCst);
        Ok::<_, io::Error>(())
    };
    let nothing = cache.write(&String::new(), work()).await;
    assert!(matches!(nothing, Err(WriteError::NotRun(Error::Invalid(_)))), "{nothing:?}");
    seawall.shutdown().await;
    let closed = cache.write(&"a".to_owned(), work()).await;
    assert!(matches!(closed, Err(WriteError::NotRun(Error::Closed))), "{closed:?}");
    assert!(!ran.load(Ordering::SeqCst), "the database was changed");
}

async fn a_write_invalidates_whatever_it_says(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("w").build().expect("defaults");
    for outcome in [Ok(()), Err(io::ErrorKind::AddrInUse)] {
        let _ = cache.get_or_load(&1, || async { found(1) }).await.expect("loaded");
        // Any error will do, and comes out as it went in.
        let written = cache.write(&1, async { outcome.map_err(io::Error::from) }).await;
        match written {
            Ok(_) => assert!(outcome.is_ok()),
            Err(WriteError::Work(error)) => assert_eq!(Some(error.kind()), outcome.err()),
            Err(error) => panic!("{error}"),
        }
        assert!(cache.get(&1).await.expect("an answer").is_none());
    }
    // A caller that goes away in the middle leaves the invalidation to the repair queue.
    let _ = cache.get_or_load(&1, || async { found(1) }).await.expect("loaded");
    let gate = Arc::new(Semaphore::new(0));
    let writing = tokio::spawn({
        let (cache, gate) = (cache.clone(), Arc::clone(&gate));
        async move {
            cache
                .write(&1, async {
                    gate.add_permits(1);
                    std::future::pending::<io::Result<()>>().await
                })
                .await
                .map(|_| ())
        }
    });
    let _began = gate.acquire().await.expect("never closed");
    writing.abort();
    let _ = writing.await;
    within_a_second("repaired", async || cache.get(&1).await.expect("an answer").is_none()).await;
}

async fn late_versions_lose(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> =
        seawall.cache("v").local_max_bytes(0).build().expect("options agree");
    let put = async |version, value: Option<&str>| {
        let value = value.map(str::to_owned);
        cache.put_if_newer(&1, version, value.as_ref()).await.expect("an answer")
    };
    let value = async || {
        cache.get(&1).await.expect("an answer").and_then(|read| read.value.as_deref().cloned())
    };
    assert!(matches!(put(10, Some("a")).await, PutOutcome::Stored(_)));
    assert_eq!(put(9, Some("late")).await, PutOutcome::Older);
    assert_eq!(put(10, Some("a")).await, PutOutcome::Unchanged);
    assert_eq!(value().await.as_deref(), Some("a"));
    // Versions beyond 2^53 keep their order.
    let high = u64::MAX - 1;
    assert!(matches!(put(high, Some("b")).await, PutOutcome::Stored(_)));
    assert_eq!(put(high - 1, Some("late")).await, PutOutcome::Older);
    assert!(
        matches!(put(high, Some("c")).await, PutOutcome::Undecided(_)),
        "equal versions, other value"
    );
    assert_eq!(value().await, None, "the next reader asks the source");
    assert!(matches!(put(u64::MAX, None).await, PutOutcome::Stored(_)), "deleted");
    assert_eq!(put(high, Some("late")).await, PutOutcome::Older, "the grave remembers");
    let _ = cache.invalidate(&1).await.expect("a good key");
    assert_eq!(put(high, Some("late")).await, PutOutcome::Older, "an invalidation remembers too");
    assert!(cache.put_if_newer(&1, 0, None).await.is_err());
}

async fn tags_and_namespaces_end_at_once(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let build = |seawall: &Seawall| -> Cache<(u64, u64), u64> {
        seawall
            .cache("page")
            .tags(|key: &(u64, u64)| vec![format!("user {}", key.0)])
            .clearable()
            .build()
            .expect("options agree")
    };
    let (first, second) = (build(&one), build(&two));
    let load = async |cache: &Cache<(u64, u64), u64>, key: (u64, u64), value: u64| {
        cache
            .get_or_load(&key, move || async move { found(value) })
            .await
            .expect("an answer")
            .value
            .as_deref()
            .copied()
    };
    for key in [(1, 1), (1, 2), (2, 1)] {
        assert_eq!(load(&first, key, 10).await, Some(10));
        assert_eq!(load(&second, key, 99).await, Some(10));
    }
    first.clear_tag("user 1").await.expect("cleared");
    assert_eq!(load(&first, (1, 1), 20).await, Some(20));
    assert_eq!(load(&first, (2, 1), 20).await, Some(10), "another tag");
    within_a_second("the other first level", async || load(&second, (1, 2), 30).await == Some(30))
        .await;
    first.clear().await.expect("cleared");
    assert_eq!(load(&first, (2, 1), 40).await, Some(40));
    within_a_second("everything", async || load(&second, (1, 1), 50).await == Some(50)).await;
    let plain: Cache<u64, u64> = one.cache("plain").build().expect("defaults");
    assert!(plain.clear().await.is_err());
    assert!(plain.clear_tag("x").await.is_err());
}

async fn a_kept_value_is_for_those_who_ask(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall
        .cache("k")
        .on_invalidate(OnInvalidate::KeepForStale)
        .build()
        .expect("options agree");
    let _ = cache.get_or_load(&1, || async { found(1) }).await.expect("loaded");
    let _ = cache.invalidate(&1).await.expect("a good key");
    assert!(cache.get(&1).await.expect("an answer").is_none(), "not for others");
    let down = || async { Err::<u64, _>(io::Error::other("down")) };
    assert!(cache.get_or_load(&1, down).await.is_err(), "not even when loading fails");
    let stale = cache.get_as(Freshness::StaleOk, &1).await.expect("an answer").expect("kept");
    assert_eq!((stale.value.as_deref(), stale.source), (Some(&1), Source::Stale));
    let read = cache.get_or_load(&1, || async { found(2) }).await.expect("loaded");
    assert_eq!(read.value.as_deref(), Some(&2));
}

async fn many_are_invalidated_in_one_go(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let first: Cache<u64, u64> = one.cache("m").build().expect("defaults");
    let second: Cache<u64, u64> = two.cache("m").build().expect("defaults");
    let keys: Vec<u64> = (0..200).collect();
    for cache in [&first, &second] {
        let load = |keys: Vec<u64>| async {
            Ok::<_, io::Error>(keys.into_iter().map(|key| (key, key)).collect())
        };
        assert!(cache.get_many(&keys, load).await.into_iter().all(|read| read.is_ok()));
    }
    assert!(matches!(first.invalidate_many(&keys).await, Ok(Invalidation::Applied(_))));
    assert!(matches!(first.invalidate_many(&[]).await, Ok(Invalidation::Applied(_))));
    within_a_second("all of them", async || {
        for key in &keys {
            if second.get(key).await.expect("an answer").is_some() {
                return false;
            }
        }
        true
    })
    .await;
}

/// On one server a write is two steps: its lease, and the value together with the message about it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_takes_two_round_trips_and_tells_everybody() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let (one, two) = (
        Seawall::connect(&proxy.url()).await.expect("it answers"),
        Seawall::connect(&server.url()).await.expect("it answers"),
    );
    let writer: Cache<u64, u64> = one.cache("w").hot_keys(HotRules::off()).build().expect("valid");
    let reader: Cache<u64, u64> = two.cache("w").hot_keys(HotRules::off()).build().expect("valid");
    writer.put(&1, &0).await.expect("stored");
    assert!(matches!(writer.put_if_newer(&2, 1, Some(&0)).await, Ok(PutOutcome::Stored(_))));
    for round in 1..=5 {
        // A copy in the other process' memory, which only the message ends.
        for key in [1, 2] {
            let read = reader.get(&key).await.expect("answered").expect("there");
            assert_eq!(read.value.as_deref(), Some(&(round - 1)));
        }
        // Of its entries only: the handle's own tasks begin when they get to it.
        let scripts = proxy.watch(On::command("EVALSHA").key_prefix("w:"));
        writer.put(&1, &round).await.expect("stored");
        assert_eq!(scripts.count(), 2);
        let put = writer.put_if_newer(&2, round + 1, Some(&round)).await.expect("answered");
        assert!(matches!(put, PutOutcome::Stored(_)), "{put:?}");
        assert_eq!(scripts.count(), 3);
        for key in [1, 2] {
            within_a_second("the other process reads what was written", async || {
                let read = reader.get(&key).await.expect("answered");
                read.is_some_and(|read| read.value.as_deref() == Some(&round))
            })
            .await;
        }
    }
    for handle in [two, one] {
        handle.shutdown().await;
    }
}
