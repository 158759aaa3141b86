//! What a first level does not hear, or hears too late.

use std::{io, time::Duration};

use seawall::{
    Seawall,
    cache::{Cache, Invalidation, Loaded, Source},
    cmd,
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::eventually::{PATIENCE, eventually};

const LONG: Duration = Duration::from_secs(600);

fn build(seawall: &Seawall) -> Cache<u64, u64> {
    let builder = seawall.cache("place").ttl(LONG).local_ttl(LONG);
    builder.build().expect("options agree")
}

async fn read(cache: &Cache<u64, u64>, key: u64, newest: u64) -> (Option<u64>, Source) {
    let load = move || async move { Ok::<_, io::Error>(Loaded::Found(newest)) };
    let read = cache.get_or_load(&key, load).await.expect("an answer");
    (read.value.as_deref().copied(), read.source)
}

/// Reads until the copy is there.
async fn copy(cache: &Cache<u64, u64>, key: u64) {
    eventually("a copy", async || read(cache, key, 1).await.1 == Source::Local).await;
}

async fn is_copied(cache: &Cache<u64, u64>, key: u64) -> bool {
    cache.explain(&key).await.expect("an answer").local.is_some()
}

/// Invalidates and waits until the other one's copy is gone.
async fn tell(teller: &Cache<u64, u64>, hearer: &Cache<u64, u64>, key: u64) {
    assert!(matches!(teller.invalidate(&key).await, Ok(Invalidation::Applied(_))));
    eventually("the copy goes", async || !is_copied(hearer, key).await).await;
}

/// Right after a reconnect a message is lost and the next one arrives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_lost_right_after_a_reconnect_is_noticed() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let asks = |command: &[Vec<u8>]| command[1].ends_with(b"cache-messages:place");
    let counter = On::command("GET").when(asks);
    // Nobody can look where it stands for as long as this takes.
    let blind = proxy.fail_with(counter.clone(), "ERR not now");
    let [near, far] = [proxy.url(), server.url()];
    let hears = Seawall::connect(&near).await.expect("connected");
    let tells = Seawall::connect(&far).await.expect("connected");
    let (hearer, teller) = (build(&hears), build(&tells));
    copy(&hearer, 9).await;
    tell(&teller, &hearer, 9).await;
    let mut client = server.connect().expect("connected");
    client.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).expect("answered");
    // Gone by the reconnect or by the message after it: it is over when the copy is gone.
    copy(&hearer, 9).await;
    tell(&teller, &hearer, 9).await;
    eventually("messages are heard again", async || hears.client().pubsub().is_connected()).await;

    copy(&hearer, 1).await;
    let before = proxy.lost_pushes();
    proxy.drop_next_pushes("", 1);
    assert!(matches!(teller.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    eventually("a message is lost", async || proxy.lost_pushes() > before).await;
    copy(&hearer, 2).await;
    tell(&teller, &hearer, 2).await;
    assert!(is_copied(&hearer, 1).await, "nothing told of the loss so far");

    let looks = proxy.watch(counter);
    proxy.remove(blind);
    eventually("it looked where it stands", async || {
        // Nobody looks for a cache that is not used.
        let _ = read(&hearer, 2, 2).await;
        looks.count() >= 3
    })
    .await;
    let (value, _) = read(&hearer, 1, 2).await;
    assert_eq!(value, Some(2), "the copy outlives the message that was lost");
    hears.shutdown().await;
    tells.shutdown().await;
}

/// The message that follows a lost one tells of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_message_is_noticed() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let hears = Seawall::connect(&proxy.url()).await.expect("connected");
    let tells = Seawall::connect(&server.url()).await.expect("connected");
    let (hearer, teller) = (build(&hears), build(&tells));
    copy(&hearer, 9).await;
    tell(&teller, &hearer, 9).await;
    copy(&hearer, 1).await;
    copy(&hearer, 2).await;
    proxy.drop_next_pushes("", 1);
    assert!(matches!(teller.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    eventually("a message is lost", async || proxy.lost_pushes() == 1).await;
    tell(&teller, &hearer, 2).await;
    assert_eq!(read(&hearer, 1, 2).await.0, Some(2), "the copy outlives a lost message");
    hears.shutdown().await;
    tells.shutdown().await;
}

/// The first message of a new cache is no gap: it ends the copy that it names, and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_message_is_not_missed() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let hears = Seawall::connect(&proxy.url()).await.expect("connected");
    let tells = Seawall::connect(&server.url()).await.expect("connected");
    let (hearer, teller) = (build(&hears), build(&tells));
    let asks = |command: &[Vec<u8>]| command[1].ends_with(b"cache-messages:place");
    for what in ["new", "flushed"] {
        let looks = proxy.watch(On::command("GET").when(asks));
        eventually("it looked where it stands", async || {
            // Nobody looks for a cache that is not used.
            let _ = read(&hearer, 2, 1).await;
            looks.count() >= 3
        })
        .await;
        copy(&hearer, 1).await;
        copy(&hearer, 2).await;
        tell(&teller, &hearer, 1).await;
        assert!(is_copied(&hearer, 2).await, "{what}: the first message counts as a gap");
        server.connect().expect("connected").call(&["FLUSHALL"]).expect("answered");
        eventually("the loss is noticed", async || {
            let _ = read(&hearer, 3, 1).await;
            !is_copied(&hearer, 2).await
        })
        .await;
    }
    hears.shutdown().await;
    tells.shutdown().await;
}

/// Whoever hears of an invalidation drops its copy and reads again: by then the entry is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_told_before_the_entry_is_gone() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let proxy = FaultProxy::start(server.port()).expect("a free port");
    let connect = async |url: String| {
        let builder = Seawall::builder(&url).response_timeout(PATIENCE * 2);
        builder.connect().await.expect("connected")
    };
    let (slow, hears, tells) = (proxy.url(), server.url(), server.url());
    let (slow, hears, tells) = (connect(slow).await, connect(hears).await, connect(tells).await);
    let (writer, hearer, teller) = (build(&slow), build(&hears), build(&tells));
    copy(&hearer, 9).await;
    // So that the server knows the script.
    tell(&writer, &hearer, 9).await;
    copy(&hearer, 1).await;
    let ends_it = |command: &[Vec<u8>]| command.get(3).is_some_and(|key| key == b"place:1");
    let rule = proxy.hold_request(On::command("EVALSHA").when(ends_it));
    let invalidation = tokio::spawn({
        let writer = writer.clone();
        async move { writer.invalidate(&1).await }
    });
    eventually("the request is held", async || proxy.held() == 1).await;
    // Messages come one after the other: whatever was sent before this one has arrived with it.
    copy(&hearer, 2).await;
    tell(&teller, &hearer, 2).await;
    copy(&hearer, 1).await;
    proxy.remove(rule);
    let done = invalidation.await.expect("no panic");
    assert!(matches!(done, Ok(Invalidation::Applied(_))));
    copy(&hearer, 2).await;
    tell(&teller, &hearer, 2).await;
    assert_eq!(read(&hearer, 1, 2).await.0, Some(2), "a copy from before the invalidation is kept");
    for seawall in [slow, hears, tells] {
        seawall.shutdown().await;
    }
}

