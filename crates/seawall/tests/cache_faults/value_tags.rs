//! A tag that values carry is cleared while such a value is under way: whatever path it takes, readers
//! that begin after the clear do not get it.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, CacheBuilder, CacheError, Freshness, Loaded, Read, RemoteState, Source},
};
use seawall_testkit::proxy::{Direction, On};
use tokio::{sync::Semaphore, task::JoinHandle};

use crate::{eventually::eventually, faults::Ground};

const LONG: Duration = Duration::from_secs(600);
const OLD: u64 = 1;
const NEW: u64 = 2;

/// The values of all keys carry the tag.
fn builder(seawall: &Seawall) -> CacheBuilder<u64, u64> {
    let builder = seawall.cache("tagged").ttl(LONG).local_ttl(LONG);
    builder.value_tags(|_| vec!["all".to_owned()])
}

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    builder(seawall).build().expect("options agree")
}

async fn connect(ground: &Ground) -> Seawall {
    let builder = Seawall::builder(&ground.url()).response_timeout(Duration::from_secs(20));
    builder.connect().await.expect("connected")
}

async fn seen(cache: &Cache<u64, u64>, freshness: Freshness, key: u64) -> Option<u64> {
    let load = || async { Ok::<_, io::Error>(NEW) };
    let read = cache.get_or_load_as(freshness, &key, load).await.expect("an answer");
    read.value.as_deref().copied()
}

/// What no reader gets from now on, here and elsewhere.
async fn nothing_old_is_left(caches: &[&Cache<u64, u64>], key: u64) {
    for freshness in [Freshness::Strong, Freshness::Cached] {
        for cache in caches {
            assert_eq!(seen(cache, freshness, key).await, Some(NEW), "{freshness:?}");
        }
    }
}

/// Work that stops at a gate until it is told to go on.
struct Gate {
    began: Arc<Semaphore>,
    opens: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Gate { began: Arc::new(Semaphore::new(0)), opens: Arc::new(Semaphore::new(0)) }
    }

    /// A loader that has read the old row and waits before it returns it.
    fn loader<T: Send + 'static>(
        &self,
        found: T,
    ) -> impl FnOnce() -> futures_util::future::BoxFuture<'static, io::Result<T>> + Send + use<T>
    {
        let (began, opens) = (Arc::clone(&self.began), Arc::clone(&self.opens));
        move || {
            Box::pin(async move {
                began.add_permits(1);
                opens.acquire().await.expect("never closed").forget();
                Ok(found)
            })
        }
    }

    async fn reached(&self) {
        self.began.acquire().await.expect("never closed").forget();
    }

    fn open(&self) {
        self.opens.add_permits(1);
    }
}

type Reading = JoinHandle<Result<Read<u64>, CacheError>>;

/// A read whose load is at the gate.
async fn held(
    cache: &Cache<u64, u64>,
    freshness: Freshness,
    found: Loaded<u64>,
) -> (Gate, Reading) {
    let (gate, cache) = (Gate::new(), cache.clone());
    let load = gate.loader(found);
    let reading =
        tokio::spawn(async move { cache.get_or_revalidate(freshness, &1, move |_| load()).await });
    gate.reached().await;
    (gate, reading)
}

/// A load that began before the clear, readers here and elsewhere that wait for it, and those who come
/// later.
async fn a_load(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let (here, there) = (build(&one), build(&two));
    let (gate, reading) = held(&here, Freshness::Cached, Loaded::Found(OLD)).await;
    there.clear_tag("all").await.expect("cleared");
    let late = [&here, &there].map(|cache| {
        let cache = cache.clone();
        tokio::spawn(async move { seen(&cache, Freshness::Strong, 1).await })
    });
    eventually("one waits for the load that could deceive it", async || {
        let said = here.explain(&1).await.expect("an answer");
        matches!(said.remote, RemoteState::Entry(entry) if entry.awaited)
    })
    .await;
    gate.open();
    let read = reading.await.expect("no panic").expect("an answer");
    assert_eq!(read.value.as_deref(), Some(&OLD), "it began before");
    for late in late {
        assert_eq!(late.await.expect("no panic"), Some(NEW), "it began after the clear");
    }
    nothing_old_is_left(&[&here, &there], 1).await;
    one.shutdown().await;
    two.shutdown().await;
}

