//! What a delayed queue promises to those who claim by hand.

use std::time::Duration;

use seawall::{
    cmd,
    queue::{Acked, Added, Changed, Delayed, Given, Job, JobState},
};

use crate::{
    eventually,
    setup::{Setup, on_every_backend},
};

const NOW: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_secs(3600);

on_every_backend! {
    an_item_is_added_once_and_handed_to_one_consumer
    what_is_given_back_comes_again_or_dies
    items_are_cancelled_and_moved_by_their_id
    a_sharded_queue_is_one_queue
    large_payloads_come_in_several_steps
    what_cannot_be_understood_is_dead_and_not_lost
    a_finished_id_can_be_added_again_when_it_is_remembered_no_longer
    a_consumer_of_the_past_cannot_settle_an_item_that_was_added_again
    tokens_and_attempts_go_on_from_what_earlier_versions_left
}

async fn claim(queue: &Delayed<u64>) -> Vec<Job<u64>> {
    queue.claim(100).await.expect("answered").jobs
}

async fn one(queue: &Delayed<u64>) -> Job<u64> {
    let mut jobs = claim(queue).await;
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    jobs.pop().expect("one")
}

async fn an_item_is_added_once_and_handed_to_one_consumer(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("once").build().expect("valid");
    let add = async |after| queue.add("a", &1, after).await.expect("answered");
    assert_eq!(add(NOW).await, Added::Now);
    assert_eq!(add(LATER).await, Added::Before(JobState::Waiting));
    let job = one(&queue).await;
    assert_eq!((job.id(), job.attempt(), *job.payload()), ("a", 1, 1));
    assert_eq!(add(NOW).await, Added::Before(JobState::Leased));
    let nothing = queue.claim(10).await.expect("answered");
    assert!(nothing.jobs.is_empty());
    let next = nothing.next_in.expect("the lease ends");
    assert!(next <= Duration::from_secs(30) && next > Duration::from_secs(10), "{next:?}");
    assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
    assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done, "it can be repeated");
    assert_eq!(add(NOW).await, Added::Before(JobState::Finished));
    let empty = queue.claim(10).await.expect("answered");
    assert_eq!((empty.jobs.len(), empty.next_in), (0, None));
    let status = queue.status().await.expect("answered");
    assert_eq!((status.waiting, status.leased, status.dead), (0, 0, 0));
    seawall.shutdown().await;
}

async fn what_is_given_back_comes_again_or_dies(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("back").max_attempts(2).build().expect("valid");
    assert_eq!(queue.add("a", &1, NOW).await.expect("answered"), Added::Now);
    let first = one(&queue).await;
    assert_eq!(queue.postpone(&first, NOW).await.expect("answered"), Given::Waiting);
    let again = one(&queue).await;
    assert_eq!(again.attempt(), 1, "that did not count");
    assert_eq!(queue.nack(&again, NOW, "busy").await.expect("answered"), Given::Waiting);
    assert_eq!(queue.nack(&again, NOW, "busy").await.expect("answered"), Given::Lost);
    let last = one(&queue).await;
    assert_eq!(last.attempt(), 2);
    for stale in [&first, &again] {
        assert_eq!(queue.ack(stale).await.expect("answered"), Acked::Lost);
        assert_eq!(queue.extend(stale, LATER).await.expect("answered"), Acked::Lost);
    }
    assert_eq!(queue.extend(&last, LATER).await.expect("answered"), Acked::Done);
    assert_eq!(queue.nack(&last, NOW, "too busy").await.expect("answered"), Given::Dead);
    assert!(claim(&queue).await.is_empty());
    let dead = queue.dead(10).await.expect("answered").items;
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].id.as_str(), dead[0].reason.as_str()), ("a", "too busy"));
    assert_eq!(dead[0].payload, b"1");
    assert_eq!(queue.add("a", &1, NOW).await.expect("answered"), Added::Before(JobState::Dead));
    assert_eq!(queue.reschedule("a", NOW).await.expect("answered"), Changed::Dead);
    assert_eq!(queue.revive("a", NOW).await.expect("answered"), Changed::Done);
    assert_eq!(queue.revive("a", NOW).await.expect("answered"), Changed::Unknown);
    let revived = one(&queue).await;
    assert_eq!(revived.attempt(), 1);
    assert_eq!(queue.ack(&last).await.expect("answered"), Acked::Lost, "a token of the past");
    assert_eq!(queue.bury(&revived, "enough").await.expect("answered"), Given::Dead);
    assert_eq!(queue.dead(10).await.expect("answered").items[0].reason, "enough");
    assert_eq!(queue.cancel("a").await.expect("answered"), Changed::Done);
    assert!(queue.dead(10).await.expect("answered").items.is_empty());
    seawall.shutdown().await;
}

