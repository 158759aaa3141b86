//! `#[cached]`: loaded once, whatever the function looks like.

use std::{
    io,
    sync::{Arc, LazyLock, OnceLock},
    time::Duration,
};

use seawall::{
    Seawall,
    cache::{Cache, CacheError, Freshness, Loaded},
    cached,
};

use crate::world::{AppError, Database, cache};

#[derive(Debug, Clone)]
struct Shops {
    cache: Cache<u64, String>,
    database: Database,
}

impl Shops {
    /// Finds a shop.
    #[cached(cache = self.cache, key = id)]
    async fn find(&self, id: u64) -> Result<Option<String>, AppError> {
        let found = self.database.select(id).await?;
        if found.is_none() {
            return Ok(None);
        }
        Ok(Some(format!("{} {id}", found.unwrap_or_default())))
    }

    #[cached(cache = self.cache, key = id)]
    async fn shared(self: Arc<Self>, id: u64) -> Result<Option<Arc<String>>, AppError> {
        Ok(self.database.select(id).await?.map(Arc::new))
    }

    #[cached(cache = self.cache, key = id)]
    async fn always(self, mut id: u64) -> Result<String, AppError> {
        id += 0;
        let name = self.database.select(id).await?;
        Ok(name.ok_or_else(|| io::Error::other("no such shop"))?)
    }

    #[cached(cache = &self.cache, key = id, freshness = Freshness::Strong)]
    #[tracing::instrument(skip(self))]
    #[must_use = "a future that is also documented"]
    async fn strong(&self, id: u64) -> Result<Option<String>, AppError> {
        Ok(self.database.select(id).await?)
    }

    #[tracing::instrument(skip(self))]
    #[cached(cache = self.cache, key = id)]
    async fn traced(&self, id: u64) -> Result<Arc<String>, AppError> {
        Ok(Arc::new(self.database.select(id).await?.unwrap_or_default()))
    }

    async fn new(database: Database) -> (Seawall, Self) {
        let (seawall, cache) = cache().await;
        (seawall, Shops { cache, database })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_cause_one_load() {
    let (seawall, shops) = Shops::new(Database::with(42, "tea house")).await;
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let shops = shops.clone();
            tokio::spawn(async move { shops.find(42).await })
        })
        .collect();
    for caller in callers {
        assert_eq!(caller.await.unwrap().unwrap().as_deref(), Some("tea house 42"));
    }
    assert_eq!(shops.database.reads(), 1);
    seawall.shutdown().await;
}

#[tokio::test]
async fn every_receiver_and_every_return_type_reads_the_same_entry() {
    let (seawall, shops) = Shops::new(Database::with(42, "tea house")).await;
    assert_eq!(shops.clone().always(42).await.unwrap(), "tea house");
    let one = Arc::new(shops.clone()).shared(42).await.unwrap().unwrap();
    let other = shops.traced(42).await.unwrap();
    assert!(Arc::ptr_eq(&one, &other), "both are the cache's copy");
    assert_eq!(shops.database.reads(), 1);
    assert_eq!(shops.strong(42).await.unwrap().as_deref(), Some("tea house"));
    seawall.shutdown().await;
}

#[tokio::test]
async fn none_is_remembered_and_is_an_error_where_a_value_is_promised() {
    let (seawall, shops) = Shops::new(Database::default()).await;
    for _ in 0..3 {
        assert_eq!(shops.find(7).await.unwrap(), None);
    }
    assert_eq!(shops.database.reads(), 1);
    let error = shops.clone().always(7).await.unwrap_err().to_string();
    assert!(error.contains("`always` has no value"), "{error}");
    seawall.shutdown().await;
}

#[tokio::test]
async fn an_error_of_the_body_comes_back_inside_of_the_caches() {
    let (seawall, shops) = Shops::new(Database::default()).await;
    let AppError::Cache(CacheError::Load(error)) = shops.find(500).await.unwrap_err() else {
        panic!("not a failed load")
    };
    assert!(matches!(error.downcast_ref(), Some(AppError::Database(_))), "{error}");
    assert!(shops.find(500).await.is_err(), "an error is not remembered");
    assert_eq!(shops.database.reads(), 2);
    seawall.shutdown().await;
}

/// The body of `find` is not asked while the entry is fresh, and is after its lifetime.
#[tokio::test]
async fn entries_end_as_the_cache_says() {
    let server = seawall::testing::TestServer::start().await.unwrap();
    let shops = Shops {
        cache: server.seawall().cache("test").build().unwrap(),
        database: Database::with(1, "a"),
    };
    shops.find(1).await.unwrap();
    server.advance(Duration::from_hours(24)).await;
    shops.find(1).await.unwrap();
    assert_eq!(shops.database.reads(), 2);
    server.shutdown().await;
}

