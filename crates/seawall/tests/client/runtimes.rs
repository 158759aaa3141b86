//! A handle that is used after its runtime has ended, or without one.

use std::{io, time::Duration};

use seawall::{
    Error, Seawall,
    cache::{Cache, CacheError, Loaded},
    cmd,
};
use tokio::runtime::Runtime;

const PATIENCE: Duration = Duration::from_secs(10);

async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| panic!("it hangs: {what}"))
}

fn outlived(url: &str) {
    let first = Runtime::new().expect("a runtime");
    let (seawall, cache) = first.block_on(async {
        let seawall = Seawall::connect(url).await.expect("connected");
        let cache: Cache<u64, u64> = seawall.cache("left").build().expect("defaults");
        let load = || async { Ok::<_, io::Error>(Loaded::Found(1)) };
        let _ = cache.get_or_load(&1, load).await.expect("loaded");
        (seawall, cache)
    });
    drop(first);
    Runtime::new().expect("a runtime").block_on(async {
        let client = seawall.client();
        for _ in 0..3 {
            let sent = in_time("a command", client.send(b"k", cmd("GET").arg("k"))).await;
            assert!(matches!(sent, Err(Error::Closed)), "{sent:?}");
        }
        let heard = in_time("a subscription", client.pubsub().subscribe(b"c", PATIENCE / 2)).await;
        assert!(matches!(heard, Err(Error::Closed)), "{heard:?}");
        let load = || async { Ok::<_, io::Error>(Loaded::Found(2)) };
        let read = in_time("a read", cache.get_or_load(&1, load)).await;
        assert!(matches!(read, Err(CacheError::Redis(Error::Closed))), "nobody listens: {read:?}");
        let gone = in_time("an invalidation", cache.invalidate(&1)).await;
        assert!(matches!(gone, Err(Error::Closed)), "{gone:?}");
        in_time("a shutdown", seawall.shutdown()).await;
    });
}

#[test]
fn a_handle_whose_runtime_ended_is_closed() {
    outlived("embedded:");
    let server = seawall_testkit::ServerProcess::redis().expect("it starts");
    outlived(&server.url());
}

/// The first runtime is there, but nobody drives it: whatever is asked elsewhere is answered in time.
#[test]
fn a_runtime_that_stands_still_holds_up_nobody_for_ever() {
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("one");
    let (seawall, cache) = first.block_on(async {
        let builder = Seawall::builder("embedded:").connect_timeout(Duration::from_millis(500));
        let builder = builder.response_timeout(Duration::from_millis(200));
        let seawall = builder.connect().await.expect("connected");
        let cache: Cache<u64, u64> = seawall.cache("still").build().expect("defaults");
        (seawall, cache)
    });
    Runtime::new().expect("a runtime").block_on(async {
        let client = seawall.client();
        let sent = in_time("a command", client.send(b"k", cmd("GET").arg("k"))).await;
        assert!(matches!(sent, Err(Error::Indeterminate { .. })), "{sent:?}");
        let load = || async { Ok::<_, io::Error>(Loaded::Found(2)) };
        let read = in_time("a read", cache.get_or_load(&1, load)).await;
        assert_eq!(read.expect("loaded without Redis").value.as_deref(), Some(&2));
        let gone = in_time("an invalidation", cache.invalidate(&1)).await;
        assert!(gone.is_ok(), "queued: {gone:?}");
    });
    first.block_on(seawall.shutdown());
}

#[test]
fn a_cache_needs_a_runtime_and_says_so() {
    let runtime = Runtime::new().expect("a runtime");
    let seawall = runtime.block_on(Seawall::connect("embedded:")).expect("connected");
    let error = seawall.cache::<u64, u64>("none").build().expect_err("no runtime here");
    assert!(error.to_string().contains("runtime"), "{error}");
    runtime.block_on(seawall.shutdown());
}
