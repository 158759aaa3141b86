//! Time in our hands: due times, leases, order and memory, on a clock that is advanced by hand.

use std::time::Duration;

use seawall::{
    queue::{Acked, Added, Delayed, Job, JobState},
    stream::Outcome,
    testing::TestServer,
};
use tokio::sync::mpsc::unbounded_channel;

const SECOND: Duration = Duration::from_secs(1);

async fn due(queue: &Delayed<u64>) -> Vec<u64> {
    let claim = queue.claim(100).await.expect("answered");
    claim.jobs.into_iter().map(Job::into_payload).collect()
}

#[tokio::test]
async fn items_come_when_they_are_due_in_that_order_and_not_before() {
    let test_server = TestServer::start().await.expect("it starts");
    let queue = test_server.seawall().delayed_queue::<u64>("due").build().expect("valid");
    for number in [30, 10, 50, 20, 40, 11] {
        let added = queue.add(format!("{number}"), &number, Duration::from_secs(number)).await;
        assert_eq!(added.expect("answered"), Added::Now);
    }
    assert!(due(&queue).await.is_empty());
    let next = queue.claim(1).await.expect("answered").next_in;
    assert_eq!(next, Some(10 * SECOND));
    test_server.advance(10 * SECOND - Duration::from_millis(1)).await;
    assert!(due(&queue).await.is_empty());
    test_server.advance(Duration::from_millis(1)).await;
    assert_eq!(due(&queue).await, [10]);
    test_server.advance(20 * SECOND).await;
    assert_eq!(due(&queue).await, [11, 20, 30]);
    test_server.shutdown().await;
}

