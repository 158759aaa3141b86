//! A cache that nobody used for a while, and what it missed meanwhile.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Invalidation, Loaded, Source},
};
use seawall_testkit::proxy::On;

use crate::{eventually::eventually, faults::Ground};

const LONG: Duration = Duration::from_secs(600);
const ROUNDS: u64 = 4;

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    seawall.cache("rest").ttl(LONG).local_ttl(LONG).build().expect("options agree")
}

async fn read(cache: &Cache<u64, u64>, key: u64, newest: u64) -> (Option<u64>, Source) {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load(&key, load).await.expect("an answer");
    (read.value.as_deref().copied(), read.source)
}

/// While it rests, one key is invalidated and the message is lost. The very first read after that must
/// be right, however long ago it was; then copies are served again, and the others were not lost without
/// need unless a message was.
async fn missed_while_it_rested(ground: &Ground) {
    let connect = async || {
        let builder = Seawall::builder(&ground.url()).response_timeout(Duration::from_secs(5));
        builder.connect().await.expect("connected")
    };
    let (rests, writes) = (connect().await, connect().await);
    let (resting, writer) = (build(&rests), build(&writes));
    for round in 1..=ROUNDS {
        for key in [1, 2] {
            eventually("a copy", async || {
                read(&resting, key, round).await == (Some(round), Source::Local)
            })
            .await;
        }
        // Nobody looks any more: no counter is read for two seconds.
        let asks = |command: &[Vec<u8>]| command[1].ends_with(b"cache-messages:rest");
        let looks = || {
            let proxies = ground.proxies();
            proxies
                .iter()
                .map(|proxy| proxy.watch(On::command("GET").when(asks)))
                .collect::<Vec<_>>()
        };
        eventually("it rests", async || {
            let looks = looks();
            tokio::time::sleep(Duration::from_secs(2)).await;
            looks.iter().all(|look| look.count() == 0)
        })
        .await;
        ground.proxies().iter().for_each(|proxy| proxy.drop_pushes(1.0));
        for key in [1, 2] {
            assert!(matches!(writer.invalidate(&key).await, Ok(Invalidation::Applied(_))));
        }
        assert_eq!(read(&writer, 1, round + 1).await.0, Some(round + 1));
        tokio::time::sleep(Duration::from_millis(300)).await;
        for key in [1, 2] {
            let (value, source) = read(&resting, key, round + 1).await;
            assert_eq!(value, Some(round + 1), "round {round}, key {key}, {source:?}");
        }
        ground.heal();
    }
    rests.shutdown().await;
    writes.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_read_after_a_rest_is_right_on_redis() {
    missed_while_it_rested(&Ground::redis()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_read_after_a_rest_is_right_on_a_cluster() {
    missed_while_it_rested(&Ground::cluster()).await;
}
