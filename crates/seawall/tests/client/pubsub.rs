//! Messages: who hears them, what an interruption looks like, and what many channels cost.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use seawall::{
    Seawall,
    client::{Event, Subscription},
    cmd,
};
use seawall_testkit::{Cluster, FaultProxy, ServerProcess};

use crate::setup::{Setup, on_every_backend};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);
const MANY: usize = 10_000;
const MOST_BYTES: usize = 50_000_000;

/// The next event; there must be one.
async fn event(subscription: &mut Subscription) -> Event {
    let event = tokio::time::timeout(LIMIT, subscription.next()).await;
    event.expect("an event in time").expect("the handle is open")
}

/// The next message, whatever comes before it.
async fn message(subscription: &mut Subscription) -> String {
    loop {
        if let Event::Message(message) = event(subscription).await {
            return String::from_utf8_lossy(&message).into_owned();
        }
    }
}

async fn publish(seawall: &Seawall, channel: &[u8], text: &str) {
    let command = cmd("PUBLISH").arg(channel).arg(text).to_owned();
    seawall.client().send(channel, &command).await.expect("published");
}

async fn behind_a_proxy() -> (ServerProcess, FaultProxy, Seawall, Seawall) {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let publisher = Seawall::connect(&server.url()).await.expect("in");
    (server, proxy, seawall, publisher)
}

on_every_backend! {
    everybody_hears_what_any_server_was_told
}

async fn everybody_hears_what_any_server_was_told(setup: Setup) {
    let (listener, publisher) = (setup.connect().await, setup.connect().await);
    let mut channel = setup.entry("channel").into_bytes();
    channel.extend(b"\0\r\n\xff");
    let pubsub = listener.client().pubsub();
    let mut first = pubsub.subscribe(&channel, LIMIT).await.expect("subscribed");
    let mut second = pubsub.subscribe(&channel, LIMIT).await.expect("subscribed");
    assert!(first.is_live() && second.is_live() && pubsub.is_connected());
    assert_eq!(pubsub.channels(), 1);
    let texts: BTreeSet<String> = (0..30).map(|number| number.to_string()).collect();
    for text in &texts {
        // The text decides which server of a Cluster is told.
        let command = cmd("PUBLISH").arg(&channel).arg(text).to_owned();
        publisher.client().send(text.as_bytes(), &command).await.expect("published");
    }
    for subscription in [&mut first, &mut second] {
        let mut heard = BTreeSet::new();
        for _ in &texts {
            heard.insert(message(subscription).await);
        }
        assert_eq!(heard, texts);
    }
    publisher.shutdown().await;
    listener.shutdown().await;
    assert_eq!(first.next().await, None, "the end is told");
}

