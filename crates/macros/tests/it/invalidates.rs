//! `#[invalidates]`: the next read sees the write, in every cache that is named.

use std::time::Duration;

use seawall::{
    Error, Seawall,
    cache::{Cache, CacheError, WriteError},
    cached, invalidates,
    testing::TestServer,
};

use crate::world::{AppError, Database, cache};

#[derive(Debug, Clone)]
struct Shops {
    names: Cache<u64, String>,
    pages: Cache<String, usize>,
    database: Database,
}

impl Shops {
    fn on(seawall: &Seawall) -> Self {
        Shops {
            names: seawall.cache("name").build().unwrap(),
            pages: seawall.cache("page").build().unwrap(),
            database: Database::with(42, "tea house"),
        }
    }

    #[cached(cache = self.names, key = id)]
    async fn name(&self, id: u64) -> Result<Option<String>, AppError> {
        Ok(self.database.select(id).await?)
    }

    #[cached(cache = self.pages, key = format!("shop {id}"))]
    async fn page(&self, id: u64) -> Result<usize, AppError> {
        Ok(self.database.select(id).await?.unwrap_or_default().len())
    }

    /// Renames a shop.
    #[invalidates(cache = self.names, key = id)]
    #[invalidates(cache = self.pages, key = format!("shop {id}"))]
    #[tracing::instrument(skip(self))]
    pub(crate) async fn rename(&self, id: u64, name: &str) -> Result<usize, AppError> {
        if name == "skip" {
            return Ok(0);
        }
        Ok(self.database.update(id, name).await?)
    }

    #[invalidates(cache = self.names, key = id)]
    async fn rename_mut(&mut self, id: u64, names: &mut Vec<String>) -> Result<(), AppError> {
        let name = names.pop().unwrap_or_default();
        self.database.update(id, &name).await?;
        Ok(())
    }
}

#[tokio::test]
async fn the_next_read_sees_the_write_in_every_cache() {
    let (seawall, _cache): (_, Cache<u64, u64>) = cache().await;
    let shops = Shops::on(&seawall);
    assert_eq!(shops.name(42).await.unwrap().as_deref(), Some("tea house"));
    assert_eq!(shops.page(42).await.unwrap(), 9);
    assert_eq!(shops.rename(42, "inn").await.unwrap(), 1);
    assert_eq!(shops.name(42).await.unwrap().as_deref(), Some("inn"));
    assert_eq!(shops.page(42).await.unwrap(), 3);
    assert_eq!(shops.database.reads(), 4);

    let (mut mutable, mut names) = (shops.clone(), vec!["pub".to_owned()]);
    mutable.rename_mut(42, &mut names).await.unwrap();
    assert_eq!(shops.name(42).await.unwrap().as_deref(), Some("pub"));
    assert_eq!(shops.rename(42, "skip").await.unwrap(), 0);
    seawall.shutdown().await;
}

#[tokio::test]
async fn a_failed_write_keeps_its_error_and_invalidates() {
    let (seawall, _cache): (_, Cache<u64, u64>) = cache().await;
    let shops = Shops::on(&seawall);
    shops.name(42).await.unwrap();
    let error = shops.rename(42, "").await.unwrap_err();
    assert!(matches!(error, AppError::Database(_)), "{error}");
    shops.name(42).await.unwrap();
    assert_eq!(shops.database.reads(), 2, "it may have changed the row before it failed");
    seawall.shutdown().await;
}

#[tokio::test]
async fn after_a_shutdown_the_body_does_not_run() {
    let (seawall, _cache): (_, Cache<u64, u64>) = cache().await;
    let shops = Shops::on(&seawall);
    seawall.shutdown().await;
    let error = shops.rename(42, "inn").await.unwrap_err();
    assert!(matches!(error, AppError::Redis(Error::Closed)), "{error}");
    assert_eq!(shops.database.select(42).await.unwrap().as_deref(), Some("tea house"));
}

#[test]
fn what_is_written_and_not_invalidated_is_indeterminate() {
    let error: Error = WriteError::NotInvalidated(Error::Closed).into_work_error();
    assert!(error.is_indeterminate(), "{error}");
    let error: Error = WriteError::NotRun(Error::Closed).into_work_error();
    assert!(matches!(error, Error::Closed), "{error}");
}

#[tokio::test]
async fn a_queued_invalidation_is_a_success() {
    let server = TestServer::start().await.unwrap();
    let shops = Shops::on(server.seawall());
    shops.name(42).await.unwrap();
    server.faults().begin_outage();
    assert_eq!(in_time(&server, shops.rename(42, "inn")).await.unwrap(), 1);
    let name = in_time(&server, shops.name(42)).await.unwrap();
    assert_eq!(name.as_deref(), Some("inn"), "this process reads past the cache");
    server.faults().end_outage();
    server.shutdown().await;
}

/// Lets time go on until the work is done: it tries again while Redis is away.
async fn in_time<T>(server: &TestServer, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = server.advance(Duration::from_millis(100)) => {}
        }
    }
}

#[invalidates(cache = cache, key = *item.name)]
async fn consume(cache: &Cache<String, u64>, item: Item) -> Result<u64, CacheError> {
    Ok(item.number)
}

#[invalidates(cache = cache, key = item.name.clone())]
async fn consume_whole<T: Into<String>>(
    cache: &Cache<String, u64>,
    item: Item,
    more: T,
) -> Result<String, Error> {
    drop(item);
    Ok(more.into())
}

// Bodies on one line: their braces are none that the compiler could call unnecessary.
#[rustfmt::skip]
mod short {
    use super::{Cache, CacheError, cached, invalidates};

    #[cached(cache = cache, key = id)]
    pub(super) async fn find(cache: &Cache<u64, u64>, id: u64) -> Result<u64, CacheError> { Ok(id) }

    #[invalidates(cache = cache, key = id)]
    pub(super) async fn touch(cache: &Cache<u64, u64>, id: u64) -> Result<u64, CacheError> { Ok(id) }
}

#[tokio::test]
async fn short_functions_work() {
    let (seawall, cache) = cache().await;
    assert_eq!(short::find(&cache, 3).await.unwrap(), short::touch(&cache, 3).await.unwrap());
    seawall.shutdown().await;
}

struct Item {
    name: String,
    number: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_come_from_arguments_in_every_form() {
    let (seawall, numbers) = cache().await;
    let item = || Item { name: "tea".to_owned(), number: 5 };
    assert_eq!(consume(&numbers, item()).await.unwrap(), 5);
    let cache = numbers.clone();
    let spawned = tokio::spawn(async move { consume_whole(&cache, item(), "x").await });
    assert_eq!(spawned.await.unwrap().unwrap(), "x");
    seawall.shutdown().await;
}
