//! What loaders may return, and loaders that are bound to their cache once.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use seawall::cache::{Cache, CacheError, Freshness, LoadRequest, Loaded, OnInvalidate, Source};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_loader_returns_a_value_an_option_or_more
    a_value_that_is_an_option_is_a_value
    a_bound_loader_gets_the_key_and_runs_once
    a_bound_loader_is_shown_what_it_replaces
    many_keys_are_loaded_one_by_one_or_as_a_batch
}

type Strings = Cache<String, String>;

async fn a_loader_returns_a_value_an_option_or_more(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Strings = seawall.cache("forms").build().expect("defaults");
    let tea = || "tea".to_owned();
    let value = cache.get_or_load("value", move || async move { io::Result::Ok(tea()) }).await;
    let some = cache.get_or_load("some", move || async move { io::Result::Ok(Some(tea())) }).await;
    let none = cache.get_or_load("none", || async { io::Result::Ok(None::<String>) }).await;
    let lasting = Duration::from_secs(60);
    let load = move || async move { io::Result::Ok(Loaded::FoundFor(tea(), lasting)) };
    let more = cache.get_or_load_as(Freshness::Strong, "more", load).await;
    for (read, expected) in [(value, true), (some, true), (none, false), (more, true)] {
        let read = read.expect("loaded");
        assert_eq!((read.source, read.value.is_some()), (Source::Loaded, expected));
    }
    let none = cache.get("none").await.expect("answered").expect("its absence is known");
    assert!(none.value.is_none());
    seawall.shutdown().await;
}

async fn a_value_that_is_an_option_is_a_value(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, Option<u64>> = seawall.cache("optional").build().expect("defaults");
    let load = || async { io::Result::Ok(None::<u64>) };
    let read = cache.get_or_load(&1, load).await.expect("loaded");
    assert_eq!(read.value.as_deref(), Some(&None), "it is there, and says `None`");
    seawall.shutdown().await;
}

async fn a_bound_loader_gets_the_key_and_runs_once(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Strings = seawall.cache("bound").build().expect("defaults");
    let loads = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&loads);
    let shops = cache.with_loader(move |load: LoadRequest<String, String>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            match load.key.as_str() {
                "broken" => Err(io::Error::other("no such table")),
                key => Ok(Some(format!("shop {key}"))),
            }
        }
    });
    let readers = join_all((0..50).map(|_| shops.get("a"))).await;
    assert!(readers.iter().all(|read| {
        let read = read.as_ref().expect("loaded");
        read.value.as_deref().map(String::as_str) == Some("shop a")
    }));
    assert_eq!(loads.load(Ordering::SeqCst), 1);
    let error = shops.clone().get("broken").await.expect_err("it fails");
    assert!(matches!(error, CacheError::Load(_)), "{error:?}");
    let _ = shops.cache().invalidate("a").await.expect("answered");
    assert!(shops.get_as(Freshness::Strong, "a").await.expect("loaded").value.is_some());
    assert_eq!(loads.load(Ordering::SeqCst), 3);
    seawall.shutdown().await;
}

async fn a_bound_loader_is_shown_what_it_replaces(setup: Setup) {
    let seawall = setup.connect().await;
    let builder = seawall.cache("stale").on_invalidate(OnInvalidate::KeepForStale);
    let cache: Cache<u64, u64> = builder.build().expect("options agree");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&shown);
    let numbers = cache.with_loader(move |load| {
        seen.lock().expect("no panic").push((load.key, load.stale.as_deref().copied()));
        async move {
            io::Result::Ok(match load.stale {
                Some(_) => Loaded::NotModified,
                None => Loaded::Found(load.key * 10),
            })
        }
    });
    for _ in 0..2 {
        let read = numbers.get(&7).await.expect("loaded");
        assert_eq!(read.value.as_deref(), Some(&70));
        let _ = cache.invalidate(&7).await.expect("answered");
    }
    assert_eq!(*shown.lock().expect("no panic"), [(7, None), (7, Some(70))]);
    seawall.shutdown().await;
}

async fn many_keys_are_loaded_one_by_one_or_as_a_batch(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("many").build().expect("defaults");
    let single = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&single);
    let even = |id: u64| id.is_multiple_of(2).then_some(id * 10);
    let numbers = cache.with_loader(move |load| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move { io::Result::Ok(even(load.key)) }
    });
    let values = |reads: Vec<Result<seawall::cache::Read<u64>, CacheError>>| -> Vec<Option<u64>> {
        reads.into_iter().map(|read| read.expect("loaded").value.as_deref().copied()).collect()
    };
    let expected = [Some(20), None, Some(40)];
    assert_eq!(values(numbers.get_many(&[2, 3, 4]).await), expected);
    assert_eq!(single.load(Ordering::SeqCst), 3);
    let batches = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&batches);
    let numbers = numbers.batch_loader(move |ids: Vec<u64>| {
        asked.lock().expect("no panic").push(ids.clone());
        let found: HashMap<_, _> = ids.into_iter().filter_map(|id| Some((id, even(id)?))).collect();
        async move { io::Result::Ok(found) }
    });
    assert_eq!(
        values(numbers.get_many(&[2, 13, 4, 14]).await),
        [Some(20), None, Some(40), Some(140)]
    );
    assert_eq!(*batches.lock().expect("no panic"), [vec![13, 14]]);
    assert_eq!(single.load(Ordering::SeqCst), 3, "what is missing was loaded together");
    seawall.shutdown().await;
}
