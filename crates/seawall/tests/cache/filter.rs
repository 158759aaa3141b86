//! The filter: what cannot exist costs nothing, what exists is never said to be missing.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use seawall::cache::{Cache, Freshness, KeyFilter, KeySink, Loaded, Source};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    what_cannot_exist_is_not_asked_for
    what_is_created_becomes_known_everywhere
}

type Table = Arc<Mutex<BTreeSet<u64>>>;

fn rows(keys: impl IntoIterator<Item = u64>) -> Table {
    Arc::new(Mutex::new(keys.into_iter().collect()))
}

fn filter_of(table: &Table) -> KeyFilter<u64> {
    let table = Arc::clone(table);
    KeyFilter::new(1000, move |sink: KeySink<u64>| {
        let table = Arc::clone(&table);
        async move {
            table.lock().expect("no panic holds it").iter().for_each(|id| sink.add(id));
            Ok::<_, io::Error>(())
        }
    })
}

async fn read(cache: &Cache<u64, u64>, table: &Table, key: u64) -> (Option<u64>, Source) {
    let table = Arc::clone(table);
    let load = move || async move {
        let found = table.lock().expect("no panic holds it").contains(&key);
        Ok::<_, io::Error>(Loaded::from(found.then_some(key)))
    };
    let read = cache.get_or_load(&key, load).await.expect("an answer");
    (read.value.as_deref().copied(), read.source)
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within five seconds: {what}");
}

async fn what_cannot_exist_is_not_asked_for(setup: Setup) {
    let seawall = setup.connect().await;
    let table = rows(0..100);
    let cache: Cache<u64, u64> = seawall
        .cache("f")
        .local_max_bytes(0)
        .filter(filter_of(&table))
        .build()
        .expect("options agree");
    cache.filter_ready().await;
    let status = cache.filter_status().expect("it has one");
    assert!(status.certain && status.version == 1 && status.keys == 100, "{status:?}");
    assert!(status.false_positives < 0.01, "{status:?}");
    for key in 0..100 {
        assert_eq!(read(&cache, &table, key).await.0, Some(key), "no false missing");
    }
    let mut filtered = 0;
    for key in 1000..1500 {
        let (value, source) = read(&cache, &table, key).await;
        assert_eq!(value, None);
        filtered += u32::from(source == Source::Filtered);
    }
    assert!(filtered > 450, "{filtered} of 500");
    let load = |keys: Vec<u64>| async {
        Ok::<_, io::Error>(
            keys.into_iter().filter(|key| *key < 100).map(|key| (key, key)).collect(),
        )
    };
    let many = cache.get_many(&[1, 2_000_001, 2], load).await;
    let values: Vec<Option<u64>> =
        many.into_iter().map(|read| read.expect("an answer").value.as_deref().copied()).collect();
    assert_eq!(values, [Some(1), None, Some(2)]);
    // A strong read passes it by: the row may be a microsecond old.
    table.lock().expect("no panic holds it").insert(5000);
    let strong = cache
        .get_or_load_as(Freshness::Strong, &5000, || async {
            Ok::<_, io::Error>(Loaded::Found(5000))
        })
        .await
        .expect("an answer");
    assert_eq!(strong.value.as_deref(), Some(&5000));
    assert_eq!(read(&cache, &table, 5000).await.0, Some(5000), "and is remembered");
    seawall.shutdown().await;
}

async fn what_is_created_becomes_known_everywhere(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let table = rows(0..10);
    let build = |seawall: &seawall::Seawall| -> Cache<u64, u64> {
        seawall.cache("g").clearable().filter(filter_of(&table)).build().expect("options agree")
    };
    let (first, second) = (build(&one), build(&two));
    first.filter_ready().await;
    second.filter_ready().await;
    assert_eq!(read(&second, &table, 77).await, (None, Source::Filtered));
    let written = first
        .write(&77, async {
            table.lock().expect("no panic holds it").insert(77);
            Ok::<_, io::Error>(())
        })
        .await;
    assert!(written.is_ok());
    assert_eq!(read(&first, &table, 77).await.0, Some(77), "here at once");
    until("there", async || read(&second, &table, 77).await.0 == Some(77)).await;
    // After an import and a clear everything passes, then a new filter knows the new rows.
    table.lock().expect("no panic holds it").extend(100..200);
    first.clear().await.expect("cleared");
    for key in 100..200 {
        assert_eq!(read(&first, &table, key).await.0, Some(key));
    }
    until("a new filter", async || {
        second.filter_status().is_some_and(|status| status.certain && status.keys >= 111)
    })
    .await;
    for key in 100..200 {
        assert_eq!(read(&second, &table, key).await.0, Some(key));
    }
    // What is gone leaves with the next build.
    table.lock().expect("no panic holds it").remove(&150);
    let _ = first.invalidate(&150).await.expect("a good key");
    // A build that began before the announcement came back knows the key once more.
    until("filtered", async || {
        first.rebuild_filter().expect("it has one");
        read(&first, &table, 150).await.1 == Source::Filtered
    })
    .await;
    one.shutdown().await;
    two.shutdown().await;
}