/// The same without readers that wait: both levels alone. The clear is this process' own.
async fn a_fill(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let (here, there) = (build(&one), build(&two));
    let (gate, reading) = held(&here, Freshness::Cached, Loaded::Found(OLD)).await;
    here.clear_tag("all").await.expect("cleared");
    gate.open();
    let _ = reading.await.expect("no panic").expect("an answer");
    assert_ne!(
        here.get(&1).await.expect("an answer").and_then(|read| read.value.as_deref().copied()),
        Some(OLD),
        "the first level"
    );
    nothing_old_is_left(&[&here, &there], 1).await;
    one.shutdown().await;
    two.shutdown().await;
}

/// A source that says "not modified" about a value that was cleared meanwhile.
async fn a_value_made_fresh_again(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let build = |seawall: &Seawall| -> Cache<u64, u64> {
        let builder = builder(seawall).local_max_bytes(0).jitter(0.0);
        builder.ttl(Duration::from_secs(2)).max_stale(LONG).build().expect("options agree")
    };
    let (here, there) = (build(&one), build(&two));
    let load = || async { Ok::<_, io::Error>(Loaded::FoundFor(OLD, Duration::from_millis(1))) };
    let _ = here.get_or_load(&1, load).await.expect("loaded");
    eventually("it is past its lifetime, by the server's clock too", async || {
        let fails = || async { Err::<u64, _>(io::Error::other("down")) };
        here.get_or_load_as(Freshness::Strong, &1, fails).await.is_err()
    })
    .await;
    let (gate, reading) = held(&here, Freshness::Strong, Loaded::NotModified).await;
    there.clear_tag("all").await.expect("cleared");
    gate.open();
    let _ = reading.await.expect("no panic").expect("an answer");
    nothing_old_is_left(&[&here, &there], 1).await;
    one.shutdown().await;
    two.shutdown().await;
}

/// A batch that began before the clear.
async fn a_batch(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let (here, there) = (build(&one), build(&two));
    let keys: Vec<u64> = (1..=5).collect();
    let (gate, cache) = (Arc::new(Gate::new()), here.clone());
    let reading = tokio::spawn({
        let (gate, keys) = (Arc::clone(&gate), keys.clone());
        async move {
            let load = move |keys: Vec<u64>| {
                let found: HashMap<u64, u64> = keys.into_iter().map(|key| (key, OLD)).collect();
                gate.loader(found)()
            };
            cache.get_many(&keys, load).await
        }
    });
    gate.reached().await;
    here.clear_tag("all").await.expect("cleared");
    gate.open();
    assert!(reading.await.expect("no panic").iter().all(Result::is_ok));
    let new = |keys: Vec<u64>| async move {
        Ok::<_, io::Error>(keys.into_iter().map(|key| (key, NEW)).collect::<HashMap<_, _>>())
    };
    for read in here.get_many(&keys, new).await {
        assert_eq!(read.expect("an answer").value.as_deref(), Some(&NEW));
    }
    for key in keys {
        nothing_old_is_left(&[&here, &there], key).await;
    }
    one.shutdown().await;
    two.shutdown().await;
}

/// A put that has begun, whose value comes to Redis after the clear.
async fn a_put(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let (here, there) = (build(&one), build(&two));
    // So that the servers know the scripts.
    here.put(&1, &0).await.expect("stored");
    let held = || ground.proxies().iter().map(|proxy| proxy.held()).sum::<usize>();
    for proxy in ground.proxies() {
        // The first request takes the lease, the second one stores.
        let stores =
            |command: &[Vec<u8>]| command.iter().any(|word| word == b"cache-wake:tagged:1");
        proxy.hold_request(On::command("EVALSHA").key_prefix("tagged:").when(stores).once());
    }
    let putting = tokio::spawn({
        let here = here.clone();
        async move { here.put(&1, &OLD).await }
    });
    eventually("its second request is under way", async || held() == 1).await;
    there.clear_tag("all").await.expect("cleared");
    ground.heal();
    putting.await.expect("no panic").expect("stored");
    nothing_old_is_left(&[&here, &there], 1).await;
    one.shutdown().await;
    two.shutdown().await;
}

