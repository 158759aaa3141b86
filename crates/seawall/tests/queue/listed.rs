//! The simple list: order, what is in hand, and what a dead consumer leaves.

use std::time::Duration;

use seawall::{
    Seawall, cmd,
    queue::{Finished, ListConsumer, Taken},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::{
    PATIENCE, eventually,
    setup::{Setup, on_every_backend},
};

on_every_backend! {
    elements_come_in_order_and_stay_in_hand_until_they_are_finished
    what_a_dead_consumer_had_is_put_back_in_order
    a_consumer_that_was_forgotten_while_it_waited_is_noted_when_it_takes
}

async fn take(consumer: &mut ListConsumer<u64>) -> Taken<u64> {
    consumer.take(PATIENCE).await.expect("answered").expect("there is one")
}

async fn elements_come_in_order_and_stay_in_hand_until_they_are_finished(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.list_queue::<u64>("list").expect("a name");
    for number in [1, 2, 2] {
        queue.push(&number).await.expect("pushed");
    }
    let mut consumer = queue.consumer("c").expect("a name");
    let (one, two) = (take(&mut consumer).await, take(&mut consumer).await);
    assert_eq!((*one.payload(), *two.payload()), (1, 2));
    assert_eq!(consumer.finish(&one).await.expect("answered"), Finished::Done);
    // The process ends here; under its name the next one finds what it had.
    drop((consumer, two));
    let mut consumer = queue.consumer("c").expect("a name");
    let (again, last) = (take(&mut consumer).await, take(&mut consumer).await);
    assert_eq!((*again.payload(), *last.payload()), (2, 2));
    assert_ne!(again.reference(), last.reference(), "equal payloads are told apart");
    for taken in [again, last] {
        assert_eq!(consumer.finish(&taken).await.expect("answered"), Finished::Done);
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
    let queue = seawall.list_queue::<u64>("recover").expect("a name");
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
    assert_eq!(dead.finish(&first).await.expect("answered"), Finished::PutBack);
    let mut heir = queue.consumer("heir").expect("a name");
    for number in 0..5 {
        let taken = take(&mut heir).await;
        assert_eq!(*taken.payload(), number);
        assert_eq!(heir.finish(&taken).await.expect("answered"), Finished::Done);
    }
    seawall.shutdown().await;
}

/// Nobody hears of a consumer that waits for up to a second, and meanwhile it can be forgotten.
async fn a_consumer_that_was_forgotten_while_it_waited_is_noted_when_it_takes(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.list_queue::<u64>("forgotten").expect("a name");
    let noted = async || -> u64 {
        let key = setup.entry("list:{forgotten}:consumers");
        seawall.client().query(key.as_bytes(), cmd("ZCARD").arg(&key)).await.expect("answered")
    };
    for number in 0..3 {
        let mut consumer = queue.consumer(format!("c-{number}")).expect("a name");
        let waiting = tokio::spawn(async move { *take(&mut consumer).await.payload() });
        eventually("it waits", async || noted().await == 1).await;
        eventually("it is forgotten", async || {
            assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 0);
            noted().await == 0
        })
        .await;
        queue.push(&number).await.expect("pushed");
        // It takes the element and is never heard of again.
        assert_eq!(waiting.await.expect("no panic"), number);
        let long = Duration::from_secs(3600);
        assert_eq!(queue.recover(long).await.expect("answered"), 0, "heard of when it took it");
        assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 1);
        let mut heir = queue.consumer("heir").expect("a name");
        let taken = take(&mut heir).await;
        assert_eq!(*taken.payload(), number);
        assert_eq!(heir.finish(&taken).await.expect("answered"), Finished::Done);
        assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 0);
    }
    seawall.shutdown().await;
}

/// Takes an element whose reply never arrives.
async fn lose_what_is_taken(proxy: &FaultProxy, consumer: &mut ListConsumer<u64>) {
    let takes = |command: &[Vec<u8>]| {
        command.iter().any(|word| word.windows(7).any(|part| part == b":taken:"))
    };
    let rule = proxy.drop_reply(On::command("EVALSHA").when(takes).once());
    let lost = consumer.take(Duration::from_millis(100)).await;
    assert!(lost.is_err_and(|error| error.is_indeterminate()));
    proxy.remove(rule);
}

/// The moment that matters: forgotten before its request arrives, dead before the reply does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_that_is_taken_by_a_dying_consumer_is_put_back() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("in");
    let queue = seawall.list_queue::<u64>("dying").expect("a name");
    for number in 0..2 {
        queue.push(&number).await.expect("pushed");
    }
    let mut consumer = queue.consumer("c").expect("a name");
    let taken = take(&mut consumer).await;
    assert_eq!(consumer.finish(&taken).await.expect("answered"), Finished::Done);
    assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 0, "it is forgotten");
    lose_what_is_taken(&proxy, &mut consumer).await;
    drop(consumer);
    assert!(queue.is_empty().await.expect("answered"), "it was taken");
    assert_eq!(queue.recover(Duration::ZERO).await.expect("answered"), 1);
    let mut heir = queue.consumer("heir").expect("a name");
    assert_eq!(*take(&mut heir).await.payload(), 1);
    seawall.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_whose_reply_was_lost_is_found_again() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("in");
    let queue = seawall.list_queue::<u64>("lost").expect("a name");
    for number in 0..3 {
        queue.push(&number).await.expect("pushed");
    }
    let mut consumer = queue.consumer("c").expect("a name");
    let taken = take(&mut consumer).await;
    assert_eq!(consumer.finish(&taken).await.expect("answered"), Finished::Done);
    lose_what_is_taken(&proxy, &mut consumer).await;
    assert_eq!(queue.len().await.expect("answered"), 1, "it was taken");
    for number in 1..3 {
        let taken = take(&mut consumer).await;
        assert_eq!(*taken.payload(), number);
        assert_eq!(consumer.finish(&taken).await.expect("answered"), Finished::Done);
    }
    seawall.shutdown().await;
}

/// It is neither finished nor lost: it can be finished again, or comes again once it was dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_element_whose_finish_failed_is_finished_again_or_taken_again() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a proxy");
    let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_millis(200));
    let seawall = builder.connect().await.expect("in");
    let queue = seawall.list_queue::<u64>("unfinished").expect("a name");
    for number in 0..3 {
        queue.push(&number).await.expect("pushed");
    }
    let mut consumer = queue.consumer("c").expect("a name");
    let (first, second) = (take(&mut consumer).await, take(&mut consumer).await);
    proxy.fail_with(On::command("LREM").times(2), "LOADING Redis is loading the dataset in memory");
    for taken in [&first, &second] {
        assert!(consumer.finish(taken).await.is_err());
    }
    assert_eq!(consumer.finish(&second).await.expect("answered"), Finished::Done);
    drop(first);
    let again = take(&mut consumer).await;
    assert_eq!(*again.payload(), 0, "it comes again, before those that wait");
    // Carried out, and only the reply is lost.
    proxy.drop_reply(On::command("LREM").once());
    assert!(consumer.finish(&again).await.is_err());
    assert_eq!(consumer.finish(&again).await.expect("answered"), Finished::PutBack);
    drop(again);
    let last = take(&mut consumer).await;
    assert_eq!(*last.payload(), 2);
    assert_eq!(consumer.finish(&last).await.expect("answered"), Finished::Done);
    drop((second, last));
    assert!(consumer.take(Duration::ZERO).await.expect("answered").is_none(), "nothing is left");
    seawall.shutdown().await;
}
