//! No command moves more than 1 MB or 1,000 members: measured on the wire.

use std::{collections::HashMap, io, time::Duration};

use seawall::{
    Seawall,
    bigkey::{Cursor, MAX_COMMAND_BYTES, MAX_COMMAND_MEMBERS, Order, Place},
    cache::Cache,
};
use seawall_testkit::ServerProcess;

use crate::{content::content, relay};

/// Lists have a few words before their members.
const WORDS: usize = 16;

/// The relay reads everything twice: it may take its time.
async fn connect(port: u16) -> Seawall {
    let builder = Seawall::builder(&format!("redis://127.0.0.1:{port}")).prefix("limits:");
    builder.response_timeout(Duration::from_secs(20)).connect().await.expect("it answers")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_moves_nothing_large_in_one_command() {
    let server = ServerProcess::redis().expect("a server");
    let (port, largest) = relay::start(server.port());
    let seawall = connect(port).await;
    let cache: Cache<u64, String> =
        seawall.cache("large").local_max_bytes(0).build().expect("options agree");
    // From far below the size at which values are cut to far above it.
    let size = |key: u64| 500 << (key % 15);
    let keys: Vec<u64> = (0..60).collect();
    let load = move |keys: Vec<u64>| async move {
        let all = keys.into_iter().map(|key| (key, content(key, size(key))));
        Ok::<_, io::Error>(all.collect::<HashMap<_, _>>())
    };
    for _ in 0..2 {
        for read in cache.get_many(&keys, load).await {
            assert!(read.expect("an answer").value.is_some());
        }
    }
    cache.put(&0, &content(0, 8 << 20)).await.expect("stored");
    assert!(cache.get(&0).await.expect("answered").is_some());
    let many: Vec<u64> = (0..5000).collect();
    let _ = cache.invalidate_many(&many).await.expect("keys");
    assert!(largest.bytes() > 500_000, "it does measure: {largest:?}");
    assert!(largest.bytes() <= MAX_COMMAND_BYTES, "{largest:?}");
    assert!(largest.items() <= MAX_COMMAND_MEMBERS + WORDS, "{largest:?}");
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collections_move_nothing_large_in_one_command() {
    let server = ServerProcess::redis().expect("a server");
    let (port, largest) = relay::start(server.port());
    let seawall = connect(port).await;

    // Large values, and many small ones, all at once.
    let hash = seawall.bucketed_hash::<u64, String>("large", 1).expect("a name");
    let items: Vec<(u64, String)> =
        (0..5000).map(|n| (n, content(n, if n % 50 == 0 { 60_000 } else { 30 }))).collect();
    hash.set_many(&items).await.expect("set");
    let fields: Vec<u64> = (0..5000).collect();
    let values = hash.get_many(&fields).await.expect("read");
    assert!(values.iter().zip(&items).all(|(value, (_, item))| value.as_ref() == Some(item)));
    let (mut seen, mut cursor) = (0, Some(Cursor::start()));
    while let Some(at) = cursor {
        let (page, next) = hash.scan(&at).await.expect("scanned");
        seen += page.len();
        cursor = next;
    }
    assert!(seen >= 5000, "{seen}");
    hash.grow(4, |_| {}).await.expect("grown");
    assert_eq!(hash.remove_all().await.expect("removed"), 5000);

    let set = seawall.bucketed_sorted_set::<String>("large", 2).expect("a name");
    let places: Vec<Place<String>> = (0..3000_u32)
        .map(|n| Place { score: f64::from(n), member: content(n.into(), 3900) })
        .collect();
    set.add(&places).await.expect("added");
    assert_eq!(set.first(Order::Rising, 200).await.expect("read").len(), 200);
    set.grow(4, |_| {}).await.expect("grown");
    set.remove_all().await.expect("removed");

    let list = seawall.bucketed_list::<String>("large").expect("a name");
    for n in 0..100 {
        list.push_back(&content(n, 50_000)).await.expect("pushed");
    }
    let some = list.range(0, 100).await.expect("read");
    assert!(!some.is_empty() && some.len() < 100, "as many as may be moved: {}", some.len());
    list.remove_all().await.expect("removed");

    assert!(largest.bytes() > 100_000, "it does measure: {largest:?}");
    assert!(largest.bytes() <= MAX_COMMAND_BYTES, "{largest:?}");
    // A member may come with its value.
    assert!(largest.items() <= 2 * MAX_COMMAND_MEMBERS + WORDS, "{largest:?}");
    seawall.shutdown().await;
}
