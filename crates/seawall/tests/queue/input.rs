//! Settings and payloads that make no sense are refused with a sentence; none of them panics.

use std::time::Duration;

use seawall::{Error, Seawall, queue::Job, stream::Outcome};

fn refused<T>(result: Result<T, Error>) -> String {
    match result {
        Err(Error::Invalid(text)) => text,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was accepted"),
    }
}

#[tokio::test]
async fn contradictions_are_named() {
    let seawall = Seawall::connect("embedded:").await.expect("in");
    let queue = || seawall.delayed_queue::<String>("q");
    assert!(refused(seawall.delayed_queue::<u64>("").build()).contains("empty"));
    assert!(refused(queue().shards(0).build()).contains("shards"));
    assert!(refused(queue().shards(1_000_000).build()).contains("shards"));
    assert!(refused(queue().lease_ttl(Duration::ZERO).build()).contains("lease"));
    assert!(refused(queue().max_attempts(0).build()).contains("attempts"));
    let queue = queue().build().expect("valid");
    let handler = |_: Job<String>| async { Outcome::Done };
    assert!(refused(queue.worker().concurrency(0).spawn(handler)).contains("concurrency"));
    assert!(refused(queue.worker().poll_interval(Duration::ZERO).spawn(handler)).contains("poll"));
    let text = "x".to_owned();
    let (now, for_ever) = (Duration::ZERO, Duration::MAX);
    assert!(refused(queue.add("", &text, now).await).contains("id"));
    assert!(refused(queue.add("x".repeat(2_000), &text, now).await).contains("id"));
    assert!(refused(queue.add("a", &"x".repeat(2 << 20), now).await).contains("longer"));
    let _ = queue.add("{}\u{0} :%", &text, for_ever).await.expect("bytes are bytes");
    assert!(queue.claim(0).await.expect("answered").jobs.is_empty());
    assert!(queue.claim(usize::MAX).await.expect("answered").jobs.is_empty());
    assert!(queue.dead(0).await.expect("answered").items.is_empty());
    let list = seawall.list_queue::<String>("l").expect("a name");
    assert!(refused(list.consumer("")).contains("empty"));
    assert!(refused(list.push(&"x".repeat(2 << 20)).await).contains("longer"));
    let talk = seawall.broadcast::<String>("b").expect("a name");
    assert!(refused(talk.publish(&"x".repeat(1 << 20)).await).contains("longer"));
    seawall.shutdown().await;
}