#[tokio::test]
async fn without_redis_everything_passes_and_a_failing_source_is_tried_again() {
    let test_server = seawall::testing::TestServer::start().await.expect("an engine");
    let table = rows(0..10);
    let failures = Arc::new(std::sync::atomic::AtomicU64::new(1));
    let source = Arc::clone(&table);
    let filter = KeyFilter::new(100, move |sink: KeySink<u64>| {
        let (table, failures) = (Arc::clone(&source), Arc::clone(&failures));
        async move {
            if failures.swap(0, std::sync::atomic::Ordering::SeqCst) > 0 {
                return Err(io::Error::other("the database is away"));
            }
            table.lock().expect("no panic holds it").iter().for_each(|id| sink.add(id));
            Ok(())
        }
    });
    let cache: Cache<u64, u64> =
        test_server.seawall().cache("h").filter(filter).build().expect("options agree");
    let certain = || cache.filter_status().is_some_and(|status| status.certain);
    until("built at the second try", async || {
        test_server.advance(Duration::from_millis(100)).await;
        certain()
    })
    .await;
    assert_eq!(read(&cache, &table, 77).await, (None, Source::Filtered));
    test_server.faults().begin_outage();
    test_server.advance(Duration::from_secs(2)).await;
    assert!(!certain());
    table.lock().expect("no panic holds it").insert(77);
    assert_eq!(read(&cache, &table, 77).await.0, Some(77), "nobody could have told us");
    test_server.shutdown().await;
}

/// A panic is a failure like any other: the next build makes up for it.
#[tokio::test]
async fn a_source_that_panics_is_tried_again() {
    let test_server = seawall::testing::TestServer::start().await.expect("an engine");
    let builds = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&builds);
    let filter = KeyFilter::new(100, move |sink: KeySink<u64>| {
        let build = counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        // Before there is a future, and while it runs.
        assert_ne!(build, 0, "the first build panics");
        async move {
            tokio::task::yield_now().await;
            assert_ne!(build, 1, "the second build panics");
            (0..build).for_each(|id| sink.add(&id));
            Ok::<_, io::Error>(())
        }
    });
    let cache: Cache<u64, u64> =
        test_server.seawall().cache("p").filter(filter).build().expect("options agree");
    until("built at the third try", async || {
        test_server.advance(Duration::from_millis(200)).await;
        cache.filter_status().is_some_and(|status| status.certain)
    })
    .await;
    assert_eq!(read(&cache, &rows([]), 77).await, (None, Source::Filtered));
    assert_eq!(builds.load(std::sync::atomic::Ordering::SeqCst), 3);
    test_server.shutdown().await;
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    let seawall = seawall::Seawall::connect("embedded:").await.expect("an engine");
    let table = rows([]);
    let sized = |keys| KeyFilter::new(keys, |_: KeySink<u64>| async { Ok::<_, io::Error>(()) });
    for (filter, word) in [
        (sized(0), "expected_items"),
        (sized(1_000_000_000_000), "1024 MiB"),
        (sized(usize::MAX), "1024 MiB"),
        (filter_of(&table).false_positives(0.0), "false_positives"),
        (filter_of(&table).false_positives(f64::NAN), "false_positives"),
        (filter_of(&table).rebuild_every(Duration::ZERO), "rebuild_every"),
    ] {
        let refused = seawall.cache::<u64, u64>("x").filter(filter).build();
        assert!(refused.expect_err("refused").to_string().contains(word), "{word}");
    }
    let plain: Cache<u64, u64> = seawall.cache("plain").build().expect("defaults");
    assert!(plain.rebuild_filter().is_err());
    assert!(plain.filter_status().is_none());
    plain.filter_ready().await;
    seawall.shutdown().await;
}
