//! Replies that never come: what says that it may be repeated is repeated, and nothing happens twice.

use std::time::Duration;

use seawall::{
    Seawall,
    social::{Change, Follow, Post, Toggle},
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

/// Asks again until it is answered, as callers may do.
async fn insist<T, Fut>(operation: impl Fn() -> Fut) -> T
where
    Fut: Future<Output = seawall::Result<T>>,
{
    for _ in 0..20 {
        match operation().await {
            Ok(done) => return done,
            Err(error) => assert!(error.is_outage(), "{error}"),
        }
    }
    panic!("not answered in 20 attempts");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_happens_twice() {
    let server = ServerProcess::redis().expect("it starts");
    let proxy = FaultProxy::start(server.port()).expect("it starts");
    let builder = Seawall::builder(&proxy.url());
    let seawall =
        builder.response_timeout(Duration::from_millis(300)).connect().await.expect("connected");
    let lose = || proxy.drop_reply(On::command("EVALSHA").once());

    let note = seawall.likes::<u64>("note").of(&1).expect("valid");
    assert_eq!(note.toggle(&1).await.expect("answered"), Toggle::On);
    for expected in [Toggle::Off, Toggle::On, Toggle::Off, Toggle::On] {
        lose();
        assert_eq!(note.toggle(&1).await.expect("asked again by itself"), expected);
    }
    lose();
    let _: Change = insist(|| note.like(&2)).await;
    assert_eq!(note.count().await.expect("answered"), 2);

    let season = seawall.leaderboard::<u64>("board").season("s").expect("valid");
    for round in 1..=4_i64 {
        let reference = round.to_string();
        if round > 1 {
            lose();
        }
        let score = insist(|| season.add(&1, 10, &reference)).await;
        assert_eq!(score, 10 * round);
    }

    let follows = seawall.follows::<u64>("user").build().expect("valid");
    let ann = follows.of(&1).expect("valid");
    assert_eq!(ann.follow(&2).await.expect("answered"), Follow::Followed);
    lose();
    let _: Follow = insist(|| ann.follow(&3)).await;
    assert_eq!(ann.count().await.expect("answered"), 2);

    // A push to many of which a whole pipeline is lost: those are handed back, and pushed again.
    let feed = seawall.inbox::<u64>("feed");
    let fans: Vec<u64> = (0..20).collect();
    let post = Post { author: 1, item: 2, time: 3 };
    let _ = feed.push(&post, &fans[..1]).await.expect("valid");
    lose();
    let mut left = fans;
    for _ in 0..20 {
        left = feed.push(&post, &left).await.expect("valid").missed;
        if left.is_empty() {
            break;
        }
    }
    assert!(left.is_empty());
    for fan in 0..20 {
        assert_eq!(feed.of(&fan).expect("valid").count().await.expect("answered"), 1);
    }
    seawall.shutdown().await;
}
