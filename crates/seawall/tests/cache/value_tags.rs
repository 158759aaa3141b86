//! Tags that values carry.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, CacheBuilder, Freshness, Loaded, PutOutcome, Read, RemoteState, Source},
    cmd,
};
use seawall_testkit::{FaultProxy, ServerProcess, proxy::On};

use crate::{
    eventually::eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! { without sentinel:
    a_tag_ends_the_values_that_carry_it
    both_kinds_of_tags_end_what_has_them
    a_batch_loads_what_was_cleared_in_one_call
    a_value_past_its_lifetime_is_not_given_after_a_clear
    values_that_writers_bring_carry_tags
    values_in_parts_carry_tags
    what_was_cleared_stays_so_when_its_record_is_lost
    the_oldest_clears_become_one
    a_panic_keeps_a_value_out
}

/// A tag and a number.
type Item = (u64, u64);

fn builder(seawall: &Seawall) -> CacheBuilder<u64, Item> {
    let builder = seawall.cache("item").ttl(Duration::from_secs(600));
    builder.value_tags(|(tag, _): &Item| vec![format!("t{tag}"), "all".to_owned()])
}

fn build(seawall: &Seawall) -> Cache<u64, Item> {
    builder(seawall).build().expect("options agree")
}

async fn read_as(
    cache: &Cache<u64, Item>,
    freshness: Freshness,
    key: u64,
    item: Item,
) -> Read<Item> {
    let load = move || async move { Ok::<_, io::Error>(item) };
    cache.get_or_load_as(freshness, &key, load).await.expect("an answer")
}

/// What a default read returns; the source has `item`.
async fn read(cache: &Cache<u64, Item>, key: u64, item: Item) -> Option<Item> {
    read_as(cache, Freshness::Cached, key, item).await.value.as_deref().copied()
}

async fn strong(cache: &Cache<u64, Item>, key: u64, item: Item) -> Option<Item> {
    read_as(cache, Freshness::Strong, key, item).await.value.as_deref().copied()
}

async fn a_tag_ends_the_values_that_carry_it(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let (first, second) = (build(&one), build(&two));
    for (key, item) in [(1, (1, 10)), (2, (2, 10)), (3, (1, 10))] {
        assert_eq!(read(&first, key, item).await, Some(item));
        assert_eq!(read(&second, key, (9, 99)).await, Some(item));
    }
    let missing = || async { Ok::<Loaded<Item>, io::Error>(Loaded::Missing) };
    assert!(first.get_or_load(&4, missing).await.expect("an answer").value.is_none());

    first.clear_tag("t1").await.expect("cleared");
    assert_eq!(strong(&second, 3, (1, 20)).await, Some((1, 20)), "in another process");
    assert_eq!(read(&first, 1, (1, 20)).await, Some((1, 20)));
    assert_eq!(read(&first, 3, (1, 30)).await, Some((1, 20)), "what was loaded after it stays");
    for cache in [&first, &second] {
        assert_eq!(strong(cache, 2, (2, 20)).await, Some((2, 10)), "another tag");
        assert!(read(cache, 4, (1, 20)).await.is_none(), "no value, no tag");
    }
    eventually("the other first level follows", async || {
        read(&second, 1, (1, 30)).await == Some((1, 20))
    })
    .await;

    second.clear_tag("all").await.expect("cleared");
    for key in 1..=3 {
        assert_eq!(strong(&first, key, (3, 30)).await, Some((3, 30)));
        assert_eq!(strong(&second, key, (3, 40)).await, Some((3, 30)));
    }
    // The tag is the value's: what carries another one now is not ended by its former one.
    first.clear_tag("t1").await.expect("cleared");
    assert_eq!(strong(&first, 1, (1, 50)).await, Some((3, 30)));
}

async fn both_kinds_of_tags_end_what_has_them(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let build = |seawall: &Seawall| -> Cache<u64, Item> {
        let builder = builder(seawall).clearable();
        builder.tags(|key| vec![format!("k{}", key % 2)]).build().expect("options agree")
    };
    let (first, second) = (build(&one), build(&two));
    let keys: Vec<u64> = (0..4).collect();
    let load = |items: u64| {
        move |keys: Vec<u64>| async move {
            let found = keys.into_iter().map(|key| (key, (key / 2, items)));
            Ok::<_, io::Error>(found.collect::<HashMap<_, _>>())
        }
    };
    for (round, tag, cleared) in [
        (1, None, [true; 4]),
        (2, Some("k1"), [false, true, false, true]),
        (3, Some("t0"), [true, true, false, false]),
    ] {
        if let Some(tag) = tag {
            first.clear_tag(tag).await.expect("cleared");
        }
        for (key, cleared) in keys.iter().zip(cleared) {
            let said = second.explain(key).await.expect("an answer").remote;
            let counts = matches!(said, RemoteState::Entry(entry) if entry.generations_match);
            assert_eq!(counts, !cleared, "{tag:?} {key}");
        }
        for read in first.get_many(&keys, load(round)).await {
            let read = read.expect("an answer");
            let is_new = read.value.is_some_and(|item| item.1 == round);
            assert_eq!(is_new, read.source == Source::Loaded);
        }
        for (key, cleared) in keys.iter().zip(cleared) {
            let found = strong(&second, *key, (9, 9)).await.expect("a value");
            assert_eq!(found.1 == round, cleared, "{tag:?} {key}: {found:?}");
        }
    }
    first.clear().await.expect("cleared");
    assert_eq!(strong(&second, 2, (2, 4)).await, Some((2, 4)));
}

async fn a_batch_loads_what_was_cleared_in_one_call(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = builder(&seawall).local_max_bytes(0).build().expect("options agree");
    let calls: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
    let asked = Arc::clone(&calls);
    let load = move |keys: Vec<u64>| {
        let mut calls = asked.lock().expect("no panic");
        calls.push(keys.clone());
        let round = calls.len() as u64;
        async move {
            let found = keys.into_iter().map(|key| (key, (key % 3, round)));
            Ok::<_, io::Error>(found.collect::<HashMap<_, _>>())
        }
    };
    let keys: Vec<u64> = (0..60).collect();
    for tag in ["none", "t1", "t2"] {
        cache.clear_tag(tag).await.expect("cleared");
        let reads = cache.get_many(&keys, load.clone()).await;
        assert!(reads.iter().all(Result::is_ok));
    }
    let calls = calls.lock().expect("no panic");
    let with = |tag: u64| keys.iter().copied().filter(|key| key % 3 == tag).collect::<Vec<_>>();
    assert_eq!(*calls, [keys.clone(), with(1), with(2)]);
}

async fn a_value_past_its_lifetime_is_not_given_after_a_clear(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = builder(&seawall)
        .ttl(Duration::from_millis(1))
        .max_stale(Duration::from_secs(600))
        .build()
        .expect("options agree");
    for key in [1, 2] {
        assert_eq!(read(&cache, key, (key, 10)).await, Some((key, 10)));
    }
    cache.clear_tag("t1").await.expect("cleared");
    let stale = async |key| {
        let read = cache.get_as(Freshness::StaleOk, &key).await.expect("an answer");
        read.and_then(|read| read.value.as_deref().copied())
    };
    assert_eq!(stale(1).await, None);
    assert_eq!(stale(2).await, Some((2, 10)), "another tag");
    // A loader that fails must not bring it back either.
    let fails = || async { Err::<Item, _>(io::Error::other("down")) };
    assert!(cache.get_or_load(&1, fails).await.is_err());
    assert_eq!(cache.get_or_load(&2, fails).await.expect("stale").value.as_deref(), Some(&(2, 10)));
}

async fn values_that_writers_bring_carry_tags(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let (first, second) = (build(&one), build(&two));
    first.put(&1, &(1, 10)).await.expect("stored");
    let put = async |version, item: Item| {
        first.put_if_newer(&2, version, Some(&item)).await.expect("an answer")
    };
    assert!(matches!(put(5, (1, 10)).await, PutOutcome::Stored(_)));
    let values = async || {
        let mut values = Vec::new();
        for key in [1, 2] {
            let read = second.get_as(Freshness::Strong, &key).await.expect("an answer");
            values.push(read.and_then(|read| read.value.as_deref().copied()));
        }
        values
    };
    second.clear_tag("t2").await.expect("cleared");
    assert_eq!(values().await, [Some((1, 10)); 2]);
    assert_eq!(put(5, (1, 10)).await, PutOutcome::Unchanged, "the same, after a clear");
    second.clear_tag("t1").await.expect("cleared");
    assert_eq!(values().await, [None; 2]);
    assert_eq!(put(4, (1, 9)).await, PutOutcome::Older, "the version is remembered");
    first.put(&1, &(1, 11)).await.expect("stored");
    assert!(matches!(put(6, (1, 11)).await, PutOutcome::Stored(_)));
    assert_eq!(values().await, [Some((1, 11)); 2], "brought after the clear");
}

async fn values_in_parts_carry_tags(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, (u64, String)> = seawall
        .cache("big")
        .value_tags(|(tag, _): &(u64, String)| vec![format!("t{tag}")])
        .split_above_bytes(2_000)
        .compress_above_bytes(usize::MAX)
        .build()
        .expect("options agree");
    let big = |tag: u64, digit: &str| (tag, digit.repeat(9_000));
    let value = async |key: u64| {
        let read = cache.get_as(Freshness::Strong, &key).await.expect("an answer");
        read.and_then(|read| read.value.as_deref().cloned())
    };
    let put = async |version, value| {
        cache.put_if_newer(&2, version, Some(&value)).await.expect("an answer")
    };
    cache.put(&1, &big(1, "a")).await.expect("stored");
    assert!(matches!(put(5, big(2, "b")).await, PutOutcome::Stored(_)));
    for (tag, left) in [("t9", true), ("t1", false)] {
        cache.clear_tag(tag).await.expect("cleared");
        assert_eq!(value(1).await, left.then(|| big(1, "a")), "{tag}");
        assert_eq!(value(2).await, Some(big(2, "b")), "{tag}");
        assert_eq!(put(5, big(2, "b")).await, PutOutcome::Unchanged);
        let said = cache.explain(&1).await.expect("an answer").remote;
        let counts = matches!(said, RemoteState::Entry(entry) if entry.generations_match);
        assert_eq!(counts, left, "{tag}");
    }
    let load = || async { Ok::<_, io::Error>((1, "c".to_owned())) };
    let read = cache.get_or_load(&1, load).await.expect("an answer");
    assert_eq!(read.source, Source::Loaded);
    assert_eq!(value(1).await, Some((1, "c".to_owned())));
}

/// An eviction may take the record of clears, and leave the entries.
async fn what_was_cleared_stays_so_when_its_record_is_lost(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = builder(&seawall).local_max_bytes(0).build().expect("options agree");
    for lost in [&["cache-clears"][..], &["cache-cleared"], &["cache-clears", "cache-cleared"]] {
        let item = (1, 10);
        cache.clear_tag("none").await.expect("cleared");
        assert!(read(&cache, 1, item).await.is_some());
        cache.clear_tag("t1").await.expect("cleared");
        for name in lost {
            let key = setup.entry(&format!("{name}:{{item}}"));
            let mut delete = cmd("DEL");
            delete.arg(&key);
            let deleted = seawall.client().query::<u64>(key.as_bytes(), &delete).await;
            assert_eq!(deleted.expect("an answer"), 1, "{key}");
        }
        assert!(cache.get(&1).await.expect("an answer").is_none(), "{lost:?}");
        assert_eq!(strong(&cache, 1, (1, 20)).await, Some((1, 20)), "{lost:?}");
        assert_eq!(strong(&cache, 1, (1, 30)).await, Some((1, 20)), "{lost:?}");
        cache.clear_tag("t2").await.expect("cleared");
        assert_eq!(strong(&cache, 1, (1, 30)).await, Some((1, 20)), "{lost:?}");
        cache.clear_tag("t1").await.expect("cleared");
        assert_eq!(strong(&cache, 1, (1, 40)).await, Some((1, 40)), "{lost:?}");
    }
}

async fn the_oldest_clears_become_one(setup: Setup) {
    let seawall = setup.connect().await;
    let cache = builder(&seawall).local_max_bytes(0).build().expect("options agree");
    assert!(read(&cache, 1, (1, 10)).await.is_some());
    cache.clear_tag("t2").await.expect("cleared");
    assert!(read(&cache, 2, (1, 10)).await.is_some());
    let key = setup.entry("cache-cleared:{item}");
    // As many as are remembered, all of them cleared after the first load and before the second.
    let mut fill = cmd("EVAL");
    let script = "local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
        for tag = 1, 100000 do redis.call('ZADD', KEYS[1], last, 'tag ' .. tag) end";
    fill.arg(script).arg(1).arg(&key);
    seawall.client().send(key.as_bytes(), &fill).await.expect("an answer");
    let count = async || {
        let mut count = cmd("ZCARD");
        count.arg(&key);
        seawall.client().query::<u64>(key.as_bytes(), &count).await.expect("an answer")
    };
    assert_eq!(count().await, 100_002, "with the floor and t2");
    cache.clear_tag("t3").await.expect("cleared");
    assert_eq!(count().await, 99_002);
    assert_eq!(strong(&cache, 1, (1, 20)).await, Some((1, 20)), "loaded before the floor");
    assert_eq!(strong(&cache, 2, (1, 20)).await, Some((1, 10)), "loaded after it");
}

async fn a_panic_keeps_a_value_out(setup: Setup) {
    let seawall = setup.connect().await;
    let tags = |item: &Item| match item {
        (0, _) => panic!("no tag"),
        (tag, _) => vec![format!("t{tag}")],
    };
    let cache: Cache<u64, Item> =
        seawall.cache("strict").value_tags(tags).build().expect("options agree");
    for item in [(0, 1), (0, 2)] {
        assert_eq!(read(&cache, 1, item).await, Some(item), "returned and not kept");
    }
    let load = |keys: Vec<u64>| async move {
        Ok::<_, io::Error>(keys.into_iter().map(|key| (key, (key % 2, key))).collect())
    };
    for round in 0..2 {
        let reads = cache.get_many(&[1, 2, 3, 4], load).await;
        let sources: Vec<bool> = reads
            .into_iter()
            .map(|read| read.expect("an answer").source == Source::Loaded)
            .collect();
        assert_eq!(sources, [round == 0, true, round == 0, true]);
    }
}

/// What a read costs: the number of the last clear comes with the entry, and the tags are asked about
/// only if it is another one than the entry's; once for all entries with the same tags.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_are_asked_about_only_after_a_clear() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let seawall = Seawall::connect(&proxy.url()).await.expect("connected");
    let cache = builder(&seawall).local_max_bytes(0).build().expect("options agree");
    for key in 1..=4 {
        assert!(read(&cache, key, (1, key)).await.is_some());
    }
    let gets = proxy.watch(On::command("MGET").key_prefix("item:"));
    let asks = proxy.watch(On::command("EVALSHA").key_prefix("cache-clears:"));
    for (tag, asked) in [(None, 0), (Some("t2"), 1), (Some("t3"), 2)] {
        if let Some(tag) = tag {
            cache.clear_tag(tag).await.expect("cleared");
        }
        let (gets_before, asks_before) = (gets.count(), asks.count());
        for key in 1..=4 {
            assert_eq!(strong(&cache, key, (9, 9)).await, Some((1, key)));
        }
        assert_eq!(gets.count() - gets_before, 4, "{tag:?}");
        assert_eq!(asks.count() - asks_before, asked.min(1), "{tag:?}");
    }
    seawall.shutdown().await;
}
