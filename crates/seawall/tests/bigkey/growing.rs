//! Collections that grow while others read and write: nothing is lost, nothing comes back.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use seawall::{
    Error, Seawall,
    bigkey::{BucketedHash, BucketedSet, Cursor, Order, unlink_slowly},
    cmd,
};
use seawall_testkit::{
    ServerProcess,
    proxy::{FaultProxy, On},
};

use crate::setup::{Setup, on_every_backend};

on_every_backend! {
    without sentinel:
    growth_is_not_noticed
    a_plain_hash_is_taken_over
    other_kinds_are_taken_over
    keys_of_any_size_are_unlinked
}

const WRITERS: u64 = 4;
const FIELDS: u64 = 400;

/// Sets, increments and removes fields of one's own, and checks each at once: nobody else touches them.
async fn write(
    hash: BucketedHash<u64, i64>,
    writer: u64,
    stop: Arc<AtomicBool>,
) -> Result<BTreeMap<u64, i64>, String> {
    let mut model: BTreeMap<u64, i64> = BTreeMap::new();
    let mut turn = writer;
    while !stop.load(Ordering::SeqCst) {
        turn = turn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let field = writer * FIELDS + (turn >> 33) % FIELDS;
        let value = (turn >> 20) as i64 & 0xffff;
        match turn >> 61 {
            0..=2 => {
                hash.set(&field, &value).await.map_err(|error| error.to_string())?;
                model.insert(field, value);
            }
            3 => {
                let sum = hash.increment(&field, 1).await.map_err(|error| error.to_string())?;
                let expected = model.entry(field).or_default();
                *expected += 1;
                if sum != *expected {
                    return Err(format!("{field}: {sum} instead of {expected}"));
                }
            }
            4 | 5 => {
                let removed = hash.remove(&[field]).await.map_err(|error| error.to_string())?;
                let there = u64::from(model.remove(&field).is_some());
                if removed != there {
                    return Err(format!("{field}: removed {removed}, there were {there}"));
                }
            }
            _ => {}
        }
        let value = hash.get(&field).await.map_err(|error| error.to_string())?;
        if value != model.get(&field).copied() {
            return Err(format!("{field}: read {value:?} instead of {:?}", model.get(&field)));
        }
    }
    Ok(model)
}

/// Grows under load; what the writers found, and what is there in the end.
async fn grow_under_load(seawall: &Seawall, name: &str) -> Result<(), String> {
    let hash: BucketedHash<u64, i64> = seawall.bucketed_hash(name, 2).expect("a name");
    // These are there all the time.
    let fixed: Vec<(u64, i64)> = (1_000_000..1_000_400).map(|field| (field, 7)).collect();
    hash.set_many(&fixed).await.expect("set");
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            // Each with an idea of the buckets of its own.
            let hash = seawall.bucketed_hash(name, 2).expect("a name");
            tokio::spawn(write(hash, writer, Arc::clone(&stop)))
        })
        .collect();
    let scanner = {
        let (hash, stop) =
            (seawall.bucketed_hash::<u64, i64>(name, 2).expect("a name"), Arc::clone(&stop));
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                let (mut seen, mut cursor) =
                    (std::collections::BTreeSet::new(), Some(Cursor::start()));
                while let Some(at) = cursor {
                    let (page, next) = hash.scan(&at).await.map_err(|error| error.to_string())?;
                    seen.extend(
                        page.into_iter().map(|(field, _)| field).filter(|f| *f >= 1_000_000),
                    );
                    cursor = next;
                }
                if seen.len() != 400 {
                    return Err(format!("a scan found {} of 400", seen.len()));
                }
            }
            Ok(())
        })
    };
    for buckets in [4, 12, 48] {
        let growing: BucketedHash<u64, i64> = seawall.bucketed_hash(name, 2).expect("a name");
        // Two at once, as two processes would.
        let (one, other) =
            tokio::join!(growing.grow(buckets, |_| {}), growing.grow(buckets, |_| {}));
        assert_eq!(one.expect("grown").buckets, buckets);
        assert_eq!(other.expect("grown").buckets, buckets);
    }
    stop.store(true, Ordering::SeqCst);
    let mut model: BTreeMap<u64, i64> = fixed.into_iter().collect();
    let mut result = Ok(());
    for writer in writers {
        match writer.await.expect("no panic") {
            Ok(written) => model.extend(written),
            Err(why) => result = Err(why),
        }
    }
    result = result.and(scanner.await.expect("no panic"));
    result?;
    let (mut scanned, mut cursor) = (BTreeMap::new(), Some(Cursor::start()));
    while let Some(at) = cursor {
        let (page, next) = hash.scan(&at).await.expect("scanned");
        scanned.extend(page);
        cursor = next;
    }
    if scanned != model || hash.len().await.expect("counted") != model.len() as u64 {
        return Err(format!("{} instead of {} at the end", scanned.len(), model.len()));
    }
    Ok(())
}

