//! A read between the moment a write drops the copies of its process and the moment Redis carries it
//! out: what it finds is older than the write, and must not be there when the write returns.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, Loaded},
};
use seawall_testkit::proxy::Direction;

use crate::faults::Ground;

const LONG: Duration = Duration::from_secs(600);
const ROUNDS: u64 = 5;

#[derive(Debug, Clone, Copy)]
enum Act {
    Clear,
    ClearTag,
    Put,
    PutIfNewer,
}

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    let builder = seawall.cache("mid").ttl(LONG).local_ttl(LONG).clearable();
    builder.tags(|_| vec!["all".to_owned()]).build().expect("options agree")
}

async fn found(cache: &Cache<u64, u64>) -> Option<u64> {
    let read = cache.get(&1).await.expect("an answer")?;
    read.value.as_deref().copied()
}

async fn reads_in_between(ground: &Ground, act: Act) {
    let seawall = Seawall::builder(&ground.url()).response_timeout(Duration::from_secs(20));
    let seawall = seawall.connect().await.expect("connected");
    let cache = build(&seawall);
    for round in 1..=ROUNDS {
        let (old, new) = (round * 2, round * 2 + 1);
        let _ = cache.invalidate(&1).await.expect("a good key");
        let load = move || async move { Ok::<_, io::Error>(Loaded::Found(old)) };
        let _ = cache.get_or_load(&1, load).await.expect("loaded");
        // Nobody tells this process; scripts are unknown, so each takes two trips; trips take time.
        for proxy in ground.proxies() {
            proxy.drop_pushes(1.0);
        }
        ground.command(&["SCRIPT", "FLUSH"]).await;
        for proxy in ground.proxies() {
            proxy.delay(Direction::Replies, Duration::from_millis(30));
        }
        let over = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn({
            let (cache, over) = (cache.clone(), Arc::clone(&over));
            async move {
                while !over.load(Ordering::SeqCst) {
                    let _ = cache.get(&1).await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        });
        match act {
            Act::Clear => cache.clear().await.expect("done"),
            Act::ClearTag => cache.clear_tag("all").await.expect("done"),
            Act::Put => drop(cache.put(&1, &new).await.expect("done")),
            Act::PutIfNewer => drop(cache.put_if_newer(&1, new, Some(&new)).await.expect("done")),
        }
        let seen = found(&cache).await;
        over.store(true, Ordering::SeqCst);
        assert_ne!(
            seen,
            Some(old),
            "{act:?} was acknowledged, and this process reads the old value"
        );
        reader.await.expect("no panic");
        ground.heal();
    }
    seawall.shutdown().await;
}

macro_rules! in_between {
    ($($name:ident $act:ident)*) => {
        $(mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                super::reads_in_between(&super::Ground::redis(), super::Act::$act).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn cluster() {
                super::reads_in_between(&super::Ground::cluster(), super::Act::$act).await;
            }
        })*
    };
}

in_between! {
    a_clear_leaves_no_older_copy_here Clear
    a_cleared_tag_leaves_no_older_copy_here ClearTag
    a_put_leaves_no_older_copy_here Put
    a_versioned_put_leaves_no_older_copy_here PutIfNewer
}
