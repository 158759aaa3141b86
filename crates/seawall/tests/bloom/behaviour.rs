//! What a filter says, how often it is wrong, and when it says nothing.

use seawall::{
    bloom::{Answer, Created, Insert},
    cmd,
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    what_was_added_is_never_denied_and_the_rest_mostly
    what_is_missing_denies_nothing
}

async fn what_was_added_is_never_denied_and_the_rest_mostly(setup: Setup) {
    let seawall = setup.connect().await;
    let filter = seawall.bloom::<u64>("shop", 3_000).false_positives(0.02).build().expect("valid");
    assert_eq!(filter.add(&1).await.expect("answered"), Insert::Unbuilt);
    assert_eq!(filter.contains(&1).await.expect("answered"), Answer::Possible);
    assert_eq!(filter.create().await.expect("answered"), Created::Created);
    assert_eq!(filter.create().await.expect("answered"), Created::Already);
    assert_eq!(filter.contains(&1).await.expect("answered"), Answer::Absent);
    assert_eq!(filter.add(&1).await.expect("answered"), Insert::New);
    assert_eq!(filter.add(&1).await.expect("answered"), Insert::Known);

    let keys: Vec<u64> = (0..3_000).collect();
    let inserted = filter.add_many(&keys).await.expect("answered");
    assert_eq!(inserted.len(), 3_000);
    assert_eq!(inserted[1], Insert::Known);
    let answers = filter.contains_many(&keys).await.expect("answered");
    assert!(answers.iter().all(|answer| *answer == Answer::Possible));

    let others: Vec<u64> = (1_000_000..1_020_000).collect();
    let answers = filter.contains_many(&others).await.expect("answered");
    let passed = answers.iter().filter(|answer| **answer == Answer::Possible).count();
    let measured = passed as f64 / others.len() as f64;
    assert!((0.01..0.03).contains(&measured), "{measured} pass, 0.02 was asked for");
    let status = filter.status().await.expect("answered");
    assert!((status.false_positives - measured).abs() < 0.006, "{status:?}, measured {measured}");
    assert!((2_900..=3_000).contains(&status.items) && !status.is_over_full(), "{status:?}");
    assert_eq!((status.parts, status.missing_parts), (1, 0));

    // Another process sees the same, whatever number it says.
    let other = setup.connect().await;
    let same = other.bloom::<u64>("shop", 7).build().expect("valid");
    assert_eq!(same.contains(&2_999).await.expect("answered"), Answer::Possible);
    let more = same.add_many(&(3_000..6_000).collect::<Vec<_>>()).await.expect("answered");
    assert!(more.iter().all(|inserted| *inserted != Insert::Unbuilt));
    assert!(filter.status().await.expect("answered").is_over_full());
    other.shutdown().await;
    seawall.shutdown().await;
}

async fn what_is_missing_denies_nothing(setup: Setup) {
    let seawall = setup.connect().await;
    // 1.2 MB in three parts, on different primaries of a Cluster.
    let filter = seawall.bloom::<u64>("big", 1_000_000).build().expect("valid");
    assert_eq!(filter.create().await.expect("answered"), Created::Created);
    let keys: Vec<u64> = (0..2_000).collect();
    let _ = filter.add_many(&keys).await.expect("answered");
    let status = filter.status().await.expect("answered");
    assert_eq!((status.parts, status.missing_parts), (3, 0));
    let client = seawall.client();
    for part in 0..3 {
        let key = setup.entry(&format!("bloom:{{big:{}:{part}}}", status.generation));
        let bytes: u64 =
            client.query(key.as_bytes(), cmd("STRLEN").arg(&key)).await.expect("a length");
        assert!((1..=512 * 1024).contains(&bytes), "no big key: {bytes}");
    }
    // Redis evicts one.
    let key = setup.entry(&format!("bloom:{{big:{}:1}}", status.generation));
    client.send(key.as_bytes(), cmd("DEL").arg(&key)).await.expect("answered");
    let answers = filter.contains_many(&keys).await.expect("answered");
    assert!(answers.iter().all(|answer| *answer == Answer::Possible), "none is denied");
    let others: Vec<u64> = (50_000..50_300).collect();
    let answers = filter.contains_many(&others).await.expect("answered");
    let denied = answers.iter().filter(|answer| **answer == Answer::Absent).count();
    assert!((100..300).contains(&denied), "{denied}: two parts of three still deny");
    assert_eq!(filter.status().await.expect("answered").missing_parts, 1);
    seawall.shutdown().await;
}