async fn growth_is_not_noticed(setup: Setup) {
    let seawall = setup.connect().await;
    let rounds = if std::env::var_os("SEAWALL_SOAK").is_some() { 40 } else { 2 };
    for round in 0..rounds {
        let name = format!("load-{round}");
        assert_eq!(grow_under_load(&seawall, &name).await, Ok(()));
        let hash: BucketedHash<u64, i64> = seawall.bucketed_hash(&name, 2).expect("a name");
        hash.remove_all().await.expect("removed");
    }
    crate::model::nothing_is_left(&setup, &seawall).await;
    seawall.shutdown().await;
}

/// Whoever grows it dies at every step in turn; others go on, and the next call finishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn growth_that_dies_anywhere_is_finished_by_others() {
    let server = ServerProcess::redis().expect("a server");
    let proxy = FaultProxy::start(server.port()).expect("a port");
    let connect = async |url: String| {
        let builder = Seawall::builder(&url).prefix("dying:");
        builder.response_timeout(Duration::from_secs(20)).connect().await.expect("it answers")
    };
    let (steady, dying) = (connect(server.url()).await, connect(proxy.url()).await);
    let hash: BucketedHash<u64, i64> = steady.bucketed_hash("carts", 2).expect("a name");
    let items: Vec<(u64, i64)> = (0..1000).map(|field| (field, field as i64)).collect();
    hash.set_many(&items).await.expect("set");
    let mut model: BTreeMap<u64, i64> = items.into_iter().collect();
    let (mut buckets, mut deaths) = (4, 0);
    for step in 1..40_u64 {
        // The request is lost, or its reply.
        let rule = if step % 2 == 0 {
            proxy.drop_reply(On::command("EVALSHA").nth(step / 2 + 1))
        } else {
            proxy.drop_request(On::command("EVALSHA").nth(step / 2 + 1))
        };
        let growing: BucketedHash<u64, i64> = dying.bucketed_hash("carts", 2).expect("a name");
        match growing.grow(buckets, |_| {}).await {
            Ok(_) => buckets = (buckets * 2).min(64),
            Err(Error::Indeterminate { .. } | Error::Unavailable(_)) => deaths += 1,
            Err(error) => panic!("{error}"),
        }
        proxy.remove(rule);
        // Whatever it left, others neither wait nor see anything of it.
        let field = step * 20;
        assert_eq!(
            hash.remove(&[field]).await.expect("removed"),
            u64::from(model.remove(&field).is_some())
        );
        assert_eq!(hash.increment(&(field + 1), 1).await.expect("added"), {
            *model.entry(field + 1).and_modify(|value| *value += 1).or_insert(1)
        });
        assert_eq!(hash.get(&field).await.expect("read"), None);
        assert_eq!(hash.len().await.expect("counted"), model.len() as u64, "step {step}");
    }
    assert!(deaths > 5, "{deaths}");
    hash.grow(128, |_| {}).await.expect("grown");
    let (mut scanned, mut cursor) = (BTreeMap::new(), Some(Cursor::start()));
    while let Some(at) = cursor {
        let (page, next) = hash.scan(&at).await.expect("scanned");
        scanned.extend(page);
        cursor = next;
    }
    assert_eq!(scanned, model);
    dying.shutdown().await;
    steady.shutdown().await;
}

async fn a_plain_hash_is_taken_over(setup: Setup) {
    let seawall = setup.connect().await;
    let (client, key) = (seawall.client(), setup.entry("old"));
    for first in (0..3000_u64).step_by(500) {
        let mut set = cmd("HSET");
        set.arg(&key);
        (first..first + 500).for_each(|field| _ = set.arg(field).arg(field * 2));
        client.send(key.as_bytes(), &set).await.expect("set");
    }
    let hash: BucketedHash<u64, u64> = seawall.bucketed_hash("taken", 1).expect("a name");
    hash.adopt(key.as_bytes()).await.expect("taken over");
    assert_eq!(hash.len().await.expect("counted"), 3000);
    assert_eq!(hash.get(&77).await.expect("read"), Some(154));
    let (mut slices, reader) = (0, hash.clone());
    let reading = tokio::spawn(async move {
        for field in 0..400_u64 {
            assert_eq!(reader.get(&field).await.expect("read"), Some(field * 2));
        }
    });
    let growth = hash.grow(8, |_| slices += 1).await.expect("grown");
    reading.await.expect("no panic");
    assert!(growth.moved <= 3000 && slices > 10, "{growth:?} in {slices}");
    assert_eq!(hash.len().await.expect("counted"), 3000);
    let exists: u64 = client.query(key.as_bytes(), cmd("EXISTS").arg(&key)).await.expect("asked");
    assert_eq!(exists, 0, "the old key is gone");
    assert!(hash.adopt(key.as_bytes()).await.is_err(), "and cannot be taken over again");
    assert_eq!(hash.remove_all().await.expect("removed"), 3000);
    crate::model::nothing_is_left(&setup, &seawall).await;
    seawall.shutdown().await;
}

