//! The broadcast: everybody hears everything, or is told that it did not.

use seawall::{Seawall, queue::Heard};
use seawall_testkit::{ServerProcess, proxy::FaultProxy};

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    every_listener_hears_every_message_in_order
}

async fn every_listener_hears_every_message_in_order(setup: Setup) {
    let (one, other) = (setup.connect().await, setup.connect().await);
    let talk = one.broadcast::<u64>("talk").expect("a name");
    let mut near = talk.listen().await.expect("in");
    let mut far = other.broadcast::<u64>("talk").expect("a name").listen().await.expect("in");
    for number in 0..50 {
        talk.publish(&number).await.expect("said");
    }
    for number in 0..50 {
        assert_eq!(near.next().await, Some(Heard::Message(number)));
        assert_eq!(far.next().await, Some(Heard::Message(number)));
    }
    let words = one.broadcast::<String>("talk").expect("a name");
    words.publish(&"not a number".to_owned()).await.expect("said");
    assert!(matches!(near.next().await, Some(Heard::Unreadable(_))));
    talk.publish(&51).await.expect("said");
    assert_eq!(near.next().await, Some(Heard::Message(51)), "one bad message is one bad message");
    other.shutdown().await;
    one.shutdown().await;
    assert_eq!(near.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_missed_something_is_told() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let seawall = Seawall::connect(&proxy.url()).await.expect("in");
    let talk = seawall.broadcast::<u64>("talk").expect("a name");
    let mut listener = talk.listen().await.expect("in");
    talk.publish(&0).await.expect("said");
    assert_eq!(listener.next().await, Some(Heard::Message(0)));
    // Two messages vanish on the way, and nothing else happens.
    proxy.drop_next_pushes("broadcast:{talk}", 2);
    for number in 1..4 {
        talk.publish(&number).await.expect("said");
    }
    assert_eq!(listener.next().await, Some(Heard::Missed(Some(2))));
    assert_eq!(listener.next().await, Some(Heard::Message(3)));
    // The connection breaks: nobody knows how much was said meanwhile.
    proxy.cut_all();
    assert_eq!(listener.next().await, Some(Heard::Missed(None)));
    eventually("it goes on", async || talk.publish(&4).await.is_ok()).await;
    // A cut may have cost the number of the next one, too.
    let mut heard = listener.next().await;
    while matches!(heard, Some(Heard::Missed(_))) {
        heard = listener.next().await;
    }
    assert_eq!(heard, Some(Heard::Message(4)));
    seawall.shutdown().await;
}
