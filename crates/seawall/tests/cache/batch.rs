//! Many keys at once.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::cache::{Cache, CacheError, Source};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_batch_is_one_load_of_what_is_missing
    two_batches_at_once_load_each_key_once
    a_failed_batch_fails_only_what_it_loaded
    a_repeated_key_is_loaded_once
}

async fn a_batch_is_one_load_of_what_is_missing(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("many").build().expect("defaults");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let load = {
        let asked = Arc::clone(&asked);
        move |keys: Vec<u64>| {
            asked.lock().expect("no panic").push(keys.clone());
            async move {
                let even = keys.into_iter().filter(|key| key % 2 == 0);
                Ok::<_, io::Error>(even.map(|key| (key, key * 10)).collect::<HashMap<_, _>>())
            }
        }
    };
    let keys: Vec<u64> = (0..100).collect();
    for (round, source) in [(0, Source::Loaded), (1, Source::Local)] {
        let reads = cache.get_many(&keys, load.clone()).await;
        for (key, read) in keys.iter().zip(reads) {
            let read = read.expect("an answer");
            assert_eq!(
                read.value.as_deref().copied(),
                (key % 2 == 0).then_some(key * 10),
                "round {round}"
            );
            assert!(
                read.source == source || (round == 1 && read.source == Source::Remote),
                "{:?}",
                read.source
            );
        }
    }
    let more: Vec<u64> = (90..110).collect();
    assert!(cache.get_many(&more, load).await.into_iter().all(|read| read.is_ok()));
    let asked = asked.lock().expect("no panic");
    assert_eq!(asked.len(), 2, "one call for each batch that missed something");
    assert_eq!(asked[0], keys);
    assert_eq!(asked[1], (100..110).collect::<Vec<u64>>());
}

async fn two_batches_at_once_load_each_key_once(setup: Setup) {
    let loads: Arc<Vec<AtomicU64>> = Arc::new((0..60).map(|_| AtomicU64::new(0)).collect());
    let mut batches = tokio::task::JoinSet::new();
    let mut handles = Vec::new();
    for start in [0, 10, 20] {
        let seawall = setup.connect().await;
        let cache: Cache<u64, u64> = seawall.cache("overlap").build().expect("defaults");
        handles.push(seawall);
        let loads = Arc::clone(&loads);
        batches.spawn(async move {
            let keys: Vec<u64> = (start..start + 40).collect();
            let load = move |keys: Vec<u64>| {
                let loads = Arc::clone(&loads);
                async move {
                    keys.iter()
                        .for_each(|&key| _ = loads[key as usize].fetch_add(1, Ordering::SeqCst));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    Ok::<_, io::Error>(keys.into_iter().map(|key| (key, key)).collect())
                }
            };
            let reads = cache.get_many(&keys, load).await;
            for (key, read) in keys.iter().zip(reads) {
                assert_eq!(read.expect("an answer").value.as_deref(), Some(key));
            }
        });
    }
    while let Some(done) = batches.join_next().await {
        done.expect("no panic");
    }
    assert!(loads.iter().all(|count| count.load(Ordering::SeqCst) == 1), "{loads:?}");
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}

async fn a_failed_batch_fails_only_what_it_loaded(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("partial").build().expect("defaults");
    let good = |keys: Vec<u64>| async {
        Ok::<_, io::Error>(keys.into_iter().map(|key| (key, key)).collect())
    };
    assert!(cache.get_many(&[1, 2], good).await.into_iter().all(|read| read.is_ok()));
    let bad = |_: Vec<u64>| async { Err::<HashMap<u64, u64>, _>(io::Error::other("down")) };
    let reads = cache.get_many(&[1, 3, 2, 4], bad).await;
    assert!(reads[0].is_ok() && reads[2].is_ok());
    assert!(
        matches!(reads[1], Err(CacheError::Load(_)))
            && matches!(reads[3], Err(CacheError::Load(_)))
    );
    // No lease was left lying.
    assert!(cache.get_many(&[3, 4], good).await.into_iter().all(|read| read.is_ok()));
}

async fn a_repeated_key_is_loaded_once(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, u64> = seawall.cache("twice").build().expect("defaults");
    let asked = Arc::new(Mutex::new(Vec::new()));
    for fails in [true, false] {
        let calls = Arc::clone(&asked);
        let load = move |keys: Vec<u64>| {
            calls.lock().expect("no panic").push(keys.clone());
            async move {
                let found: HashMap<u64, u64> =
                    keys.into_iter().map(|key| (key, key * 10)).collect();
                if fails { Err(io::Error::other("down")) } else { Ok(found) }
            }
        };
        let keys = [1, 2, 1, 3, 2, 1];
        let reads = cache.get_many(&keys, load).await;
        for (key, read) in keys.iter().zip(reads) {
            match read {
                Ok(read) => assert_eq!(read.value.as_deref(), Some(&(key * 10))),
                Err(error) => assert!(fails && matches!(error, CacheError::Load(_)), "{error}"),
            }
        }
        assert_eq!(asked.lock().expect("no panic").drain(..).collect::<Vec<_>>(), [[1, 2, 3]]);
    }
}