async fn other_kinds_are_taken_over(setup: Setup) {
    let seawall = setup.connect().await;
    let client = seawall.client();
    let (set_key, zset_key) = (setup.entry("{old}set"), setup.entry("oldz"));
    let (mut set, mut zset) = (cmd("SADD"), cmd("ZADD"));
    set.arg(&set_key);
    zset.arg(&zset_key);
    for member in 0..900_u64 {
        set.arg(member);
        zset.arg(member % 10).arg(member);
    }
    client.send(set_key.as_bytes(), &set).await.expect("set");
    client.send(zset_key.as_bytes(), &zset).await.expect("set");
    let members: BucketedSet<u64> = seawall.bucketed_set("taken", 1).expect("a name");
    members.adopt(set_key.as_bytes()).await.expect("taken over");
    members.grow(5, |_| {}).await.expect("grown");
    assert_eq!(members.contains_many(&[0, 899, 900]).await.expect("asked"), [true, true, false]);
    let ranks = seawall.bucketed_sorted_set::<u64>("taken", 1).expect("a name");
    assert!(ranks.adopt(set_key.as_bytes()).await.is_err(), "of another kind, or gone");
    ranks.adopt(zset_key.as_bytes()).await.expect("taken over");
    let before = ranks.first(Order::Falling, 100).await.expect("read");
    ranks.grow(5, |_| {}).await.expect("grown");
    assert_eq!(ranks.first(Order::Falling, 100).await.expect("read"), before);
    assert_eq!(ranks.len().await.expect("counted"), 900);
    // A lifetime is of the whole key.
    let short = setup.entry("short");
    client.send(short.as_bytes(), cmd("HSET").arg(&short).arg("a").arg(1)).await.expect("set");
    client.send(short.as_bytes(), cmd("PEXPIRE").arg(&short).arg(100_000)).await.expect("set");
    let hash: BucketedHash<String, u64> = seawall.bucketed_hash("short", 1).expect("a name");
    let refused = hash.adopt(short.as_bytes()).await.expect_err("it has a lifetime").to_string();
    assert!(refused.contains("lifetime"), "{refused}");
    seawall.shutdown().await;
}

async fn keys_of_any_size_are_unlinked(setup: Setup) {
    let seawall = setup.connect().await;
    let client = seawall.client();
    for (kind, members) in [
        ("hash", 6000_u64),
        ("set", 6000),
        ("zset", 6000),
        ("list", 6000),
        ("hash", 10),
        ("string", 1),
    ] {
        let key = setup.entry(&format!("{kind}-{members}"));
        for first in (0..members).step_by(500) {
            let mut fill = cmd(match kind {
                "hash" => "HSET",
                "set" => "SADD",
                "zset" => "ZADD",
                "list" => "RPUSH",
                _ => "SET",
            });
            fill.arg(&key);
            for member in first..(first + 500).min(members) {
                match kind {
                    "hash" | "zset" => _ = fill.arg(member).arg(member),
                    _ => _ = fill.arg(member),
                }
            }
            client.send(key.as_bytes(), &fill).await.expect("filled");
        }
        let mut slices = Vec::new();
        let done =
            unlink_slowly(&seawall, key.as_bytes(), |slice| slices.push(slice.members)).await;
        assert_eq!(done.expect("deleted").members, members, "{kind}");
        assert_eq!(slices.len() > 1, members > 5000, "{kind}: {slices:?}");
        assert!(slices.is_sorted(), "{slices:?}");
        let left: u64 = client.query(key.as_bytes(), cmd("EXISTS").arg(&key)).await.expect("asked");
        assert_eq!(left, 0, "{kind}");
    }
    tokio::time::timeout(Duration::from_secs(60), seawall.shutdown()).await.expect("it ends");
}
