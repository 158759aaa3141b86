//! An invalidation that comes while a hot entry is fetched or copied; and the same with the
//! protections off, which must be seen.

use std::time::{Duration, Instant};

use seawall::{
    Error, Seawall,
    cache::{Cache, Freshness, Invalidation, Loaded},
    cmd,
    hotkey::{
        HotRule, HotRules,
        sabotage::{Held, HotSabotage},
    },
};
use seawall_testkit::backend::Backend;
use tokio::sync::{Mutex, MutexGuard};

use crate::{finding::until, setup::Setup};

const SECOND: Duration = Duration::from_secs(1);
/// How long a planted bug is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sabotage is for a whole process: one of these tests at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// A planted bug, until the end of its test.
struct Planted(#[expect(dead_code, reason = "held until it is dropped")] MutexGuard<'static, ()>);

impl Planted {
    async fn plant(bug: HotSabotage) -> Self {
        let alone = ALONE.lock().await;
        bug.plant();
        Planted(alone)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        HotSabotage::None.plant();
    }
}

async fn value(cache: &Cache<u64, u64>, freshness: Freshness, newest: u64) -> u64 {
    let load = move || async move { Ok::<_, Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load_as(freshness, &1, load).await.expect("an answer");
    read.value.as_deref().copied().expect("a value")
}

/// What a default read of the other process gives once it has heard of the invalidation, and the
/// fetch that began before it has ended.
async fn after_a_slow_promotion(setup: &Setup) -> u64 {
    let (first, second) = (setup.connect().await, setup.connect().await);
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
        other.explain(&2).await.expect("a good key").level1.is_some()
    })
    .await;
    let held = Held::begin();
    second
        .hot_keys()
        .declare(setup.entry("race:1").as_bytes(), 60 * SECOND)
        .await
        .expect("declared");
    until("both fetch it", async || held.count() >= 2).await;
    let done = one.invalidate_many(&[1, 2]).await.expect("good keys");
    assert!(matches!(done, Invalidation::Applied(_)));
    assert_eq!(value(&other, Freshness::Strong, 11).await, 11, "strong reads are right already");
    until("the other has heard", async || {
        other.explain(&2).await.expect("a good key").level1.is_none()
    })
    .await;
    // A copy that a strong read left is newer than what is fetched, and would hide it.
    let _ = one.invalidate_many(&[1, 2]).await.expect("good keys");
    until("the other has heard again", async || {
        other.explain(&1).await.expect("a good key").level1.is_none()
    })
    .await;
    drop(held);
    // The fetches end within a moment; what they leave stays for 30 s.
    let began = Instant::now();
    let mut seen = 12;
    while seen == 12 && began.elapsed() < Duration::from_millis(500) {
        let copy = other.explain(&1).await.expect("a good key").level1;
        if copy.is_some() {
            seen = value(&other, Freshness::Cached, 12).await;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    second.shutdown().await;
    first.shutdown().await;
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_fetched_before_an_invalidation_is_not_kept_after_it() {
    let _alone = Planted::plant(HotSabotage::None).await;
    let setup = Setup::new(Backend::Embedded, "race");
    assert_eq!(after_a_slow_promotion(&setup).await, 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promotion_without_its_ticket_is_found() {
    let _planted = Planted::plant(HotSabotage::PromoteWithoutTicket).await;
    let setup = Setup::new(Backend::Embedded, "race");
    assert_eq!(after_a_slow_promotion(&setup).await, 10, "the checker saw nothing");
}

/// Two processes on a Cluster, without first levels, and a key that is read from copies.
struct Spread {
    handles: [Seawall; 2],
    caches: [Cache<u64, u64>; 2],
    entry: String,
    prefix: String,
    _setup: Setup,
}

impl Spread {
    async fn open() -> Self {
        let setup = Setup::new(Backend::Cluster, "spread");
        let handles = [setup.connect().await, setup.connect().await];
        let rule = HotRule::new(50, 10 * SECOND).cool_for(600 * SECOND).copies_at(50);
        let caches = handles.each_ref().map(|seawall| {
            let builder = seawall.cache("copied").level1_bytes(0).copies(2);
            builder.hot_keys(HotRules::all(rule.clone())).build().expect("settings that agree")
        });
        caches[0].put(&1, &10).await.expect("stored");
        let (entry, prefix) = (setup.entry("copied:1"), setup.entry(""));
        let spread = Spread { handles, caches, entry, prefix, _setup: setup };
        until("reads are spread", async || {
            spread.read(10).await;
            let known = |seawall: &Seawall| seawall.hot_keys().find(spread.entry.as_bytes());
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
            let name = format!("{}hot-copy:{{{tag}}}:{}", self.prefix, self.entry).into_bytes();
            let mut length = cmd("STRLEN");
            length.arg(&name);
            (name, length)
        });
        let replies = self.handles[0].link().send_all(commands.collect()).await;
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

    async fn close(self) {
        for seawall in &self.handles {
            seawall.shutdown().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_are_made_read_and_gone_with_the_entry() {
    let _alone = Planted::plant(HotSabotage::None).await;
    let spread = Spread::open().await;
    for newest in 11..16 {
        until("there are two copies", async || {
            spread.read(newest - 1).await;
            spread.copies().await == 2
        })
        .await;
        let done = spread.caches[0].invalidate(&1).await.expect("a good key");
        assert!(matches!(done, Invalidation::Applied(_)));
        assert!(!spread.sees_older_than(newest, Duration::from_millis(300)).await, "{newest}");
    }
    // A write that is no invalidation takes the copies along too.
    spread.caches[1].put(&1, &100).await.expect("stored");
    assert!(!spread.sees_older_than(100, Duration::from_millis(300)).await);
    spread.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalidation_that_skips_copies_is_found() {
    let _planted = Planted::plant(HotSabotage::SkipCopies).await;
    let spread = Spread::open().await;
    let began = Instant::now();
    let mut newest = 10;
    let mut found = false;
    while !found && began.elapsed() < PATIENCE {
        until("there is a copy", async || {
            spread.read(newest).await;
            spread.copies().await > 0
        })
        .await;
        newest += 1;
        let _ = spread.caches[0].invalidate(&1).await.expect("a good key");
        found = spread.sees_older_than(newest, SECOND).await;
    }
    assert!(found, "the checker saw nothing");
    spread.close().await;
}

/// The entry is invalidated after a copy's bytes were read and before they are stored.
async fn after_a_slow_copy(spread: &Spread) -> bool {
    until("no copies are there", async || spread.copies().await == 0).await;
    let held = Held::begin();
    until("a copy is being made", async || {
        spread.read(10).await;
        held.count() > 0
    })
    .await;
    let done = spread.caches[0].invalidate(&1).await.expect("a good key");
    assert!(matches!(done, Invalidation::Applied(_)));
    assert_eq!(value(&spread.caches[0], Freshness::Strong, 20).await, 20);
    drop(held);
    spread.sees_older_than(20, SECOND).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_comes_late_is_refused() {
    let _alone = Planted::plant(HotSabotage::None).await;
    let spread = Spread::open().await;
    assert!(!after_a_slow_copy(&spread).await, "something older came back");
    spread.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_without_its_lease_is_found() {
    let _planted = Planted::plant(HotSabotage::CopyWithoutLease).await;
    let spread = Spread::open().await;
    assert!(after_a_slow_copy(&spread).await, "the checker saw nothing");
    spread.close().await;
}
