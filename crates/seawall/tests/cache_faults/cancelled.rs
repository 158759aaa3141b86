//! A caller that goes away in the middle of an invalidation or a write: what it began is finished, or
//! waits in the repair queue.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded, Source},
};

use crate::{eventually::eventually, faults::Ground};

const LONG: Duration = Duration::from_secs(600);
/// Moments at which a caller goes away, spread over the time that an operation takes.
const MOMENTS: u32 = 24;
/// How long each direction of the network takes in that time.
const TRIP: Duration = Duration::from_millis(10);

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    let builder = seawall.cache("gone").ttl(LONG).local_ttl(LONG).clearable();
    builder.tags(|_| vec!["all".to_owned()]).build().expect("options agree")
}

async fn read(cache: &Cache<u64, u64>, freshness: Freshness, key: u64, newest: u64) -> Option<u64> {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(freshness, &key, load).await.ok()?;
    read.value.as_deref().copied()
}

/// Reads until a copy of this value is in memory.
async fn copied(cache: &Cache<u64, u64>, key: u64, value: u64) {
    eventually("a copy", async || {
        let load = move || async move { Ok::<_, io::Error>(Loaded::Found(value)) };
        let read = cache.get_or_load(&key, load).await;
        read.is_ok_and(|read| read.source == Source::Local && read.value.as_deref() == Some(&value))
    })
    .await;
}

async fn connect(ground: &Ground) -> Seawall {
    let builder = Seawall::builder(&ground.url()).response_timeout(Duration::from_secs(5));
    builder.connect().await.expect("connected")
}

/// What callers do that may go away.
#[derive(Debug, Clone, Copy)]
enum Act {
    Invalidate,
    InvalidateMany,
    Clear,
    ClearTag,
    Put,
    PutIfNewer,
}

impl Act {
    async fn run(self, cache: &Cache<u64, u64>, value: u64) {
        // Only whether it is cut off matters.
        match self {
            Act::Invalidate => drop(cache.invalidate(&1).await),
            Act::InvalidateMany => {
                drop(cache.invalidate_many(&(0..2500).collect::<Vec<_>>()).await);
            }
            Act::Clear => drop(cache.clear().await),
            Act::ClearTag => drop(cache.clear_tag("all").await),
            Act::Put => drop(cache.put(&1, &value).await),
            Act::PutIfNewer => drop(cache.put_if_newer(&1, value, Some(&value)).await),
        }
    }
}

/// Cuts an operation off at every moment of it. Whatever it had done by then, soon everybody sees what
/// came after: nobody is left with a copy that nobody will ever take back.
async fn cut_off(ground: &Ground, act: Act) {
    let (writer, reader) = (connect(ground).await, connect(ground).await);
    let (writes, reads) = (build(&writer), build(&reader));
    let slow = |trip: Duration| {
        for proxy in ground.proxies() {
            proxy.delay(seawall_testkit::proxy::Direction::Requests, trip);
        }
    };
    for moment in 0..MOMENTS {
        let (old, new) = (u64::from(moment) * 2 + 1, u64::from(moment) * 2 + 2);
        let _ = writes.invalidate(&1).await;
        copied(&reads, 1, old).await;
        slow(TRIP);
        let after = TRIP * 8 * moment / MOMENTS;
        let _ = tokio::time::timeout(after, act.run(&writes, new)).await;
        slow(Duration::ZERO);
        let what = format!("{act:?}, cut off after {after:?}, is seen everywhere");
        eventually(&what, async || {
            // A put may have left the old value, in all processes the same.
            let due = match act {
                Act::Put | Act::PutIfNewer => read(&writes, Freshness::Strong, 1, new).await,
                _ => Some(new),
            };
            read(&reads, Freshness::Cached, 1, new).await == due
                && read(&writes, Freshness::Cached, 1, new).await == due
        })
        .await;
    }
    writer.shutdown().await;
    reader.shutdown().await;
}

macro_rules! cut_off_anywhere {
    ($($name:ident $act:ident)*) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                super::cut_off(&super::Ground::redis(), super::Act::$act).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn cluster() {
                super::cut_off(&super::Ground::cluster(), super::Act::$act).await;
            }
        })*
    };
}

cut_off_anywhere! {
    an_invalidation_is_finished Invalidate
    many_invalidations_are_finished InvalidateMany
    a_clear_is_finished Clear
    a_cleared_tag_is_finished ClearTag
    a_put_leaves_no_old_copy Put
    a_versioned_put_leaves_no_old_copy PutIfNewer
}

/// Redis is away, the invalidation is tried again and again, and its caller goes.
async fn cut_off_while_it_retries(ground: &Ground) {
    let (writer, reader) = (connect(ground).await, connect(ground).await);
    let (writes, reads) = (build(&writer), build(&reader));
    for key in 1..4 {
        copied(&reads, key, 1).await;
    }
    ground.proxies().iter().for_each(|proxy| proxy.down());
    let after = Duration::from_millis(60);
    let gone = tokio::time::timeout(after, async {
        tokio::join!(writes.invalidate(&1), writes.invalidate_many(&[2, 3]))
    });
    assert!(gone.await.is_err(), "it was still trying");
    ground.heal();
    for key in 1..4 {
        eventually("the value is gone, here and there", async || {
            read(&writes, Freshness::Strong, key, 2).await == Some(2)
                && read(&reads, Freshness::Cached, key, 2).await == Some(2)
        })
        .await;
    }
    writer.shutdown().await;
    reader.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_tried_again_outlives_its_caller_on_redis() {
    cut_off_while_it_retries(&Ground::redis()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_tried_again_outlives_its_caller_on_a_cluster() {
    cut_off_while_it_retries(&Ground::cluster()).await;
}

/// Nothing would carry it out any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_queued_after_the_end() {
    let seawall = Seawall::connect("embedded:").await.expect("connected");
    let cache = build(&seawall);
    assert!(matches!(cache.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    seawall.shutdown().await;
    assert!(cache.invalidate(&1).await.is_err(), "queued for nobody");
    assert!(cache.invalidate_many(&[1, 2]).await.is_err(), "queued for nobody");
    let mut ran = false;
    let work = async {
        ran = true;
        Ok::<_, seawall::Error>(())
    };
    assert!(cache.write(&1, work).await.is_err(), "queued for nobody");
    assert!(!ran, "a write whose invalidation cannot follow does not begin");
}
