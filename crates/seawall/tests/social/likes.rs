//! Likes: one a member, whatever is clicked how often and by how many at once.

use seawall::{
    cmd,
    social::{Change, Likes, Toggle},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    a_double_click_is_one_like_and_the_first_five_keep_their_order
    sixty_four_tasks_toggle_and_the_count_is_right
}

async fn a_double_click_is_one_like_and_the_first_five_keep_their_order(setup: Setup) {
    let seawall = setup.connect().await;
    for spread in [1, 5] {
        let likes: Likes<u64> =
            seawall.likes(format!("note{spread}")).shards(spread).expect("valid");
        let note = likes.of(&42).expect("valid");
        assert!(note.first(5).await.expect("answered").is_empty());
        // Later ids first: the order is that of time.
        for member in (1..=9).rev() {
            assert_eq!(note.like(&member).await.expect("answered"), Change::Changed);
            assert_eq!(note.like(&member).await.expect("answered"), Change::Unchanged);
            let after = server_millis(&seawall).await;
            while server_millis(&seawall).await == after {}
        }
        assert_eq!(note.first(5).await.expect("answered"), [9, 8, 7, 6, 5]);
        assert_eq!(note.count().await.expect("answered"), 9);
        assert_eq!(note.unlike(&8).await.expect("answered"), Change::Changed);
        assert_eq!(note.unlike(&8).await.expect("answered"), Change::Unchanged);
        assert_eq!(note.first(3).await.expect("answered"), [9, 7, 6]);

        let asked: Vec<u64> = (0..2_500).collect();
        let who = note.among(&asked).await.expect("answered");
        let liked: Vec<u64> =
            asked.iter().zip(&who).filter(|(_, liked)| **liked).map(|(id, _)| *id).collect();
        assert_eq!(liked, [1, 2, 3, 4, 5, 6, 7, 9]);
        let of_nine = likes.liked_by(&9, &[41, 42, 43]).await.expect("answered");
        assert_eq!(of_nine, [false, true, false]);

        // What the database knows comes back with its own time, in front of all.
        note.restore(&[(100, 5), (9, 1)]).await.expect("answered");
        assert_eq!(note.first(2).await.expect("answered"), [100, 9]);
        assert_eq!(note.toggle(&100).await.expect("answered"), Toggle::Off);
        assert_eq!(note.toggle_once(&100, "click 1").await.expect("answered"), Toggle::On);
        assert_eq!(note.toggle_once(&100, "click 1").await.expect("answered"), Toggle::On);
        // Another one's first click is not the repetition of theirs.
        assert_eq!(note.toggle_once(&101, "click 1").await.expect("answered"), Toggle::On);
        assert_eq!(note.toggle_once(&101, "click 1").await.expect("answered"), Toggle::On);
        assert_eq!(note.among(&[100, 101]).await.expect("answered"), [true, true]);
        assert_eq!(note.toggle_once(&100, "click 2").await.expect("answered"), Toggle::Off);
        note.clear().await.expect("answered");
        assert_eq!(note.count().await.expect("answered"), 0);
    }
    seawall.shutdown().await;
}

async fn server_millis(seawall: &seawall::Seawall) -> u64 {
    let (seconds, micros): (u64, u64) =
        seawall.client().query(b"", &cmd("TIME")).await.expect("a time");
    seconds * 1000 + micros / 1000
}

async fn sixty_four_tasks_toggle_and_the_count_is_right(setup: Setup) {
    let handles = [setup.connect().await, setup.connect().await];
    let mut tasks = Vec::new();
    for task in 0..64_u64 {
        let note = handles[(task % 2) as usize].likes::<u64>("note").of(&1).expect("valid");
        tasks.push(tokio::spawn(async move {
            // All on the same eight members.
            let member = task % 8;
            let mut gained = 0_i64;
            for round in 0..20 {
                gained += match (task + round) % 3 {
                    0 => match note.toggle(&member).await.expect("answered") {
                        Toggle::On => 1,
                        Toggle::Off => -1,
                    },
                    1 => i64::from(note.like(&member).await.expect("answered") == Change::Changed),
                    _ => {
                        -i64::from(note.unlike(&member).await.expect("answered") == Change::Changed)
                    }
                };
            }
            gained
        }));
    }
    let mut gained = 0;
    for task in tasks {
        gained += task.await.expect("no panic");
    }
    let note = handles[0].likes::<u64>("note").of(&1).expect("valid");
    let count = note.count().await.expect("answered");
    assert_eq!(i64::try_from(count).expect("small"), gained, "what was told is what is there");
    for handle in handles.iter().rev() {
        handle.shutdown().await;
    }
}