/// The counter's reply does not come for as long as the test takes; messages do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_heard_while_the_counter_is_waited_for() {
    let server = ServerProcess::redis().expect("redis-server starts");
    let slow = Seawall::builder(&server.url()).response_timeout(PATIENCE * 3);
    let hears = slow.connect().await.expect("connected");
    let tells = Seawall::connect(&server.url()).await.expect("connected");
    let (hearer, teller) = (build(&hears), build(&tells));
    copy(&hearer, 9).await;
    tell(&teller, &hearer, 9).await;
    copy(&hearer, 1).await;
    // Whatever is sent on the same connection after this waits until it is answered.
    let client = hears.client().clone();
    let gate = tokio::spawn(async move {
        let mut wait = cmd("BLPOP");
        wait.arg("gate").arg(0);
        client.send(b"gate", &wait).await
    });
    let mut client = server.connect().expect("connected");
    let mut clients = || client.call(&["CLIENT", "LIST"]).expect("answered").text();
    eventually("the counter is waited for", async || {
        let blocked = |line: &str| line.contains(" flags=b ") && !line.contains(" qbuf=0 ");
        clients().lines().any(blocked)
    })
    .await;
    assert!(matches!(teller.invalidate(&1).await, Ok(Invalidation::Applied(_))));
    eventually("the copy is gone", async || {
        // Without a copy the read itself waits, behind the gate.
        let read = tokio::time::timeout(Duration::from_millis(50), hearer.get(&1)).await;
        !matches!(read, Ok(Ok(Some(read))) if read.source == Source::Local)
    })
    .await;
    assert!(!gate.is_finished(), "the gate was closed all the time");
    server.connect().expect("connected").call(&["RPUSH", "gate", "open"]).expect("answered");
    gate.await.expect("no panic").expect("answered");
    hears.shutdown().await;
    tells.shutdown().await;
}