#[tokio::test]
async fn subscribers_share_one_subscription_and_it_lingers() {
    let (_server, proxy, seawall, publisher) = behind_a_proxy().await;
    let pubsub = seawall.client().pubsub();
    let first = pubsub.subscribe(b"c", LIMIT).await.expect("subscribed");
    let second = pubsub.subscribe(b"c", LIMIT).await.expect("subscribed");
    drop((first, second));
    let back = pubsub.join(b"c");
    assert!(back.is_live(), "nothing has to be confirmed for who comes back");
    assert_eq!(proxy.count("SUBSCRIBE"), 1);
    drop(back);
    let begun = Instant::now();
    while pubsub.channels() > 0 || proxy.count("UNSUBSCRIBE") == 0 {
        assert!(begun.elapsed() < LIMIT, "never unsubscribed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut again = pubsub.subscribe(b"c", LIMIT).await.expect("subscribed again");
    publish(&publisher, b"c", "hello").await;
    assert_eq!(message(&mut again).await, "hello");
    assert_eq!((proxy.count("SUBSCRIBE"), proxy.count("UNSUBSCRIBE")), (2, 1));
    publisher.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_cut_is_told_and_so_is_its_end() {
    let (_server, proxy, seawall, publisher) = behind_a_proxy().await;
    let mut subscription =
        seawall.client().pubsub().subscribe(b"c", LIMIT).await.expect("subscribed");
    assert_eq!(event(&mut subscription).await, Event::Resumed);
    for text in ["once", "twice"] {
        proxy.cut_all();
        assert_eq!(event(&mut subscription).await, Event::Interrupted);
        assert_eq!(event(&mut subscription).await, Event::Resumed);
        publish(&publisher, b"c", text).await;
        assert_eq!(message(&mut subscription).await, text);
    }
    // A server that falls silent without a word is left, too.
    proxy.black_hole();
    assert_eq!(event(&mut subscription).await, Event::Interrupted);
    proxy.heal();
    assert_eq!(event(&mut subscription).await, Event::Resumed);
    publisher.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_slow_subscriber_is_told_to_look() {
    let (_server, _proxy, seawall, publisher) = behind_a_proxy().await;
    let pubsub = seawall.client().pubsub();
    let mut slow = pubsub.subscribe(b"c", LIMIT).await.expect("subscribed");
    let mut end = pubsub.subscribe(b"end", LIMIT).await.expect("subscribed");
    assert_eq!(event(&mut slow).await, Event::Resumed);
    for number in 0..500 {
        publish(&publisher, b"c", &number.to_string()).await;
    }
    // What was said last arrives last.
    publish(&publisher, b"end", "end").await;
    assert_eq!(message(&mut end).await, "end");
    assert_eq!(event(&mut slow).await, Event::Resumed);
    let mut next = message(&mut slow).await;
    let mut heard = 1;
    while next != "499" {
        next = message(&mut slow).await;
        heard += 1;
    }
    assert!(heard <= 128, "{heard} messages waited");
    publisher.shutdown().await;
    seawall.shutdown().await;
}

/// What this process has in memory, in bytes.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let kilobytes: usize =
        line.trim().trim_end_matches("kB").trim().parse().expect("a number of kB");
    kilobytes * 1024
}

#[tokio::test]
async fn ten_thousand_channels_are_one_connection_and_little_memory() {
    let (_server, proxy, seawall, publisher) = behind_a_proxy().await;
    let (opened, before) = (proxy.accepted(), resident_bytes());
    let name = |number: usize| format!("channel-{number}").into_bytes();
    let pubsub = seawall.client().pubsub();
    let mut all: Vec<_> = (0..MANY).map(|number| pubsub.join(&name(number))).collect();
    for subscription in &mut all {
        assert_eq!(event(subscription).await, Event::Resumed);
    }
    assert_eq!(proxy.accepted(), opened + 1);
    proxy.cut_all();
    for subscription in &mut all {
        assert_eq!(event(subscription).await, Event::Interrupted);
        assert_eq!(event(subscription).await, Event::Resumed);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < MOST_BYTES, "{grown} bytes for {MANY} channels");
    for number in [0, MANY / 2, MANY - 1] {
        publish(&publisher, &name(number), "hello").await;
        assert_eq!(message(&mut all[number]).await, "hello");
    }
    publisher.shutdown().await;
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_the_node_that_is_listened_to_is_survived() {
    let cluster = Cluster::start().expect("a Cluster");
    let seawall = Seawall::connect(&cluster.url()).await.expect("in");
    let mut subscription =
        seawall.client().pubsub().subscribe(b"c", LIMIT).await.expect("subscribed");
    assert_eq!(event(&mut subscription).await, Event::Resumed);
    let listened_to = cluster.nodes().iter().find(|node| {
        let mut client = node.connect().expect("it answers");
        let numbers = client.call(&["PUBSUB", "NUMSUB", "c"]).expect("asked");
        numbers.items().get(1).and_then(seawall_testkit::Reply::as_int) == Some(1)
    });
    let lost = listened_to.expect("one node has the subscription");
    lost.kill().expect("killed");
    assert_eq!(event(&mut subscription).await, Event::Interrupted);
    assert_eq!(event(&mut subscription).await, Event::Resumed);
    let others: Vec<_> = cluster.nodes().iter().filter(|node| node.port() != lost.port()).collect();
    for node in &others {
        let port = node.port().to_string();
        let mut client = node.connect().expect("it answers");
        client.call(&["PUBLISH", "c", &port]).expect("published");
        assert_eq!(message(&mut subscription).await, port);
    }
    seawall.shutdown().await;
}
