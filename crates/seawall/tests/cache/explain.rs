//! What `explain` says about a key in each state it can be in, and that asking changes nothing.

use serde_json::json;

use std::{io, sync::Arc, time::Duration};

use seawall::{
    cache::{
        Cache, Explanation, Freshness, KeyFilter, KeySink, Loaded, OnInvalidate, RemoteEntry,
        RemoteState,
    },
    cmd,
    testing::TestServer,
};
use tokio::sync::Semaphore;

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    an_absent_key_stays_absent
    a_load_is_seen_by_everybody
    a_fresh_value_is_described
    a_value_past_its_lifetime_may_stand_in
    the_knowledge_that_there_is_none_is_an_entry
    a_kept_value_is_said_to_be_invalidated
    what_is_not_ours_is_said_to_be_foreign
    a_cleared_tag_shows
    it_can_be_read_by_machines
    the_filter_has_an_opinion
}

fn entry(explanation: &Explanation) -> &RemoteEntry {
    match &explanation.remote {
        RemoteState::Entry(entry) => entry,
        other => panic!("{other:?}"),
    }
}

async fn fill(cache: &Cache<u64, String>, value: Option<&str>) {
    let loaded = Loaded::from(value.map(str::to_owned));
    let load = move || async move { Ok::<_, io::Error>(loaded) };
    let _ = cache.get_or_load(&1, load).await.expect("loaded");
}

