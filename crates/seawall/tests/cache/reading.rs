//! Hits, misses, negative entries, shared loads, wishes of readers.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    cache::{Cache, CacheError, Freshness, Loaded, Source, WhenBusy},
    cmd,
};
use tokio::sync::Semaphore;

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_miss_is_loaded_and_then_hit_at_both_levels
    what_does_not_exist_is_remembered_briefly
    many_readers_of_a_cold_key_cause_one_load
    a_cancelled_reader_does_not_take_the_others_down
    a_failed_load_fails_those_who_waited_and_is_tried_again
    undecodable_entries_are_misses
    a_busy_reader_does_as_it_was_told
    strange_keys_are_keys_or_refused
    a_key_may_be_borrowed
}

/// A `&str` names the same entry as the `String`, for tags too.
async fn a_key_may_be_borrowed(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<String, u64> =
        seawall.cache("borrowed").tags(|key: &String| vec![key.clone()]).build().expect("tags");
    let read = cache.get_or_load("tea", || async { found(1) }).await.expect("loaded");
    assert_eq!(read.source, Source::Loaded);
    for freshness in [Freshness::Cached, Freshness::Strong] {
        let owned = cache.get_as(freshness, &"tea".to_owned()).await.expect("an answer");
        let borrowed = cache.get_as(freshness, "tea").await.expect("an answer");
        assert_eq!(owned.and_then(|read| read.value).as_deref(), Some(&1));
        assert_eq!(borrowed.and_then(|read| read.value).as_deref(), Some(&1));
    }
    cache.clear_tag("tea").await.expect("it answers");
    assert!(cache.get("tea").await.expect("an answer").is_none());
    cache.put("tea", &2).await.expect("it answers");
    let ((), _) = cache.write("tea", async { Ok::<_, io::Error>(()) }).await.expect("written");
    assert!(cache.get(&"tea".to_owned()).await.expect("an answer").is_none());
}

fn found<V>(value: V) -> Result<Loaded<V>, io::Error> {
    Ok(Loaded::Found(value))
}

async fn a_miss_is_loaded_and_then_hit_at_both_levels(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let first: Cache<u64, String> = one.cache("shop").build().expect("defaults");
    let second: Cache<u64, String> = two.cache("shop").build().expect("defaults");
    let read = first.get_or_load(&1, || async { found("tea".to_owned()) }).await.expect("loaded");
    assert_eq!(
        (read.source, read.value.as_deref().map(String::as_str)),
        (Source::Loaded, Some("tea"))
    );
    // A first level begins empty once more when it has found its place among the messages.
    while first.get(&1).await.expect("a hit").expect("there").source != Source::Local {}
    let never = || async { Err::<String, _>(io::Error::other("must not be called")) };
    let other = second.get_or_load(&1, never).await.expect("a hit");
    assert_eq!(other.source, Source::Remote);
    assert_eq!(other.version, read.version);
    assert!(other.age < Duration::from_secs(60), "{:?}", other.age);
    while second.get(&1).await.expect("a hit").expect("there").source != Source::Local {}
    assert!(first.get(&2).await.expect("nobody knows").is_none());
}

async fn what_does_not_exist_is_remembered_briefly(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<&str, u64> =
        seawall.cache("user").local_max_bytes(0).build().expect("options agree");
    let missing = || async { Ok::<_, io::Error>(Loaded::Missing) };
    assert!(cache.get_or_load(&"nobody", missing).await.expect("an answer").value.is_none());
    let again = cache.get(&"nobody").await.expect("a hit").expect("remembered");
    assert_eq!((again.value, again.source), (None, Source::Remote));
    let ttl: i64 = seawall
        .client()
        .query(setup.entry("user:nobody").as_bytes(), cmd("PTTL").arg(setup.entry("user:nobody")))
        .await
        .expect("a lifetime");
    assert!((1..=11_000).contains(&ttl), "short, not the full lifetime: {ttl}");
}