/// A clear whose reply is lost is done all the same, soon.
async fn a_lost_reply(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let (here, there) = (build(&one), build(&two));
    for lost in [Direction::Replies, Direction::Requests] {
        here.clear_tag("none").await.expect("the servers know the script");
        let _ = here.invalidate(&1).await.expect("a good key");
        let load = || async { Ok::<_, io::Error>(OLD) };
        for cache in [&here, &there] {
            let read = cache.get_or_load_as(Freshness::Strong, &1, load).await.expect("loaded");
            assert_eq!(read.value.as_deref(), Some(&OLD));
        }
        for proxy in ground.proxies() {
            let clears = On::command("EVALSHA").key_prefix("cache-clears:").once();
            match lost {
                Direction::Replies => proxy.drop_reply(clears),
                _ => proxy.drop_request(clears),
            };
        }
        let done = here.clear_tag("all").await;
        assert!(done.is_err_and(|error| error.is_indeterminate()), "{lost:?}");
        ground.heal();
        for cache in [&here, &there] {
            eventually("the recovery queue clears it once more", async || {
                seen(cache, Freshness::Cached, 1).await == Some(NEW)
            })
            .await;
        }
        nothing_old_is_left(&[&here, &there], 1).await;
    }
    one.shutdown().await;
    two.shutdown().await;
}

/// The message of a clear does not come: the first level of another process notices.
async fn a_lost_message(ground: &Ground) {
    let (one, two) = (connect(ground).await, connect(ground).await);
    let (here, there) = (build(&one), build(&two));
    eventually("the other first level has it", async || {
        let load = || async { Ok::<_, io::Error>(OLD) };
        let read = there.get_or_load(&1, load).await.expect("an answer");
        read.source == Source::Local
    })
    .await;
    for proxy in ground.proxies() {
        proxy.drop_pushes(1.0);
    }
    here.clear_tag("all").await.expect("cleared");
    assert_eq!(seen(&here, Freshness::Cached, 1).await, Some(NEW), "this process knows");
    eventually("the other first level follows", async || {
        seen(&there, Freshness::Cached, 1).await == Some(NEW)
    })
    .await;
    ground.heal();
    one.shutdown().await;
    two.shutdown().await;
}

macro_rules! cleared_meanwhile {
    ($($name:ident $run:ident)*) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn embedded() {
                let folder = tempfile::tempdir().expect("a temporary folder");
                super::$run(&super::Ground::embedded(folder.path()).await).await;
            }

            cleared_meanwhile! { redis and cluster: $run }
        })*
    };
    (by messages: $($name:ident $run:ident)*) => {
        $(mod $name {
            cleared_meanwhile! { redis and cluster: $run }
        })*
    };
    (redis and cluster: $run:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn redis() {
            super::$run(&super::Ground::redis()).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn cluster() {
            super::$run(&super::Ground::cluster()).await;
        }
    };
}

cleared_meanwhile! {
    a_load_from_before_is_for_no_reader_after_it a_load
    a_fill_from_before_stays_out_of_both_levels a_fill
    a_value_made_fresh_from_before_does_not_count a_value_made_fresh_again
    a_batch_from_before_is_for_no_reader_after_it a_batch
}

cleared_meanwhile! { by messages:
    a_put_from_before_does_not_count a_put
    a_clear_without_a_reply_is_done_again a_lost_reply
    a_clear_without_a_message_is_noticed a_lost_message
}

/// What was loaded while Redis was away is kept for a moment, and carries its tags.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_from_an_outage_ends_with_its_tag() {
    let ground = Ground::redis();
    let seawall = Seawall::builder(&ground.url()).response_timeout(Duration::from_millis(300));
    let seawall = seawall.connect().await.expect("connected");
    let cache = builder(&seawall).outage_ttl(LONG).build().expect("options agree");
    for proxy in ground.proxies() {
        proxy.down();
    }
    let old = || async { Ok::<_, io::Error>(OLD) };
    let many = |keys: Vec<u64>| async move {
        Ok::<_, io::Error>(keys.into_iter().map(|key| (key, OLD)).collect::<HashMap<_, _>>())
    };
    let first = cache.get_or_load(&1, old).await.expect("loaded");
    assert_eq!(first.source, Source::Loaded);
    assert!(cache.get_many(&[2, 3], many).await.iter().all(Result::is_ok));
    for key in 1..=3 {
        assert_eq!(seen(&cache, Freshness::Cached, key).await, Some(OLD), "kept for a moment");
    }
    assert!(cache.clear_tag("all").await.is_err(), "Redis is away");
    for key in 1..=3 {
        assert_eq!(seen(&cache, Freshness::Cached, key).await, Some(NEW), "{key}");
    }
    ground.heal();
    seawall.shutdown().await;
}
