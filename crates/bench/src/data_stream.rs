//! The stream worker beside a bare loop of XREADGROUP and XACK, with the same batches.
//!
//! Both read the same entries, in each turn with a new group from the stream's first entry on,
//! decode every payload and acknowledge every entry; the bare loop per batch, the worker in its own
//! way.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use redis::{Client, cmd};
use seawall::{
    Seawall,
    stream::{Delivery, Outcome, Retention, Stream},
};

use crate::{
    Ground, VALUE_BYTES,
    data::{Comparison, Findings},
    sides::{Plan, Side},
};

/// Entries per read, on both sides.
const BATCH: usize = 64;
/// Entries to read: more than one turn can.
const ENTRIES: usize = 300_000;
/// Entries that are appended at once.
const FILL: usize = 1_000;

static NEXT: AtomicU64 = AtomicU64::new(0);

fn group() -> String {
    format!("turn-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// How the worker's handler is called.
#[derive(Clone, Copy)]
enum Manner {
    Each,
    Batches,
}

pub(crate) async fn measure(ground: &Ground) -> Result<Findings, Box<dyn Error>> {
    let stream = ground.seawall.stream::<String>("bench-entries")?;
    let payloads = vec!["x".repeat(VALUE_BYTES); FILL];
    for _ in 0..ENTRIES / FILL {
        for id in stream.append_all(&payloads).await? {
            id?;
        }
    }
    let plan = Plan { tasks: 1, ..ground.plan };
    let bare = bare(&ground.url, stream.key());
    let mut findings = Findings::default();
    for (subject, manner) in [
        ("stream worker, a handler for each entry", Manner::Each),
        ("stream worker, a handler for each batch", Manner::Batches),
    ] {
        let ours = ours(&ground.seawall, &stream, manner);
        let against = "a loop of XREADGROUP and XACK, 64 entries each";
        let report = plan.compare(subject, against, ours, Arc::clone(&bare)).await;
        findings.comparisons.push(Comparison { report, goal: Some(0.8) });
    }
    ground.seawall.client().send(stream.key(), cmd("DEL").arg(stream.key())).await?;
    Ok(findings)
}

fn ours(seawall: &Seawall, stream: &Stream<String>, manner: Manner) -> Side {
    let (client, stream) = (seawall.client().clone(), stream.clone());
    Arc::new(move |stop| {
        let (client, stream, group) = (client.clone(), stream.clone(), group());
        Box::pin(async move {
            let builder = stream.worker(&group).batch_size(BATCH).retention(Retention::All);
            let worker = match manner {
                Manner::Each => builder.spawn(|entry: Delivery<String>| async move {
                    std::hint::black_box(entry.into_payload());
                    Outcome::Done
                }),
                Manner::Batches => {
                    builder.spawn_batches(|batch: Vec<Delivery<String>>| async move {
                        std::hint::black_box(batch);
                        Outcome::Done
                    })
                }
            };
            let Ok(worker) = worker else { return 0 };
            until(&stop).await;
            let handled = worker.counts().handled;
            let _ = worker.shutdown().await;
            let mut destroy = cmd("XGROUP");
            destroy.arg("DESTROY").arg(stream.key()).arg(&group);
            // A group that is left behind costs memory but does not affect the next turn.
            let _ = client.send(stream.key(), &destroy).await;
            handled
        })
    })
}

async fn until(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

fn bare(url: &str, key: &[u8]) -> Side {
    let (url, key) = (url.to_owned(), key.to_vec());
    Arc::new(move |stop| {
        let (url, key) = (url.clone(), key.clone());
        Box::pin(async move { turn(&url, &key, &stop).await.unwrap_or(0) })
    })
}

async fn turn(url: &str, key: &[u8], stop: &AtomicBool) -> redis::RedisResult<u64> {
    let mut connection = Client::open(url)?.get_multiplexed_async_connection().await?;
    let group = group();
    cmd("XGROUP").arg("CREATE").arg(key).arg(&group).arg("0").exec_async(&mut connection).await?;
    let mut read = cmd("XREADGROUP");
    read.arg("GROUP").arg(&group).arg("c").arg("COUNT").arg(BATCH).arg("BLOCK").arg(500);
    read.arg("STREAMS").arg(key).arg(">");
    let mut count = 0;
    type Entries = Vec<(String, Vec<(String, Vec<u8>)>)>;
    while !stop.load(Ordering::Relaxed) {
        let read: Option<Vec<(Vec<u8>, Entries)>> = read.query_async(&mut connection).await?;
        let entries = read.into_iter().flatten().flat_map(|(_, entries)| entries);
        let mut ack = cmd("XACK");
        ack.arg(key).arg(&group);
        let mut batch = 0;
        for (id, fields) in entries {
            let payload: Option<String> =
                fields.first().and_then(|(_, data)| serde_json::from_slice(data).ok());
            std::hint::black_box(payload);
            ack.arg(id);
            batch += 1;
        }
        if batch > 0 {
            ack.exec_async(&mut connection).await?;
        }
        count += batch;
    }
    cmd("XGROUP").arg("DESTROY").arg(key).arg(&group).exec_async(&mut connection).await?;
    Ok(count)
}
