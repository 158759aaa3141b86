//! An invalidation that comes while a hot entry is fetched or copied.

use std::time::{Duration, Instant};

use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, Source},
    cmd,
    hotkey::{HotRule, HotRules},
};
use seawall_testkit::{
    Cluster, Node, ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::finding::until;

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything is held.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn connect(url: &str) -> Seawall {
    Seawall::builder(url).response_timeout(TIMEOUT).connect().await.expect("it answers")
}

async fn value(cache: &Cache<u64, u64>, freshness: Freshness, newest: u64) -> u64 {
    let load = move || async move { Ok::<_, Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(freshness, &1, load).await.expect("an answer");
    read.value.as_deref().copied().expect("a value")
}

/// The reply to the fetch hangs until its process has heard of the invalidation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_fetched_before_an_invalidation_is_not_kept_after_it() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let (first, second) = (connect(&server.url()).await, connect(&proxy.url()).await);
    let build = |seawall: &Seawall| {
        let cache: Cache<u64, u64> =
            seawall.cache("race").hot_keys(HotRules::off()).build().expect("settings that agree");
        cache
    };
    let (one, other) = (build(&first), build(&second));
    one.put(&1, &10).await.expect("stored");
    one.put(&2, &20).await.expect("stored");
    until("the other holds the witness", async || {
        let _ = other.get(&2).await.expect("an answer");
        other.explain(&2).await.expect("a good key").local.is_some()
    })
    .await;
    let fetches = On::command("GET").when(|command| command[1] == b"race:1");
    let rule = proxy.hold_reply(fetches.once());
    first.hot_keys().declare(b"race:1", 60 * SECOND).await.expect("declared");
    until("the other fetches it", async || proxy.held() == 1).await;
    let done = one.invalidate_many(&[1, 2]).await.expect("good keys");
    assert!(matches!(done, Invalidation::Applied(_)));
    until("the other has heard", async || {
        // Without a copy the read itself waits, behind the reply that is held.
        let read = tokio::time::timeout(Duration::from_millis(50), other.get(&2)).await;
        !matches!(read, Ok(Ok(Some(read))) if read.source == Source::Local)
    })
    .await;
    proxy.remove(rule);
    // The fetch ends within a moment; what it leaves stays for 30 s.
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(500) {
        if other.explain(&1).await.expect("a good key").local.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let seen = value(&other, Freshness::Cached, 11).await;
    assert_eq!(seen, 11, "what was fetched before the invalidation was kept");
    second.shutdown().await;
    first.shutdown().await;
}

/// Two processes on a Cluster, without first levels, and a key that is read from copies.
struct Spread {
    handles: [Seawall; 2],
    caches: [Cache<u64, u64>; 2],
    cluster: Cluster,
}

impl Spread {
    async fn open() -> Self {
        let cluster = Cluster::builder().replicas_each(0).proxied().start().expect("a Cluster");
        let handles = [connect(&cluster.url()).await, connect(&cluster.url()).await];
        let rule = HotRule::new(50, 10 * SECOND).cool_for(600 * SECOND).copies_at(50);
        let caches = handles.each_ref().map(|seawall| {
            let builder = seawall.cache("copied").local_max_bytes(0).copies(2);
            builder.hot_keys(HotRules::all(rule.clone())).build().expect("settings that agree")
        });
        caches[0].put(&1, &10).await.expect("stored");
        let spread = Spread { handles, caches, cluster };
        until("reads are spread", async || {
            spread.read(10).await;
            let known = |seawall: &Seawall| seawall.hot_keys().find(b"copied:1");
            spread.handles.iter().all(|seawall| known(seawall).is_some_and(|hot| hot.spread))
        })
        .await;
        spread
    }

    /// Reads often enough to stay hot.
    async fn read(&self, newest: u64) {
        for _ in 0..30 {
            value(&self.caches[1], Freshness::Cached, newest).await;
        }
    }

    /// How many copies there are now.
    async fn copies(&self) -> usize {
        let commands = (0..200).map(|tag| {
            let name = format!("hot-copy:{{{tag}}}:copied:1").into_bytes();
            let mut length = cmd("STRLEN");
            length.arg(&name);
            (name, length)
        });
        let replies = self.handles[0].client().send_all(commands.collect()).await;
        // A lease alone is a header of 72 bytes.
        let long = |reply: &Result<seawall::Value, Error>| matches!(reply, Ok(seawall::Value::Int(length)) if *length > 72);
        replies.iter().filter(|reply| long(reply)).count()
    }

    /// Reads in both processes for this long, or until something older is seen.
    async fn sees_older_than(&self, newest: u64, limit: Duration) -> bool {
        let began = Instant::now();
        while began.elapsed() < limit {
            for cache in &self.caches {
                if value(cache, Freshness::Cached, newest).await < newest {
                    return true;
                }
                assert_eq!(value(cache, Freshness::Strong, newest).await, newest, "strong");
            }
        }
        false
    }

    fn proxies(&self) -> impl Iterator<Item = &FaultProxy> {
        self.cluster.nodes().iter().filter_map(Node::proxy)
    }

    async fn close(self) {
        for seawall in &self.handles {
            seawall.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_made_read_and_gone_with_the_entry() {
    let spread = Spread::open().await;
    for newest in 11..16 {
        until("there are two copies", async || {
            spread.read(newest - 1).await;
            spread.copies().await == 2
        })
        .await;
        let done = spread.caches[0].invalidate(&1).await.expect("a good key");
        assert!(matches!(done, Invalidation::Applied(_)));
        assert!(
            !spread.sees_older_than(newest, Duration::from_millis(300)).await,
            "a copy outlived {newest}"
        );
    }
    // A write that is no invalidation takes the copies along too.
    spread.caches[1].put(&1, &100).await.expect("stored");
    assert!(!spread.sees_older_than(100, Duration::from_millis(300)).await);
    spread.close().await;
}

/// The entry is invalidated after a copy's bytes were read and before they are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_comes_late_is_refused() {
    let spread = Spread::open().await;
    until("no copies are there", async || spread.copies().await == 0).await;
    // `copy.lua` is told the token, the entry and a lifetime, and nothing else of copies is.
    let stores = |command: &[Vec<u8>]| command.len() == 7 && command[3].starts_with(b"hot-copy:");
    for proxy in spread.proxies() {
        proxy.hold_request(On::command("EVALSHA").when(stores));
    }
    let reads = async {
        loop {
            spread.read(10).await;
        }
    };
    let held =
        until("a copy is being made", async || spread.proxies().any(|proxy| proxy.held() > 0));
    tokio::select! {
        () = held => {}
        // Who reads from where a copy is held waits.
        () = reads => {}
    }
    let done = spread.caches[0].invalidate(&1).await.expect("a good key");
    assert!(matches!(done, Invalidation::Applied(_)));
    assert_eq!(value(&spread.caches[0], Freshness::Strong, 20).await, 20);
    spread.proxies().for_each(FaultProxy::heal);
    assert!(!spread.sees_older_than(20, SECOND).await, "a late copy was stored");
    spread.close().await;
}