async fn many_readers_of_a_cold_key_cause_one_load(setup: Setup) {
    let loads = Arc::new(AtomicU64::new(0));
    let mut readers = tokio::task::JoinSet::new();
    let mut handles = Vec::new();
    for _ in 0..4 {
        let seawall = setup.connect().await;
        let cache: Cache<u64, u64> = seawall.cache("hot").build().expect("defaults");
        handles.push(seawall);
        for _ in 0..250 {
            let (cache, loads) = (cache.clone(), Arc::clone(&loads));
            readers.spawn(async move {
                let load = move || async move {
                    loads.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    found(7)
                };
                cache.get_or_load(&1, load).await.expect("an answer").value.as_deref().copied()
            });
        }
    }
    while let Some(value) = readers.join_next().await {
        assert_eq!(value.expect("no panic"), Some(7));
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}

async fn a_cancelled_reader_does_not_take_the_others_down(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("c").build().expect("defaults");
    let gate = Arc::new(Semaphore::new(0));
    let started = Arc::new(Semaphore::new(0));
    let leader = tokio::spawn({
        let (cache, gate, started) = (cache.clone(), Arc::clone(&gate), Arc::clone(&started));
        async move {
            let load = move || async move {
                started.add_permits(1);
                let _open = gate.acquire().await.expect("never closed");
                found(5)
            };
            cache.get_or_load(&1, load).await
        }
    });
    let _began = started.acquire().await.expect("never closed");
    let follower = tokio::spawn({
        let cache = cache.clone();
        async move {
            cache
                .get_or_load(&1, || async { Err::<u64, _>(io::Error::other("one load is enough")) })
                .await
        }
    });
    tokio::task::yield_now().await;
    leader.abort();
    gate.add_permits(1);
    let read = follower.await.expect("no panic").expect("the load went on");
    assert_eq!(read.value.as_deref(), Some(&5));
}

async fn a_failed_load_fails_those_who_waited_and_is_tried_again(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("f").build().expect("defaults");
    let error =
        cache.get_or_load(&1, || async { Err::<u64, _>(io::Error::other("database down")) }).await;
    let Err(CacheError::Load(error)) = error else { panic!("{error:?}") };
    assert_eq!(error.to_string(), "database down");
    // The lease was given back: the next one does not wait for it to end.
    let read = cache.get_or_load(&1, || async { found(3) }).await.expect("up again");
    assert_eq!(read.value.as_deref(), Some(&3));
}

async fn undecodable_entries_are_misses(setup: Setup) {
    let seawall = setup.connect().await;
    let old: Cache<u64, u64> = seawall.cache("shape").build().expect("defaults");
    let new: Cache<u64, u64> =
        seawall.cache("shape").schema(1).local_max_bytes(0).build().expect("defaults");
    let _ = old.get_or_load(&1, || async { found(1) }).await.expect("loaded");
    assert!(new.get(&1).await.expect("readable").is_none(), "another shape");
    assert_eq!(
        new.get_or_load(&1, || async { found(2) }).await.expect("loaded").value.as_deref(),
        Some(&2)
    );
    assert_eq!(new.get(&1).await.expect("a hit").expect("replaced").source, Source::Remote);
    let key = setup.entry("shape:2");
    for junk in [&b"junk"[..], &[0xC5; 100], b""] {
        seawall
            .client()
            .send(key.as_bytes(), cmd("SET").arg(&key).arg(junk))
            .await
            .expect("written");
        assert!(new.get(&2).await.expect("no error").is_none());
        let read = new.get_or_load(&2, || async { found(9) }).await.expect("loaded");
        assert_eq!(read.value.as_deref(), Some(&9));
    }
    // A key of another type is somebody else's: the cache keeps its hands off.
    let list = setup.entry("shape:3");
    seawall
        .client()
        .send(list.as_bytes(), cmd("RPUSH").arg(&list).arg("x"))
        .await
        .expect("written");
    let read = new.get_or_load(&3, || async { found(4) }).await.expect("loaded past the cache");
    assert_eq!(read.value.as_deref(), Some(&4));
    let length: u64 = seawall
        .client()
        .query(list.as_bytes(), cmd("LLEN").arg(&list))
        .await
        .expect("still a list");
    assert_eq!(length, 1);
}

async fn a_busy_reader_does_as_it_was_told(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let holder: Cache<u64, u64> = one.cache("b").build().expect("defaults");
    let gate = Arc::new(Semaphore::new(0));
    let started = Arc::new(Semaphore::new(0));
    let load = {
        let (gate, started) = (Arc::clone(&gate), Arc::clone(&started));
        move || async move {
            started.add_permits(1);
            let _open = gate.acquire().await.expect("never closed");
            found(1)
        }
    };
    let holding = tokio::spawn(async move { holder.get_or_load(&1, load).await });
    let _began = started.acquire().await.expect("never closed");
    let budget = Duration::from_millis(20);
    let with = |policy| {
        two.cache::<u64, u64>("b")
            .wait_budget(budget)
            .when_busy(policy)
            .build()
            .expect("options agree")
    };
    let refused = with(WhenBusy::Refuse).get_or_load(&1, || async { found(2) }).await;
    assert!(matches!(refused, Err(CacheError::Busy)), "{refused:?}");
    let alone = with(WhenBusy::Load)
        .get_or_load(&1, || async { found(2) })
        .await
        .expect("loaded by itself");
    assert_eq!((alone.value.as_deref(), alone.version.0), (Some(&2), 0));
    let patient = with(WhenBusy::Wait);
    let waiting = tokio::spawn(async move { patient.get_or_load(&1, || async { found(2) }).await });
    gate.add_permits(1);
    assert_eq!(holding.await.expect("no panic").expect("loaded").value.as_deref(), Some(&1));
    assert_eq!(waiting.await.expect("no panic").expect("woken").value.as_deref(), Some(&1));
    let strong =
        with(WhenBusy::Wait).get_or_load_as(Freshness::Strong, &1, || async { found(3) }).await;
    assert_eq!(strong.expect("a hit").source, Source::Remote);
}

async fn strange_keys_are_keys_or_refused(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<Vec<u8>, u64> =
        seawall.cache("keys").local_max_bytes(0).build().expect("options agree");
    let keys: [&[u8]; 7] = [b"{", b"}{", b"{}", b"{a}b", b"a:b", b"\0\xff\r\n ", b"%7B"];
    for (value, key) in keys.iter().enumerate() {
        let value = value as u64;
        let read = cache
            .get_or_load(&key.to_vec(), move || async move { found(value) })
            .await
            .expect("loaded");
        assert_eq!(read.value.as_deref(), Some(&value));
    }
    for (value, key) in keys.iter().enumerate() {
        let read = cache.get(&key.to_vec()).await.expect("a hit").expect("there");
        assert_eq!(read.value.as_deref(), Some(&(value as u64)), "{key:?}");
    }
    for bad in [Vec::new(), vec![b'x'; 5000]] {
        let refused = cache.get_or_load(&bad, || async { found(0) }).await;
        assert!(
            matches!(refused, Err(CacheError::Redis(seawall::Error::Invalid(_)))),
            "{refused:?}"
        );
    }
}
