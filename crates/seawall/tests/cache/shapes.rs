//! Releases side by side whose types differ: what they read and what they leave alone.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, Loaded, Source},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    without sentinel:
    a_type_that_moved_is_the_same
    a_changed_type_is_noticed
    an_older_release_reads_past_a_newer_one
}

mod cellar {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub(super) struct Price {
        pub(super) cents: u64,
    }
}

mod attic {
    #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
    pub(super) struct Price {
        pub(super) cents: u64,
    }
}

/// The same name with another meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Price {
    #[serde(default)]
    euros: u64,
}

fn build<V>(seawall: &Seawall, schema: u32) -> Cache<u64, V>
where
    V: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    seawall.cache("price").local_max_bytes(0).schema(schema).build().expect("options agree")
}

async fn a_type_that_moved_is_the_same(setup: Setup) {
    let seawall = setup.connect().await;
    let (old, new) = (build::<cellar::Price>(&seawall, 0), build::<attic::Price>(&seawall, 0));
    let loads = Arc::new(AtomicU64::new(0));
    for _ in 0..100 {
        let count = Arc::clone(&loads);
        let load = move || async move {
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, io::Error>(Loaded::Found(cellar::Price { cents: 250 }))
        };
        assert_eq!(old.get_or_load(&1, load).await.expect("a value").value.unwrap().cents, 250);
        let count = Arc::clone(&loads);
        let load = move || async move {
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, io::Error>(Loaded::Found(attic::Price { cents: 250 }))
        };
        assert_eq!(new.get_or_load(&1, load).await.expect("a value").value.unwrap().cents, 250);
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1, "the releases replace each other's entries");
}

async fn a_changed_type_is_noticed(setup: Setup) {
    let seawall = setup.connect().await;
    let (old, new) = (build::<cellar::Price>(&seawall, 0), build::<Price>(&seawall, 0));
    old.put(&1, &cellar::Price { cents: 250 }).await.expect("stored");
    assert!(new.get(&1).await.expect("an answer").is_none(), "cents were read as no euros");
    let load = || async { Ok::<_, io::Error>(Loaded::Found(Price { euros: 2 })) };
    let read = new.get_or_load(&1, load).await.expect("loaded");
    assert_eq!((read.value.as_deref(), read.source), (Some(&Price { euros: 2 }), Source::Loaded));
}

async fn an_older_release_reads_past_a_newer_one(setup: Setup) {
    let seawall = setup.connect().await;
    let (old, new) = (build::<cellar::Price>(&seawall, 1), build::<Price>(&seawall, 2));
    let loads = Arc::new(AtomicU64::new(0));
    let cents = || async { Ok::<_, io::Error>(Loaded::Found(cellar::Price { cents: 250 })) };
    assert!(old.get_or_load(&1, cents).await.is_ok());
    for round in 0..20 {
        // The newer one replaces what is older, once.
        let count = Arc::clone(&loads);
        let load = move || async move {
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, io::Error>(Loaded::Found(Price { euros: 2 }))
        };
        let read = new.get_or_load(&1, load).await.expect("a value");
        assert_eq!(read.value.as_deref(), Some(&Price { euros: 2 }));
        assert_eq!(read.source == Source::Loaded, round == 0);
        // The older one asks the source, singly and in batches.
        let read = old.get_or_load(&1, cents).await.expect("a value");
        assert_eq!(read.value.map(|price| price.cents), Some(250));
        let load = |keys: Vec<u64>| async move {
            Ok::<_, io::Error>(
                keys.into_iter().map(|k| (k, cellar::Price { cents: 250 })).collect(),
            )
        };
        let read = old.get_many(&[1], load).await.remove(0).expect("a value");
        assert_eq!(read.value.map(|price| price.cents), Some(250));
        assert!(old.get(&1).await.expect("an answer").is_none());
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1, "the older release replaced an entry");
    // With a first level the source is asked about once in `outage_ttl`.
    let kept: Cache<u64, cellar::Price> = seawall
        .cache("price")
        .schema(1)
        .outage_ttl(Duration::from_secs(600))
        .build()
        .expect("options agree");
    while kept.get_or_load(&1, cents).await.expect("a value").source != Source::Local {}
}