#[tokio::test]
async fn an_item_whose_consumer_died_comes_back_when_its_lease_ends() {
    let test_server = TestServer::start().await.expect("it starts");
    let seawall = test_server.seawall();
    let queue =
        seawall.delayed_queue::<u64>("lease").lease_ttl(10 * SECOND).max_attempts(3).build();
    let queue = queue.expect("valid");
    let _ = queue.add("a", &1, Duration::ZERO).await.expect("answered");
    let mut jobs = queue.claim(1).await.expect("answered").jobs;
    let dead = jobs.pop().expect("due");
    test_server.advance(8 * SECOND).await;
    assert_eq!(queue.extend(&dead, 10 * SECOND).await.expect("answered"), Acked::Done);
    test_server.advance(8 * SECOND).await;
    assert!(due(&queue).await.is_empty(), "it was extended");
    test_server.advance(2 * SECOND).await;
    let heir = queue.claim(1).await.expect("answered").jobs.pop().expect("the lease has ended");
    assert_eq!(heir.attempt(), 2);
    assert_eq!(queue.ack(&dead).await.expect("answered"), Acked::Lost);
    // Late, but nobody else has it.
    test_server.advance(11 * SECOND).await;
    assert_eq!(queue.ack(&heir).await.expect("answered"), Acked::Done);
    let _ = queue.add("b", &2, Duration::ZERO).await.expect("answered");
    // Once with others, perhaps, and then alone as often as is allowed.
    for _ in 0..4 {
        assert_eq!(due(&queue).await, [2]);
        test_server.advance(11 * SECOND).await;
    }
    assert!(due(&queue).await.is_empty());
    let dead = queue.dead(10).await.expect("answered").items;
    assert!(dead[0].reason.contains("after 3 attempts that count"), "{dead:?}");
    assert_eq!(dead[0].attempts, 3);
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_finished_id_is_remembered_for_a_while() {
    let test_server = TestServer::start().await.expect("it starts");
    let seawall = test_server.seawall();
    let queue = seawall.delayed_queue::<u64>("memory").dedup_ttl(60 * SECOND).build();
    let queue = queue.expect("valid");
    let add = async || queue.add("a", &1, Duration::ZERO).await.expect("answered");
    let finish = async || {
        let job = queue.claim(1).await.expect("answered").jobs.pop().expect("due");
        assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
    };
    assert_eq!(add().await, Added::Now);
    finish().await;
    test_server.advance(59 * SECOND).await;
    assert_eq!(add().await, Added::Before(JobState::Finished));
    // Whether or not anything else was finished meanwhile.
    test_server.advance(SECOND + Duration::from_millis(1)).await;
    assert_eq!(add().await, Added::Now);
    assert_eq!(add().await, Added::Before(JobState::Waiting));
    finish().await;
    assert_eq!(add().await, Added::Before(JobState::Finished), "remembered from now on");
    test_server.shutdown().await;
}

#[tokio::test]
async fn a_worker_wakes_up_for_what_is_due_and_for_what_is_earlier() {
    let test_server = TestServer::start().await.expect("it starts");
    let queue = test_server.seawall().delayed_queue::<u64>("wake").build().expect("valid");
    let (tell, mut told) = unbounded_channel();
    // It would look only once an hour.
    let worker = queue.worker().poll_interval(3600 * SECOND).spawn(move |job: Job<u64>| {
        tell.send(*job.payload()).expect("the test listens");
        async { Outcome::Done }
    });
    let worker = worker.expect("valid");
    let _ = queue.add("late", &2, 100 * SECOND).await.expect("answered");
    let _ = queue.add("early", &1, 10 * SECOND).await.expect("answered");
    assert!(told.try_recv().is_err());
    let mut passed = Duration::ZERO;
    for (number, at) in [(1, 10 * SECOND), (2, 100 * SECOND)] {
        crate::eventually("it is handled when it is due", async || {
            // Until the worker has heard the message it sleeps: the hand moves on in small steps.
            if passed < at + SECOND {
                test_server.advance(SECOND).await;
                passed += SECOND;
            }
            told.try_recv().is_ok_and(|seen| seen == number)
        })
        .await;
        assert!(passed >= at, "{passed:?}");
    }
    worker.shutdown().await;
    test_server.shutdown().await;
}

/// Time stands still: nobody is woken by anything but the bell.
#[tokio::test]
async fn a_waiting_consumer_of_the_list_is_woken_by_what_is_pushed_and_what_is_put_back() {
    let test_server = TestServer::start().await.expect("it starts");
    let queue = test_server.seawall().list_queue::<u64>("bell").expect("a name");
    let (tell, mut told) = unbounded_channel();
    let consumers: Vec<_> = (0..3)
        .map(|number| {
            let (queue, tell) = (queue.clone(), tell.clone());
            tokio::spawn(async move {
                let mut consumer = queue.consumer(format!("c-{number}")).expect("a name");
                // Each takes three, and keeps the last.
                for turn in 0..3 {
                    let taken = consumer.take(3600 * SECOND).await.expect("answered");
                    let taken = taken.expect("it waits for long enough");
                    tell.send(*taken.payload()).expect("the test listens");
                    if turn < 2 {
                        let _ = consumer.finish(&taken).await.expect("answered");
                    }
                }
            })
        })
        .collect();
    for number in 0..9 {
        queue.push(&number).await.expect("pushed");
        if number % 2 == 0 {
            // Several at once, and one by one.
            tokio::task::yield_now().await;
        }
    }
    for consumer in consumers {
        consumer.await.expect("no panic");
    }
    let mut heir = queue.consumer("heir").expect("a name");
    let waiting = tokio::spawn(async move { heir.take(3600 * SECOND).await });
    // Three, and perhaps what the heir has taken meanwhile.
    assert!(queue.recover(Duration::ZERO).await.expect("answered") >= 3);
    assert!(waiting.await.expect("no panic").expect("answered").is_some());
    drop(tell);
    let mut seen: Vec<u64> = std::iter::from_fn(|| told.try_recv().ok()).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..9).collect::<Vec<_>>());
    test_server.shutdown().await;
}
