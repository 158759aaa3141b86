//! The simple list: order, what is in hand, and what a dead consumer leaves.

use std::time::Duration;

use seawall::{
    Seawall,
    queue::{Finished, ListedConsumer, Taken},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::{
    PATIENCE,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    elements_come_in_order_and_stay_in_hand_until_they_are_finished
    what_a_dead_consumer_had_is_put_back_in_order
}

async fn take(consumer: &mut ListedConsumer<u64>) -> Taken<u64> {
    consumer.take(PATIENCE).await.expect("answered").expect("there is one")
}

async fn elements_come_in_order_and_stay_in_hand_until_they_are_finished(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.listed_queue::<u64>("list").expect("a name");
    for number in [1, 2, 2] {
        queue.push(&number).await.expect("pushed");
    }
    let mut consumer = queue.consumer("c").expect("a name");
    let (one, two) = (take(&mut consumer).await, take(&mut consumer).await);
    assert_eq!((*one.payload(), *two.payload()), (1, 2));
    assert_eq!(consumer.finish(one).await.expect("answered"), Finished::Done);
    // The process ends here; under its name the next one finds what it had.
    drop((consumer, two));
    let mut consumer = queue.consumer("c").expect("a name");
    let (again, last) = (take(&mut consumer).await, take(&mut consumer).await);
    assert_eq!((*again.payload(), *last.payload()), (2, 2));
    assert_ne!(again.reference(), last.reference(), "equal payloads are told apart");
    for taken in [again, last] {
        assert_eq!(consumer.finish(taken).await.expect("answered"), Finished::Done);
    }
    assert!(queue.is_empty().await.expect("answered"));
    let none = consumer.take(Duration::from_millis(20)).await.expect("answered");
    assert!(none.is_none());
    // Whoever waits is woken.
    let waiting = tokio::spawn(async move { take(&mut consumer).await.payload().to_owned() });
    queue.push(&7).await.expect("pushed");
    assert_eq!(waiting.await.expect("no panic"), 7);
    seawall.shutdown().await;
}

async fn what_a_dead_consumer_had_is_put_back_in_order(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.listed_queue::<u64>("recover").expect("a name");
    for number in 0..5 {
        queue.push(&number).await.expect("pushed");
    }
    let mut dead = queue.consumer("dead").expect("a name");
    let first = take(&mut dead).await;
    let _second = take(&mut dead).await;
    let hour = Duration::from_secs(3600);
    assert_eq!(queue.recover(hour).await.expect("answered"), 0, "it was heard of");
    assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 2);
    assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 0);
    assert_eq!(dead.finish(first).await.expect("answered"), Finished::PutBack);
    let mut heir = queue.consumer("heir").expect("a name");
    for number in 0..5 {
        let taken = take(&mut heir).await;
        assert_eq!(*taken.payload(), number);
        assert_eq!(heir.finish(taken).await.expect("answered"), Finished::Done);
    }
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_whose_reply_was_lost_is_found_again() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("in");
    let queue = seawall.listed_queue::<u64>("lost").expect("a name");
    for number in 0..3 {
        queue.push(&number).await.expect("pushed");
    }
    let mut consumer = queue.consumer("c").expect("a name");
    proxy.drop_reply(On::command("BLMOVE").once());
    let lost = consumer.take(Duration::from_millis(100)).await;
    assert!(lost.is_err_and(|error| error.is_indeterminate()));
    for number in 0..3 {
        let taken = take(&mut consumer).await;
        assert_eq!(*taken.payload(), number);
        assert_eq!(consumer.finish(taken).await.expect("answered"), Finished::Done);
    }
    seawall.shutdown().await;
}
