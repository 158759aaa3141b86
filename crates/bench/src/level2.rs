//! Hits in Redis, one by one and a hundred at a time, against the bare client.

use std::{collections::HashMap, error::Error, io};

use redis::aio::MultiplexedConnection;
use seawall::{
    Seawall,
    cache::{Cache, Loaded},
};

use crate::{
    VALUE_BYTES,
    sides::{Plan, Report, repeat},
};

const KEYS: u64 = 1000;
const BATCH: u64 = 100;

pub(crate) async fn hits(
    seawall: &Seawall,
    bare: &MultiplexedConnection,
    plan: &Plan,
) -> Result<Report, Box<dyn Error>> {
    let cache = filled(seawall, bare).await?;
    let ours = repeat(cache, |cache, count| async move {
        let load = || async { Err::<Loaded<String>, _>(io::Error::other("everything is cached")) };
        let read = cache.get_or_load(&(count % KEYS), load).await;
        assert!(
            read.is_ok_and(|read| read.value.is_some_and(|value| value.len() == VALUE_BYTES)),
            "a hit"
        );
    });
    let theirs = repeat(bare.clone(), |mut bare, count| async move {
        let value: Result<String, _> =
            redis::cmd("GET").arg(format!("bare:{}", count % KEYS)).query_async(&mut bare).await;
        assert!(value.is_ok_and(|value| value.len() == VALUE_BYTES), "a hit");
    });
    Ok(plan.compare("hit in Redis", "GET by the bare client", ours, theirs).await)
}

pub(crate) async fn batches(
    seawall: &Seawall,
    bare: &MultiplexedConnection,
    plan: &Plan,
) -> Result<Report, Box<dyn Error>> {
    let cache = filled(seawall, bare).await?;
    let ours = repeat(cache, |cache, count| async move {
        let keys: Vec<u64> = (0..BATCH).map(|index| (count * BATCH + index) % KEYS).collect();
        let load =
            |_| async { Err::<HashMap<u64, String>, _>(io::Error::other("everything is cached")) };
        let reads = cache.get_many(&keys, load).await;
        assert!(reads.into_iter().all(|read| read.is_ok_and(|read| read.value.is_some())), "hits");
    });
    let theirs = repeat(bare.clone(), |mut bare, count| async move {
        let keys: Vec<String> =
            (0..BATCH).map(|index| format!("bare:{}", (count * BATCH + index) % KEYS)).collect();
        let values: Result<Vec<String>, _> =
            redis::cmd("MGET").arg(keys).query_async(&mut bare).await;
        assert!(values.is_ok_and(|values| values.len() == 100), "hits");
    });
    Ok(plan.compare("100 hits in Redis at once", "MGET by the bare client", ours, theirs).await)
}

async fn filled(
    seawall: &Seawall,
    bare: &MultiplexedConnection,
) -> Result<Cache<u64, String>, Box<dyn Error>> {
    let cache: Cache<u64, String> = seawall.cache("bench-level2").local_max_bytes(0).build()?;
    let value = "x".repeat(VALUE_BYTES);
    let mut bare = bare.clone();
    for key in 0..KEYS {
        cache.put(&key, &value).await?;
        redis::cmd("SET").arg(format!("bare:{key}")).arg(&value).exec_async(&mut bare).await?;
    }
    Ok(cache)
}
