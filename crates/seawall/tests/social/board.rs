//! Leaderboards: ranks, ties, seasons.

use std::{cell::Cell, time::Duration};

use proptest::prelude::*;
use seawall::{
    cmd,
    social::{MAX_SCORE, Season},
    testing::TestServer,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    ranks_are_those_of_the_textbook
    sixty_four_tasks_add_and_nothing_is_lost
}

async fn ranks_are_those_of_the_textbook(setup: Setup) {
    let seawall = setup.connect().await;
    let board = seawall.leaderboard::<String>("game").ttl(Duration::from_secs(3600));
    let season = board.season("2026-11").expect("valid");
    assert!(season.top(10).await.expect("answered").is_empty());
    let name = |text: &str| text.to_owned();
    for (who, score) in [("a", 50), ("z", 70), ("b", 70), ("c", 90), ("d", 10)] {
        assert_eq!(season.set(&name(who), score).await.expect("answered"), score);
    }
    let top = season.top(10).await.expect("answered");
    let shown: Vec<_> = top
        .iter()
        .map(|s| (s.member.as_str(), s.score, s.position, s.rank, s.dense_rank))
        .collect();
    let expected = [
        ("c", 90, 1, 1, 1),
        ("z", 70, 2, 2, 2),
        ("b", 70, 3, 2, 2),
        ("a", 50, 4, 4, 3),
        ("d", 10, 5, 5, 4),
    ];
    assert_eq!(shown, expected, "z was there before b");

    let around = season.around(&name("b"), 1).await.expect("answered");
    assert_eq!(around, top[1..4]);
    assert_eq!(season.around(&name("c"), 1).await.expect("answered"), top[..2]);
    assert_eq!(season.standing(&name("a")).await.expect("answered").as_ref(), Some(&top[3]));
    assert_eq!(season.standing(&name("nobody")).await.expect("answered"), None);
    assert_eq!(season.page(3, 10).await.expect("answered"), top[3..]);
    assert!(season.page(u64::MAX, 10).await.expect("answered").is_empty());

    // The same score again keeps its time; a worse one does not count; a better one goes behind those
    // who had it before.
    season.set(&name("z"), 70).await.expect("answered");
    assert_eq!(season.set_if_better(&name("z"), 60).await.expect("answered"), 70);
    assert_eq!(season.top(3).await.expect("answered"), top[..3]);
    assert_eq!(season.set_if_better(&name("a"), 90).await.expect("answered"), 90);
    let first = season.top(2).await.expect("answered");
    assert_eq!((first[0].member.as_str(), first[1].member.as_str()), ("c", "a"));
    assert_eq!((first[1].rank, first[1].dense_rank), (1, 1));

    assert_eq!(season.add(&name("d"), 5, "r1").await.expect("answered"), 15);
    assert_eq!(season.add(&name("d"), 5, "r1").await.expect("answered"), 15, "once a reference");
    assert_eq!(season.add(&name("new"), -5, "r2").await.expect("answered"), -5);
    // Both win points in one match: a reference is one of its member's.
    assert_eq!(season.add(&name("new"), 7, "r1").await.expect("answered"), 2);
    assert_eq!(season.add(&name("new"), -7, "r1:").await.expect("answered"), -5);
    season.remove(&name("c")).await.expect("answered");
    assert_eq!(season.count().await.expect("answered"), 5);

    // The limits.
    assert_eq!(season.set(&name("max"), MAX_SCORE).await.expect("answered"), MAX_SCORE);
    assert_eq!(season.set(&name("min"), -MAX_SCORE).await.expect("answered"), -MAX_SCORE);
    assert!(season.set(&name("max"), MAX_SCORE + 1).await.is_err());
    assert!(season.add(&name("max"), 1, "r3").await.is_err());
    assert_eq!(season.top(1).await.expect("answered")[0].score, MAX_SCORE);

    // Another season is another list; a board's keys live as long as each other.
    assert_eq!(board.season("2026-12").expect("valid").count().await.expect("answered"), 0);
    let mut left = Vec::new();
    for suffix in ["", ":m", ":s"] {
        let key = setup.entry(&format!("board:{{game:2026-11}}{suffix}"));
        let ttl: i64 =
            seawall.client().query(key.as_bytes(), cmd("PEXPIRETIME").arg(&key)).await.unwrap_or(1);
        left.push(ttl);
    }
    assert!(left[0] > 0 && left.iter().all(|end| *end == left[0]), "{left:?}");

    let short = seawall.leaderboard::<u64>("best").max_kept(3).season("all").expect("valid");
    for id in 0..10 {
        short.set(&id, id as i64).await.expect("answered");
    }
    let kept: Vec<_> = short.top(10).await.expect("answered").iter().map(|s| s.member).collect();
    assert_eq!(kept, [9, 8, 7]);
    seawall.shutdown().await;
}