/// Reads until a copy stays in the first level: it is emptied once, when its listener has connected.
async fn explain_copied(cache: &Cache<u64, String>) -> Explanation {
    for _ in 0..500 {
        let said = cache.explain(&1).await.expect("a good key");
        if said.local.is_some() {
            return said;
        }
        let read = cache.get(&1).await.expect("an answer");
        assert!(read.is_some(), "it was loaded");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    panic!("no copy within a second");
}

async fn an_absent_key_stays_absent(setup: Setup) {
    let seawall = setup.connect().await;
    let tags = |key: &u64| vec![format!("t{key}")];
    let cache: Cache<u64, String> =
        seawall.cache("absent").tags(tags).clearable().build().expect("options agree");
    for _ in 0..2 {
        let said = cache.explain(&1).await.expect("a good key");
        assert_eq!((said.local.as_ref(), &said.remote), (None, &RemoteState::None), "{said}");
        assert_eq!((said.breaker, said.loading, said.refreshing), ("closed", false, false));
        assert_eq!((said.waits_for_recovery, said.recovery_queue), (false, 0));
        assert!(said.filter.is_none() && said.to_string().contains("no entry"), "{said}");
    }
    for name in ["absent:1", "cache-tag:absent:t1", "cache-generation:absent"] {
        let name = setup.entry(name);
        let there: u64 = seawall
            .client()
            .query(name.as_bytes(), cmd("EXISTS").arg(&name))
            .await
            .expect("an answer");
        assert_eq!(there, 0, "asking left {name} behind");
    }
}

async fn a_load_is_seen_by_everybody(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let [here, there] =
        [&one, &two].map(|seawall| seawall.cache("busy").build().expect("defaults"));
    seen_by_everybody(&here, &there).await;
    // Loads of what has generations are told apart by them.
    let tags = |_: &u64| vec!["all".to_owned()];
    let [here, there] = [&one, &two].map(|seawall| {
        seawall.cache("tagged").tags(tags).clearable().build().expect("options agree")
    });
    seen_by_everybody(&here, &there).await;
}

async fn seen_by_everybody(here: &Cache<u64, String>, there: &Cache<u64, String>) {
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let loading = tokio::spawn({
        let (here, started, gate) = (here.clone(), Arc::clone(&started), Arc::clone(&gate));
        async move {
            let load = move || async move {
                started.add_permits(1);
                let _open = gate.acquire().await.expect("never closed");
                Ok::<_, io::Error>(Loaded::Found("late".to_owned()))
            };
            here.get_or_load(&1, load).await
        }
    });
    let _began = started.acquire().await.expect("never closed");
    for (cache, local) in [(here, true), (there, false)] {
        let said = cache.explain(&1).await.expect("a good key");
        let seen = entry(&said);
        assert_eq!((seen.kind, said.loading), ("vacant", local), "{said}");
        let left = seen.lease_millis.expect("somebody holds the lease");
        assert!((1..=10_500).contains(&left), "{said}");
    }
    // Asking took nothing from the one who loads.
    gate.add_permits(1);
    let read = loading.await.expect("no panic").expect("loaded");
    assert_eq!(read.value.as_deref().map(String::as_str), Some("late"));
    let said = there.explain(&1).await.expect("a good key");
    assert_eq!((entry(&said).kind, entry(&said).lease_millis), ("value", None), "{said}");
}

async fn a_fresh_value_is_described(setup: Setup) {
    let (one, two) = (setup.connect().await, setup.connect().await);
    let here: Cache<u64, String> = one.cache("fresh").jitter(0.0).build().expect("options agree");
    let there: Cache<u64, String> = two.cache("fresh").schema(1).build().expect("options agree");
    fill(&here, Some(&"x".repeat(10_000))).await;
    let said = explain_copied(&here).await;
    let seen = entry(&said);
    assert_eq!((seen.kind, &*seen.codec), ("value", "messagepack+lz4"), "{said}");
    assert!(seen.readable && seen.generations_match && !seen.invalidated, "{said}");
    assert!((1..1000).contains(&seen.size_bytes), "{said}");
    assert!((250_000..=301_000).contains(&seen.fresh_millis), "{said}");
    assert!((310_000..=361_000).contains(&seen.stale_millis), "{said}");
    assert!(seen.age_millis < 50_000, "{said}");
    let copy = said.local.as_ref().expect("a copy");
    assert_eq!((copy.version, copy.negative), (seen.version, false), "{said}");
    assert!((1..=31_000).contains(&copy.fresh_millis), "{said}");
    // A cache of another shape sees the entry, and that it cannot use it.
    let other = there.explain(&1).await.expect("a good key");
    assert!(other.local.is_none() && !entry(&other).readable, "{other}");
    assert!(other.to_string().contains("another shape"), "{other}");
}

async fn a_value_past_its_lifetime_may_stand_in(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> = seawall
        .cache("stale")
        .ttl(Duration::from_millis(1))
        .local_max_bytes(0)
        .build()
        .expect("options agree");
    fill(&cache, Some("old")).await;
    let mut said = cache.explain(&1).await.expect("a good key");
    for _ in 0..500 {
        if entry(&said).fresh_millis == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        said = cache.explain(&1).await.expect("a good key");
    }
    assert_eq!((entry(&said).kind, entry(&said).fresh_millis), ("value", 0), "{said}");
    assert!((1..=61_000).contains(&entry(&said).stale_millis), "{said}");
    assert_eq!(entry(&said).lease_millis, None, "asking refreshes nothing: {said}");
}

async fn the_knowledge_that_there_is_none_is_an_entry(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> = seawall.cache("none").build().expect("defaults");
    fill(&cache, None).await;
    let said = explain_copied(&cache).await;
    assert_eq!((entry(&said).kind, entry(&said).size_bytes), ("absent", 0), "{said}");
    assert!(said.local.as_ref().is_some_and(|copy| copy.negative), "{said}");
}

async fn a_kept_value_is_said_to_be_invalidated(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> = seawall
        .cache("kept")
        .on_invalidate(OnInvalidate::KeepForStale)
        .build()
        .expect("options agree");
    fill(&cache, Some("tea")).await;
    let _ = cache.invalidate(&1).await.expect("a good key");
    let said = cache.explain(&1).await.expect("a good key");
    assert!(entry(&said).invalidated && said.local.is_none(), "{said}");
    assert_eq!((entry(&said).kind, entry(&said).fresh_millis), ("value", 0), "{said}");
    assert!(said.to_string().contains("invalidated, kept"), "{said}");
    let kept = cache.get_as(Freshness::StaleOk, &1).await.expect("an answer");
    assert!(kept.is_some_and(|read| read.value.is_some()), "asking did not take it away");
}

async fn what_is_not_ours_is_said_to_be_foreign(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> = seawall.cache("junk").build().expect("defaults");
    let name = setup.entry("junk:1");
    for command in [cmd("SET").arg(&name).arg("junk"), cmd("LPUSH").arg(&name).arg("junk")] {
        seawall.client().send(name.as_bytes(), command).await.expect("written");
        let said = cache.explain(&1).await.expect("a good key");
        assert_eq!(said.remote, RemoteState::NotOurs, "{said}");
        seawall.client().send(name.as_bytes(), cmd("DEL").arg(&name)).await.expect("removed");
    }
}

async fn a_cleared_tag_shows(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> = seawall
        .cache("tag")
        .tags(|key| vec![format!("t{key}"), "all".into()])
        .build()
        .expect("options agree");
    fill(&cache, Some("tea")).await;
    let said = cache.explain(&1).await.expect("a good key");
    assert!(entry(&said).generations_match, "{said}");
    cache.clear_tag("all").await.expect("an answer");
    let said = cache.explain(&1).await.expect("a good key");
    assert!(!entry(&said).generations_match && said.local.is_none(), "{said}");
    assert!(said.to_string().contains("was cleared"), "{said}");
}

async fn the_filter_has_an_opinion(setup: Setup) {
    let seawall = setup.connect().await;
    let only_one = KeyFilter::new(100, |sink: KeySink<u64>| async move {
        sink.add(&1);
        Ok::<_, io::Error>(())
    });
    let cache: Cache<u64, String> =
        seawall.cache("known").filter(only_one).build().expect("options agree");
    cache.filter_ready().await;
    let opinion = async |key| {
        // On a busy machine it may have to wait for its next look at the messages.
        for _ in 0..500 {
            let said = cache.explain(&key).await.expect("a good key");
            if said.filter.as_ref().is_some_and(|filter| filter.status.certain) {
                return said;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not certain within five seconds");
    };
    for (key, excludes, sentence) in [(1, false, "may exist"), (2, true, "cannot exist")] {
        let said = opinion(key).await;
        assert_eq!(said.filter.map(|filter| filter.excludes), Some(excludes), "{said}");
        assert!(said.to_string().contains(sentence), "{said}");
    }
    assert_eq!(opinion(2).await.filter.map(|filter| filter.status.keys), Some(1), "none was added");
}

#[tokio::test]
async fn an_outage_and_the_repair_queue_show() {
    let test_server = TestServer::start().await.expect("an engine");
    let cache: Cache<u64, String> = test_server.seawall().cache("q").build().expect("defaults");
    fill(&cache, Some("tea")).await;
    test_server.faults().begin_outage();
    let queued = tokio::spawn({
        let cache = cache.clone();
        async move { cache.invalidate(&1).await }
    });
    // Its tries pause by the clock.
    while !queued.is_finished() {
        test_server.advance(Duration::from_millis(10)).await;
    }
    let said = cache.explain(&1).await.expect("a good key");
    assert_eq!((said.waits_for_recovery, said.recovery_queue), (true, 1), "{said}");
    assert!(matches!(said.remote, RemoteState::Unknown(_)), "{said}");
    for _ in 0..5 {
        assert!(cache.get(&2).await.is_err(), "nothing is known without Redis");
    }
    let said = cache.explain(&1).await.expect("a good key");
    assert_eq!(said.breaker, "open", "{said}");
    test_server.faults().end_outage();
    let said = cache.explain(&1).await.expect("a good key");
    assert_eq!(entry(&said).kind, "value", "asked though the breaker is open: {said}");
    while cache.explain(&1).await.expect("a good key").waits_for_recovery {
        test_server.advance(Duration::from_millis(100)).await;
    }
    assert_eq!(cache.explain(&1).await.expect("a good key").remote, RemoteState::None);
    test_server.shutdown().await;
}

async fn it_can_be_read_by_machines(setup: Setup) {
    let seawall = setup.connect().await;
    let cache: Cache<u64, String> = seawall.cache("json").jitter(0.0).build().expect("agree");
    let said = cache.explain(&1).await.expect("a good key");
    let json = serde_json::to_value(&said).expect("it is plain data");
    assert_eq!(json["entry"], setup.entry("json:1"));
    assert_eq!((&json["local"], &json["remote"]), (&json!(null), &json!("none")));
    fill(&cache, Some("tea house")).await;
    let said = explain_copied(&cache).await;
    let json = serde_json::to_value(&said).expect("it is plain data");
    let (copy, seen) = (said.local.as_ref().expect("a copy"), entry(&said));
    assert_eq!(json["local"]["version"], copy.version);
    assert_eq!(json["local"]["negative"], false);
    let told = &json["remote"]["entry"];
    assert_eq!(told["kind"], "value");
    assert_eq!(told["codec"], "messagepack");
    assert_eq!(told["version"], seen.version);
    assert_eq!((&told["lease_millis"], &told["source_version"]), (&json!(null), &json!(0)));
    assert_eq!(told["fresh_millis"], seen.fresh_millis);
    assert_eq!((&json["breaker"], &json["filter"]), (&json!("closed"), &json!(null)));
    assert_eq!(json["waits_for_recovery"], false);
    assert!(json.to_string().len() < 1000, "it says where the value is, not what it is");
    seawall.shutdown().await;
}