static NAMES: OnceLock<Cache<String, String>> = OnceLock::new();
type Lengths = Cache<(String, bool), usize>;

static LENGTHS: LazyLock<Arc<OnceLock<Lengths>>> = LazyLock::new(Arc::default);

fn names() -> Cache<String, String> {
    NAMES.get().expect("set by the test").clone()
}

/// A borrowed argument is the key as it is, and the body sees a `&str`.
#[cached(cache = names(), key = name)]
async fn loud(name: &str, marks: &[char], prefix: &'static str) -> Result<String, AnyError> {
    let _: (&str, &[char]) = (name, marks);
    Ok(format!("{prefix}{name}{}", marks.iter().collect::<String>()))
}

#[cached(cache = LENGTHS.get().unwrap(), key = (text.to_string(), twice))]
async fn length<T>(text: T, (twice, mut times): (bool, usize), by: &T) -> Result<usize, AnyError>
where
    T: ToString + Clone + Send + Sync + 'static,
{
    if twice {
        times *= 2;
    }
    let length = text.to_string().len();
    Ok((length + by.to_string().len()) * times)
}

/// Not `Clone`, and behind a trait.
struct Service {
    cache: Cache<u64, String>,
    database: Database,
}

trait Find {
    async fn find<T>(self: &Arc<Self>, id: u64, only_send: T) -> Result<Option<String>, AppError>
    where
        T: Send + 'static;
}

impl Find for Service {
    #[cached(cache = self.cache, key = id)]
    async fn find<T>(self: &Arc<Self>, id: u64, only_send: T) -> Result<Option<String>, AppError>
    where
        T: Send + 'static,
    {
        let found = self.database.select(id).await?;
        drop(only_send);
        Ok(found)
    }
}

#[tokio::test]
async fn a_service_behind_an_arc_need_not_be_clone() {
    let (seawall, cache) = cache().await;
    let service = Arc::new(Service { cache, database: Database::with(42, "tea house") });
    for _ in 0..2 {
        let name = service.find(42, std::cell::Cell::new(1)).await.unwrap();
        assert_eq!(name.as_deref(), Some("tea house"));
    }
    assert_eq!(service.database.reads(), 1);
    seawall.shutdown().await;
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

impl From<CacheError> for Hidden {
    fn from(error: CacheError) -> Self {
        Hidden(error.to_string())
    }
}

#[derive(Debug)]
struct Hidden(String);

impl From<Hidden> for AnyError {
    fn from(hidden: Hidden) -> Self {
        hidden.0.into()
    }
}

/// Names of the expansion are not seen: `load`, `read`, `this`, `value` and `key` are the user's.
#[cached(cache = read, key = load)]
async fn hygienic(
    read: &Cache<u64, u64>,
    load: u64,
    this: u64,
    value: u64,
    key: impl Fn(u64) -> u64 + Send + 'static,
    never: u64,
) -> Result<Option<u64>, Hidden> {
    let loaded = key(this + value);
    Ok(Some(load + loaded + never))
}

#[tokio::test]
async fn functions_with_borrowed_generic_and_destructured_arguments_are_cached() {
    let (seawall, cache) = cache().await;
    NAMES.set(cache).unwrap();
    let name = "tea".to_owned();
    assert_eq!(loud(&name, &['!', '!'], "= ").await.unwrap(), "= tea!!");
    assert_eq!(loud(&name, &['?'], "").await.unwrap(), "= tea!!", "the first load is kept");

    LENGTHS.set(seawall.cache("length").build().unwrap()).unwrap();
    assert_eq!(length(1234, (true, 1), &5).await.unwrap(), 10);
    assert_eq!(length("1234", (true, 100), &"").await.unwrap(), 10);
    assert_eq!(length("1234", (false, 1), &"").await.unwrap(), 4);

    let sums = seawall.cache("sum").build().unwrap();
    let sum = hygienic(&sums, 1, 2, 3, |sum| sum * 10, 4).await.unwrap();
    assert_eq!(sum, Some(55));
    let by_hand = async || Ok::<_, io::Error>(Loaded::Missing);
    assert_eq!(sums.get_or_load(&1, by_hand).await.unwrap().value.as_deref(), Some(&55));
    seawall.shutdown().await;
}