async fn sixty_four_tasks_add_and_nothing_is_lost(setup: Setup) {
    let seawall = setup.connect().await;
    let mut tasks = Vec::new();
    for task in 0..64_i64 {
        let season = seawall.leaderboard::<u64>("sum").season("all").expect("valid");
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                let reference = format!("{task}-{round}");
                // Each is sent twice, as after a lost reply.
                season.add(&((task % 4) as u64), 1, &reference).await.expect("answered");
                season.add(&((task % 4) as u64), 1, &reference).await.expect("answered");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
    let season: Season<u64> = seawall.leaderboard("sum").season("all").expect("valid");
    let top = season.top(10).await.expect("answered");
    assert_eq!(top.len(), 4);
    assert!(top.iter().all(|s| s.score == 160 && s.rank == 1 && s.dense_rank == 1), "{top:?}");
    seawall.shutdown().await;
}

#[test]
fn a_board_is_a_sorted_list() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let test_server = runtime.block_on(TestServer::start()).expect("it starts");
    let steps = proptest::collection::vec((0_u64..8, -3_i64..4, 0_u8..4), 1..40);
    let config = ProptestConfig { cases: 48, failure_persistence: None, ..Default::default() };
    let cases = Cell::new(0_u64);
    proptest!(config, |(steps in steps)| {
        cases.set(cases.get() + 1);
        let case = cases.get();
        let season = test_server.seawall().leaderboard::<u64>("model").season(&case).expect("valid");
        // member → (score, time), worst first.
        let mut model: Vec<(i64, std::cmp::Reverse<usize>, u64)> = Vec::new();
        runtime.block_on(async {
            for (time, (member, score, kind)) in steps.into_iter().enumerate() {
                test_server.advance(Duration::from_micros(1)).await;
                let old = model.iter().position(|(.., other)| *other == member);
                let standing = old.map(|at| model[at].0);
                let new = match kind {
                    0 => { season.set(&member, score).await.expect("answered"); Some(score) }
                    1 => {
                        season.set_if_better(&member, score).await.expect("answered");
                        Some(standing.map_or(score, |standing| standing.max(score)))
                    }
                    2 => {
                        season.add(&member, score, &time.to_string()).await.expect("answered");
                        Some(standing.unwrap_or(0) + score)
                    }
                    _ => { season.remove(&member).await.expect("answered"); None }
                };
                if new != standing || new.is_none() {
                    if let Some(old) = old { model.remove(old); }
                    if let Some(new) = new { model.push((new, std::cmp::Reverse(time), member)); }
                }
                model.sort();
                let page = season.top(20).await.expect("answered");
                let expected: Vec<(u64, i64)> = model.iter().rev().map(|(score, _, member)| (*member, *score)).collect();
                let got: Vec<(u64, i64)> = page.iter().map(|s| (s.member, s.score)).collect();
                assert_eq!(got, expected);
                for s in &page {
                    let better = model.iter().filter(|(score, ..)| *score > s.score);
                    let mut scores: Vec<i64> = better.clone().map(|(score, ..)| *score).collect();
                    assert_eq!(s.rank, 1 + better.count() as u64);
                    scores.dedup();
                    assert_eq!(s.dense_rank, 1 + scores.len() as u64);
                    assert_eq!(season.standing(&s.member).await.expect("answered").as_ref(), Some(s));
                }
            }
        });
    });
    runtime.block_on(test_server.shutdown());
}
