//! A database that counts its reads, and an error as services have it.

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use seawall::{
    Error, Seawall,
    cache::{Cache, CacheError},
};

/// An error of a service; the loader's own comes back by its text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error("database: {0}")]
    Database(#[from] io::Error),
    #[error("cache: {0}")]
    Cache(#[from] CacheError),
    #[error("redis: {0}")]
    Redis(#[from] Error),
}

/// Rows by id.
#[derive(Debug, Clone, Default)]
pub(crate) struct Database {
    rows: Arc<Mutex<HashMap<u64, String>>>,
    reads: Arc<AtomicUsize>,
}

impl Database {
    pub(crate) fn with(id: u64, name: &str) -> Self {
        let database = Database::default();
        database.rows.lock().unwrap().insert(id, name.to_owned());
        database
    }

    pub(crate) async fn select(&self, id: u64) -> io::Result<Option<String>> {
        tokio::task::yield_now().await;
        self.reads.fetch_add(1, Ordering::Relaxed);
        if id == 500 {
            return Err(io::Error::other("disk on fire"));
        }
        Ok(self.rows.lock().unwrap().get(&id).cloned())
    }

    pub(crate) async fn update(&self, id: u64, name: &str) -> io::Result<usize> {
        tokio::task::yield_now().await;
        if name.is_empty() {
            return Err(io::Error::other("a name is needed"));
        }
        let mut rows = self.rows.lock().unwrap();
        rows.insert(id, name.to_owned());
        Ok(rows.len())
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}

/// A cache on an engine of its own.
pub(crate) async fn cache<K, V>() -> (Seawall, Cache<K, V>)
where
    K: seawall::cache::CacheKey,
    V: seawall::cache::CacheValue + serde::Serialize + serde::de::DeserializeOwned,
{
    let seawall = Seawall::connect("embedded:").await.unwrap();
    let cache = seawall.cache("test").build().unwrap();
    (seawall, cache)
}
