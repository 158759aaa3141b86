//! A value of 20 MB that is replaced while eight tasks read it: all of one version, or nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use seawall::{Seawall, cache::Cache, cmd};
use seawall_testkit::{
    ServerProcess,
    backend::Backend,
    proxy::{FaultProxy, On},
};

use crate::{
    content::{content, version_of},
    keyspace::keys,
    setup::Setup,
};

const READERS: usize = 8;
const SIZE: usize = 20 << 20;

/// What the readers saw.
#[derive(Debug, Default)]
struct Seen {
    whole: u64,
    missing: u64,
    torn: Vec<String>,
    backwards: u64,
}

/// Readers at work until they are told to stop.
struct Readers {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<Seen>>,
}

impl Readers {
    fn start(cache: &Cache<u64, String>) -> Self {
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let tasks = (0..READERS).map(|_| {
            let (cache, stop, reads) = (cache.clone(), Arc::clone(&stop), Arc::clone(&reads));
            tokio::spawn(async move {
                let (mut seen, mut last) = (Seen::default(), 0);
                while !stop.load(Ordering::SeqCst) {
                    let read = cache.get(&7).await;
                    reads.fetch_add(1, Ordering::SeqCst);
                    let Ok(Some(read)) = read else {
                        seen.missing += 1;
                        tokio::task::yield_now().await;
                        continue;
                    };
                    match version_of(read.value.as_deref().expect("values only")) {
                        Ok(version) => {
                            seen.whole += 1;
                            seen.backwards += u64::from(version < last);
                            last = version;
                        }
                        Err(why) => seen.torn.push(why),
                    }
                }
                seen
            })
        });
        let tasks = tasks.collect();
        Readers { stop, reads, tasks }
    }

    /// Waits for so many more reads.
    async fn after(&self, more: u64) {
        let wanted = self.reads.load(Ordering::SeqCst) + more;
        while self.reads.load(Ordering::SeqCst) < wanted {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn end(self) -> Seen {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Seen::default();
        for task in self.tasks {
            let seen = task.await.expect("no panic");
            all.whole += seen.whole;
            all.missing += seen.missing;
            all.torn.extend(seen.torn);
            all.backwards += seen.backwards;
        }
        all
    }
}

fn cache(seawall: &Seawall) -> Cache<u64, String> {
    seawall.cache("huge").local_max_bytes(0).build().expect("options agree")
}

async fn replaced_while_it_is_read(backend: Backend) {
    let setup = Setup::new(backend, "replaced");
    let seawall = setup.connect().await;
    let cache = cache(&seawall);
    cache.put(&7, &content(1, SIZE)).await.expect("stored");
    let readers = Readers::start(&cache);
    for version in 2..5 {
        readers.after(2).await;
        cache.put(&7, &content(version, SIZE)).await.expect("stored");
    }
    readers.after(READERS as u64 / 2).await;
    let seen = readers.end().await;
    assert!(seen.torn.is_empty() && seen.backwards == 0, "{seen:?}");
    assert_eq!(seen.missing, 0, "old parts outlive their manifest: {seen:?}");
    let last = cache.get(&7).await.expect("answered").expect("it is there").value;
    assert_eq!(version_of(last.as_deref().expect("a value")), Ok(4));
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_20_mb_is_never_torn_embedded() {
    replaced_while_it_is_read(Backend::Embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_20_mb_is_never_torn_redis() {
    replaced_while_it_is_read(Backend::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_of_20_mb_is_never_torn_cluster() {
    replaced_while_it_is_read(Backend::Cluster).await;
}

/// A smaller value in smaller parts, replaced more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_in_small_parts_is_never_torn() {
    let setup = Setup::new(Backend::Redis, "small");
    let seawall = setup.connect().await;
    let builder = seawall.cache("huge").local_max_bytes(0).split_above_bytes(50_000);
    let cache: Cache<u64, String> = builder.build().expect("options agree");
    cache.put(&7, &content(1, 1 << 20)).await.expect("stored");
    let readers = Readers::start(&cache);
    for version in 2..30 {
        readers.after(4).await;
        cache.put(&7, &content(version, 1 << 20)).await.expect("stored");
    }
    let seen = readers.end().await;
    assert!(seen.torn.is_empty(), "half of a value was read: {seen:?}");
    assert_eq!(seen.backwards, 0, "{seen:?}");
    assert_eq!(seen.missing, 0, "a value that was there was not to be had: {seen:?}");
    seawall.shutdown().await;
}

/// Parts vanish, replies are lost and writers die in the middle: readers get all or nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_make_misses_but_no_torn_values() {
    const SIZE: usize = 2 << 20;
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a port");
    let connect = async |url: String| {
        let builder = Seawall::builder(&url).prefix("faults:");
        builder.response_timeout(Duration::from_secs(20)).connect().await.expect("it answers")
    };
    let (reading, writing) = (connect(server.url()).await, connect(proxy.url()).await);
    let build = |seawall: &Seawall| -> Cache<u64, String> {
        let builder = seawall.cache("huge").local_max_bytes(0).split_above_bytes(100_000);
        builder.build().expect("options agree")
    };
    let (reader, writer) = (build(&reading), build(&writing));
    writer.put(&7, &content(1, SIZE)).await.expect("stored");
    let readers = Readers::start(&reader);
    for version in 2..32_u64 {
        readers.after(4).await;
        let value = content(version, SIZE);
        match version % 5 {
            // A reply to a part, or to the manifest, is lost.
            0 => _ = proxy.drop_reply(On::command("SET").nth(version % 7 + 1)),
            1 => _ = proxy.drop_reply(On::command("EVALSHA").once()),
            // The writer dies in the middle.
            2 => {
                let put = writer.put(&7, &value);
                let _ = tokio::time::timeout(Duration::from_millis(version % 9), put).await;
                continue;
            }
            // A part is evicted.
            3 => {
                let parts = keys(&reading, "faults:cache-part:*").await;
                let part = &parts[version as usize % parts.len()];
                let unlink = cmd("UNLINK").arg(part).to_owned();
                reading.client().send(part.as_bytes(), &unlink).await.expect("gone");
            }
            _ => {}
        }
        // Whether it was stored is not always known; it never is by half.
        let _ = writer.put(&7, &value).await;
    }
    let seen = readers.end().await;
    assert!(seen.torn.is_empty(), "{seen:?}");
    assert!(seen.whole > 0, "{seen:?}");
    proxy.heal();
    let started = std::time::Instant::now();
    while let Err(error) = writer.put(&7, &content(99, SIZE)).await {
        // The breaker lets a probe through once in a while.
        assert!(started.elapsed() < Duration::from_secs(60), "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let last = reader.get(&7).await.expect("answered").expect("it is there").value;
    assert_eq!(version_of(last.as_deref().expect("a value")), Ok(99));
    // Whoever died, whatever was lost: every part has an end.
    for part in keys(&reading, "faults:cache-part:*").await {
        let left: i64 =
            reading.client().query(part.as_bytes(), cmd("PTTL").arg(&part)).await.expect("asked");
        assert!(left > 0 || left == -2, "{part} ends in {left}");
    }
    writing.shutdown().await;
    reading.shutdown().await;
}
