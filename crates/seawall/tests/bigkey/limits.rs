//! No command moves more than 1 MB or 1,000 members: measured on the wire.

use std::{collections::HashMap, io};

use seawall::{
    Seawall,
    bigkey::{MAX_COMMAND_BYTES, MAX_COMMAND_MEMBERS},
    cache::Cache,
};
use seawall_testkit::ServerProcess;

use crate::{content::content, relay};

/// Lists have a few words before their members.
const WORDS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_moves_nothing_large_in_one_command() {
    let server = ServerProcess::redis().expect("a server");
    let (port, largest) = relay::start(server.port());
    let url = format!("redis://127.0.0.1:{port}");
    let seawall = Seawall::builder(&url).prefix("limits:").connect().await.expect("it answers");
    let cache: Cache<u64, String> =
        seawall.cache("large").level1_bytes(0).build().expect("options agree");
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