async fn items_are_cancelled_and_moved_by_their_id(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("change").build().expect("valid");
    for (id, number) in [("a", 1), ("b", 2), ("c", 3)] {
        assert_eq!(queue.add(id, &number, LATER).await.expect("answered"), Added::Now);
    }
    assert!(claim(&queue).await.is_empty(), "none is due");
    assert_eq!(queue.cancel("a").await.expect("answered"), Changed::Done);
    assert_eq!(queue.cancel("a").await.expect("answered"), Changed::Unknown);
    assert_eq!(queue.reschedule("b", NOW).await.expect("answered"), Changed::Done);
    assert_eq!(queue.reschedule("x", NOW).await.expect("answered"), Changed::Unknown);
    let job = one(&queue).await;
    assert_eq!(job.id(), "b");
    assert_eq!(queue.cancel("b").await.expect("answered"), Changed::Leased);
    assert_eq!(queue.reschedule("b", NOW).await.expect("answered"), Changed::Leased);
    assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
    assert_eq!(queue.add("a", &9, NOW).await.expect("answered"), Added::Now, "it was cancelled");
    assert_eq!(*one(&queue).await.payload(), 9);
    seawall.shutdown().await;
}

async fn a_sharded_queue_is_one_queue(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("shards").shards(5).build().expect("valid");
    let items: Vec<_> = (0..50).map(|number| (format!("item-{number}"), number, NOW)).collect();
    let added = queue.add_all(&items).await.expect("answered");
    assert!(added.iter().all(|added| *added == Added::Now));
    let again = queue.add_all(&items).await.expect("answered");
    assert!(again.iter().all(|added| *added == Added::Before(JobState::Waiting)));
    assert_eq!(queue.status().await.expect("answered").waiting, 50);
    let mut seen = Vec::new();
    for turn in 0..50 {
        let claimed = queue.claim(7).await.expect("answered").jobs;
        assert!(claimed.len() <= 7);
        for job in claimed {
            assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
            seen.push(job.into_payload());
        }
        if seen.len() == 50 {
            break;
        }
        assert!(turn < 49, "{seen:?}");
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
    seawall.shutdown().await;
}

/// 24 payloads of 200 KB: no command carries all of them, and none is forgotten.
async fn large_payloads_come_in_several_steps(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<String>("large").build().expect("valid");
    let text = |number: usize| number.to_string().repeat(200_000 / number.to_string().len());
    let items: Vec<_> = (0..24).map(|number| (number.to_string(), text(number), NOW)).collect();
    let added = queue.add_all(&items).await.expect("answered");
    assert!(added.iter().all(|added| *added == Added::Now));
    let mut seen = Vec::new();
    while seen.len() < 24 {
        let claim = queue.claim(24).await.expect("answered");
        let bytes: usize = claim.jobs.iter().map(|job| job.payload().len()).sum();
        assert!((1..=1 << 20).contains(&bytes), "{bytes}");
        if seen.len() + claim.jobs.len() < 24 {
            assert_eq!(claim.next_in, Some(Duration::ZERO), "there is more");
        }
        for job in claim.jobs {
            assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
            seen.push(job.into_payload());
        }
    }
    seen.sort_unstable();
    let mut expected: Vec<_> = items.into_iter().map(|(_, text, _)| text).collect();
    expected.sort_unstable();
    assert_eq!(seen, expected);
    seawall.shutdown().await;
}

async fn what_cannot_be_understood_is_dead_and_not_lost(setup: Setup) {
    let seawall = setup.connect().await;
    let words = seawall.delayed_queue::<String>("words").build().expect("valid");
    assert_eq!(words.add("w", &"text".to_owned(), NOW).await.expect("answered"), Added::Now);
    let numbers = seawall.delayed_queue::<u64>("words").build().expect("valid");
    assert!(claim(&numbers).await.is_empty());
    let dead = numbers.dead(10).await.expect("answered").items;
    assert!(dead[0].reason.contains("not understood"), "{dead:?}");
    assert_eq!(dead[0].payload, b"\"text\"");
    assert_eq!(dead[0].attempts, 0, "nobody was given it");
    assert_eq!(words.revive("w", NOW).await.expect("answered"), Changed::Done);
    assert_eq!(words.claim(1).await.expect("answered").jobs[0].payload(), "text");
    seawall.shutdown().await;
}

/// Also in a queue where nothing else happens.
async fn a_finished_id_can_be_added_again_when_it_is_remembered_no_longer(setup: Setup) {
    let seawall = setup.connect().await;
    let builder = seawall.delayed_queue::<u64>("quiet").dedup_ttl(Duration::from_millis(100));
    let queue = builder.build().expect("valid");
    for round in 0..3 {
        let _ = queue.add("daily", &round, NOW).await.expect("answered");
        let job = one(&queue).await;
        assert_eq!((*job.payload(), job.attempt()), (round, 1));
        assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
        eventually("it is added again", async || {
            match queue.add("daily", &(round + 1), NOW).await.expect("answered") {
                Added::Now => true,
                Added::Before(JobState::Finished) => false,
                other @ Added::Before(_) => panic!("{other:?}"),
            }
        })
        .await;
    }
    seawall.shutdown().await;
}

/// Its lease ended, or it gave the item back; then another consumer has one of the same id.
async fn a_consumer_of_the_past_cannot_settle_an_item_that_was_added_again(setup: Setup) {
    let seawall = setup.connect().await;
    let builder = seawall.delayed_queue::<u64>("past").lease_ttl(Duration::from_millis(50));
    let queue = builder.dedup_ttl(Duration::ZERO).build().expect("valid");
    let _ = queue.add("x", &1, NOW).await.expect("answered");
    let slow = one(&queue).await;
    let mut second = None;
    eventually("its lease has ended", async || {
        second = claim(&queue).await.pop();
        second.is_some()
    })
    .await;
    let second = second.expect("claimed");
    assert_eq!(second.attempt(), 2);
    assert_eq!(queue.nack(&second, LATER, "busy").await.expect("answered"), Given::Waiting);
    assert_eq!(queue.cancel("x").await.expect("answered"), Changed::Done);
    // Removed by being cancelled, then by being finished.
    for payload in [2, 3] {
        let _ = queue.add("x", &payload, NOW).await.expect("answered");
        let job = one(&queue).await;
        assert_eq!((*job.payload(), job.attempt()), (payload, 1));
        for past in [&slow, &second] {
            assert_eq!(queue.ack(past).await.expect("answered"), Acked::Lost);
            assert_eq!(queue.extend(past, LATER).await.expect("answered"), Acked::Lost);
            assert_eq!(queue.nack(past, NOW, "late").await.expect("answered"), Given::Lost);
            assert_eq!(queue.bury(past, "late").await.expect("answered"), Given::Lost);
        }
        assert_eq!(queue.status().await.expect("answered").leased, 1);
        assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
    }
    seawall.shutdown().await;
}

/// Tokens were once how often an item had been handed out.
async fn tokens_and_attempts_go_on_from_what_earlier_versions_left(setup: Setup) {
    let seawall = setup.connect().await;
    let queue = seawall.delayed_queue::<u64>("former").max_attempts(4).build().expect("valid");
    let base = setup.entry("delayed:{former}");
    let run = async |name: &str, part: &str, arguments: &[&str]| {
        let key = format!("{base}{part}");
        seawall
            .client()
            .send(key.as_bytes(), cmd(name).arg(&key).arg(arguments))
            .await
            .expect("ran")
    };
    run("HSET", ":payloads", &["lives", "1", "dead", "2"]).await;
    run("HSET", ":tokens", &["lives", "3", "dead", "4"]).await;
    run("HSET", ":notes", &["lives", "1", "dead", "too old"]).await;
    run("ZADD", "", &["1", "lives"]).await;
    run("ZADD", ":dead", &["1", "dead"]).await;
    let mut past = None;
    for attempt in 3..=4 {
        let job = one(&queue).await;
        assert_eq!((job.id(), job.attempt()), ("lives", attempt));
        if let Some(past) = past {
            assert_eq!(queue.ack(&past).await.expect("answered"), Acked::Lost);
        }
        let _ = queue.nack(&job, NOW, "busy").await.expect("answered");
        past = Some(job);
    }
    let mut dead = queue.dead(10).await.expect("answered").items;
    dead.sort_by(|one, other| one.id.cmp(&other.id));
    let seen: Vec<_> =
        dead.iter().map(|dead| (dead.id.as_str(), dead.attempts, dead.reason.as_str())).collect();
    assert_eq!(seen, [("dead", 4, "too old"), ("lives", 4, "busy")]);
    for id in ["dead", "lives"] {
        assert_eq!(queue.revive(id, NOW).await.expect("answered"), Changed::Done);
        let job = one(&queue).await;
        assert_eq!((job.id(), job.attempt()), (id, 1));
        assert_eq!(queue.ack(&job).await.expect("answered"), Acked::Done);
    }
    seawall.shutdown().await;
}
