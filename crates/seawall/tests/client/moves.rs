//! Servers that are replaced, leave, or hand over slots, seen from the pub/sub connection and from pipelines.

use std::time::{Duration, Instant};

use seawall::{
    Seawall,
    client::{Event, Subscription},
    cmd,
};
use seawall_testkit::{Client, Cluster, Node, SentinelSet, slot_of};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(30);
const CHANNEL: &[u8] = b"news";

/// Publishes again and again until it is heard.
async fn heard(publisher: &Seawall, subscription: &mut Subscription, text: &str) {
    let publish = async || {
        let command = cmd("PUBLISH").arg(CHANNEL).arg(text).to_owned();
        // There may be no primary at the moment.
        let _ = publisher.client().send(CHANNEL, &command).await;
    };
    heard_from(publish, subscription, text).await;
}

async fn heard_from(publish: impl AsyncFn(), subscription: &mut Subscription, text: &str) {
    let deadline = Instant::now() + LIMIT;
    loop {
        assert!(Instant::now() < deadline, "{text:?} is not heard");
        publish().await;
        let wait = Duration::from_millis(50);
        while let Ok(event) = tokio::time::timeout(wait, subscription.next()).await {
            if event.expect("the handle is open") == Event::Message(text.as_bytes().into()) {
                return;
            }
        }
    }
}

/// The pub/sub connection's own connection sends nothing to the server that was the primary: it has to notice.
async fn follows_the_primary(replace: impl AsyncFnOnce(&SentinelSet)) {
    let set = SentinelSet::start().expect("a Sentinel set starts");
    let listener = Seawall::connect(&set.url()).await.expect("in");
    let publisher = Seawall::connect(&set.url()).await.expect("in");
    let mut subscription = listener.client().pubsub().subscribe(CHANNEL, LIMIT).await.expect("in");
    heard(&publisher, &mut subscription, "before").await;
    replace(&set).await;
    heard(&publisher, &mut subscription, "after").await;
    listener.shutdown().await;
    publisher.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_follows_an_ordered_fail_over() {
    follows_the_primary(async |set| {
        tokio::task::block_in_place(|| set.failover().map(drop)).expect("it hands over");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_follows_when_the_primary_hangs() {
    follows_the_primary(async |set| {
        tokio::task::block_in_place(|| {
            let lost = set.pause_primary().expect("it runs");
            set.await_failover(lost).map(drop)
        })
        .expect("another takes over");
    })
    .await;
}

fn client(node: &Node) -> Client {
    node.connect().expect("connected")
}

/// A node that is no longer part of the Cluster answers everything, and hears nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_leaves_a_node_that_left() {
    let cluster = Cluster::start().expect("a Cluster starts");
    let listener = Seawall::connect(&cluster.url()).await.expect("in");
    let mut subscription = listener.client().pubsub().subscribe(CHANNEL, LIMIT).await.expect("in");
    let subscribed = |node: &&Node| {
        let list = client(node).call(&["CLIENT", "LIST", "TYPE", "pubsub"]);
        !list.expect("answered").text().is_empty()
    };
    let home = cluster.nodes().iter().find(subscribed).expect("it is subscribed somewhere");
    let others: Vec<&Node> = cluster.nodes().iter().filter(|node| node.id() != home.id()).collect();
    // Told to a node that stays: what the one that left is told itself, it passes on to its own.
    let publish = |text: &'static str| {
        let other = others[0];
        async move || {
            let told = client(other).call(&["PUBLISH", "news", text]).expect("answered");
            assert!(!told.is_error(), "{told}");
        }
    };
    heard_from(publish("before"), &mut subscription, "before").await;
    tokio::task::block_in_place(|| {
        cluster.failover(home).expect("it hands over");
        let reset = client(home).call(&["CLUSTER", "RESET", "HARD"]).expect("answered");
        assert!(!reset.is_error(), "{reset}");
        for node in &others {
            let forgot = client(node).call(&["CLUSTER", "FORGET", home.id()]).expect("answered");
            assert!(!forgot.is_error(), "{forgot}");
        }
    });
    heard_from(publish("after"), &mut subscription, "after").await;
    listener.shutdown().await;
}

/// How often a node has read from a connection.
fn reads(node: &Node) -> u64 {
    let stats = client(node).call(&["INFO", "stats"]).expect("answered").text();
    let line = stats.lines().find_map(|line| line.strip_prefix("total_reads_processed:"));
    line.expect("it counts").parse().expect("a number")
}

/// A pipeline into a slot that is half there and half elsewhere, and after that into one that has
/// moved without the client's knowledge: every command finds its home, and they go on together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirected_pipeline_goes_on_as_one() {
    const KEYS: u64 = 200;
    let cluster = Cluster::with(3, 0).expect("a Cluster starts");
    let seawall = Seawall::connect(&cluster.url()).await.expect("in");
    let key = |number: u64| format!("{{moving}}{number}").into_bytes();
    let all = |name: &'static str| {
        let command = move |number| {
            let mut command = cmd(name);
            command.arg(key(number));
            if name == "SET" {
                command.arg(number);
            }
            (key(number), command)
        };
        (0..KEYS).map(command).collect::<Vec<_>>()
    };
    for reply in seawall.client().send_all(all("SET")).await {
        reply.expect("stored");
    }
    let slot = slot_of(b"{moving}");
    let from = cluster.primary_of_slot(slot).expect("it answers");
    let to = cluster.nodes().iter().find(|node| node.id() != from.id()).expect("three");
    let moving = tokio::task::block_in_place(|| {
        let moving = cluster.begin_move(slot, to).expect("it begins");
        (0..KEYS).step_by(2).for_each(|number| moving.move_key(&key(number)).expect("moved"));
        moving
    });
    let check = async |when: &str| {
        let before = reads(to);
        for (number, reply) in (0..KEYS).zip(seawall.client().send_all(all("GET")).await) {
            let value: u64 = redis_number(reply.expect("answered"));
            assert_eq!(value, number, "{when}");
        }
        let more = reads(to) - before;
        assert!(more < KEYS / 4, "{when}: {more} reads for {KEYS} commands");
    };
    check("half of it is there").await;
    tokio::task::block_in_place(|| {
        moving.move_keys().expect("moved");
        moving.finish().expect("finished");
    });
    check("all of it is there").await;
    seawall.shutdown().await;
}

fn redis_number(value: seawall::Value) -> u64 {
    let seawall::Value::BulkString(text) = value else { panic!("{value:?} is no text") };
    String::from_utf8_lossy(&text).parse().expect("a number")
}
