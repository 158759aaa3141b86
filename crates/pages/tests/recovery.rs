//! The outbox of `examples/sqlx_outbox` on each database: what it keeps, and what readers see when a process is
//! killed between the commit of a change and its invalidation.

#[path = "../examples/sqlx_outbox/outbox.rs"]
mod outbox;

use std::{
    future,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use outbox::{MySqlOutbox, PostgresOutbox, SqliteOutbox};
use seawall::{
    Seawall,
    cache::{Cache, Freshness, Loaded, RecoveryLog, Source},
};
use seawall_testkit::{
    PostgresServer, TestDatabase,
    backend::{Backend, TestBackend},
};
use sqlx::{MySqlPool, PgPool, QueryBuilder, SqlitePool};

/// The words of a process that commits and goes no further: database, its URL, Redis, prefix, name.
const WRITER: &str = "SEAWALL_OUTBOX_WRITER";
/// How long a process that ran during the crash may see the old value: the log is read once a second, and
/// local copies follow an invalidation within a second.
const BOUND: Duration = Duration::from_secs(2);
/// More than that on a machine that is busy with other tests.
const BUSY: Duration = Duration::from_secs(3);

/// A database with one shop and an outbox.
trait Store: Clone + Send + Sync + 'static {
    const KIND: &str;

    fn connect(url: &str) -> impl Future<Output = Self> + Send;
    /// Creates the table with one shop.
    fn create(&self) -> impl Future<Output = ()> + Send;
    fn name(&self) -> impl Future<Output = sqlx::Result<String>> + Send;
    /// Changes the shop's name and adds to the outbox, in one transaction.
    fn rename(
        &self,
        name: &str,
        entry: &[u8],
        end: End,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
    fn log(&self) -> Arc<dyn RecoveryLog>;
}

/// How a transaction ends.
#[derive(Clone, Copy)]
enum End {
    Commit,
    Rollback,
}

macro_rules! store {
    ($store:ident, $kind:literal, $pool:ty, $outbox:ty) => {
        #[derive(Clone)]
        struct $store {
            pool: $pool,
            outbox: Arc<$outbox>,
        }

        impl Store for $store {
            const KIND: &str = $kind;

            async fn connect(url: &str) -> Self {
                let pool = <$pool>::connect(url).await.unwrap();
                let outbox = Arc::new(<$outbox>::open(pool.clone()).await.unwrap());
                Self { pool, outbox }
            }

            async fn create(&self) {
                for statement in [
                    "create table shop (id bigint primary key, name varchar(100) not null)",
                    "insert into shop values (42, 'tea house')",
                ] {
                    sqlx::query(statement).execute(&self.pool).await.unwrap();
                }
            }

            async fn name(&self) -> sqlx::Result<String> {
                let select = "select name from shop where id = 42";
                sqlx::query_scalar(select).fetch_one(&self.pool).await
            }

            async fn rename(&self, name: &str, entry: &[u8], end: End) -> sqlx::Result<()> {
                let mut transaction = self.pool.begin().await?;
                let mut update = QueryBuilder::new("update shop set name = ");
                update.push_bind(name).push(" where id = 42");
                update.build().execute(&mut *transaction).await?;
                <$outbox>::note(&mut transaction, "shop", &[entry.to_vec()]).await?;
                match end {
                    End::Commit => transaction.commit().await,
                    End::Rollback => transaction.rollback().await,
                }
            }

            fn log(&self) -> Arc<dyn RecoveryLog> {
                self.outbox.clone()
            }
        }
    };
}

store!(OnSqlite, "sqlite", SqlitePool, SqliteOutbox);
store!(OnMySql, "mysql", MySqlPool, MySqlOutbox);
store!(OnPostgres, "postgres", PgPool, PostgresOutbox);

/// A process with the cache of the shop.
struct Process<S> {
    seawall: Seawall,
    cache: Cache<u64, String>,
    store: S,
}

impl<S: Store> Process<S> {
    async fn start(redis: &str, prefix: &str, store: &S, log: bool) -> Self {
        let seawall = Seawall::builder(redis).prefix(prefix).connect().await.unwrap();
        let builder = seawall.cache("shop").ttl(Duration::from_secs(600));
        let builder = if log { builder.recovery_log(store.log()) } else { builder };
        let cache = builder.build().unwrap();
        Process { seawall, cache, store: store.clone() }
    }

    async fn read(&self, freshness: Freshness) -> (String, Source) {
        let store = self.store.clone();
        let load = move || async move { store.name().await.map(Loaded::Found) };
        let read = self.cache.get_or_load_as(freshness, &42, load).await.unwrap();
        (read.value.unwrap().to_string(), read.source)
    }

    async fn stop(self) {
        drop(self.cache);
        self.seawall.shutdown().await;
    }
}

/// Starts a process that renames the shop, and kills it when that is committed and not invalidated yet.
fn crash<S: Store>(url: &str, redis: &str, prefix: &str, name: &str) {
    let words = [S::KIND, url, redis, prefix, name].join(" ");
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "commits_and_goes_no_further", "--nocapture"])
        .env(WRITER, words)
        .stdout(Stdio::piped())
        .spawn();
    let mut child = Killed(child.unwrap());
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let committed = output.lines().any(|line| line.unwrap().contains("committed"));
    assert!(committed, "the writer ended before its commit");
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that is killed.
#[tokio::test]
async fn commits_and_goes_no_further() {
    let Ok(words) = std::env::var(WRITER) else { return };
    let words: Vec<_> = words.splitn(5, ' ').collect();
    let [kind, url, redis, prefix, name] = words[..] else { panic!("{words:?}") };
    match kind {
        OnSqlite::KIND => write::<OnSqlite>(url, redis, prefix, name).await,
        OnMySql::KIND => write::<OnMySql>(url, redis, prefix, name).await,
        _ => write::<OnPostgres>(url, redis, prefix, name).await,
    }
}

#[expect(clippy::print_stdout, reason = "tells the test how far it is")]
async fn write<S: Store>(url: &str, redis: &str, prefix: &str, name: &str) {
    let store = S::connect(url).await;
    // Without the log: so that this process cannot be the one that finds the row.
    let process = Process::start(redis, prefix, &store, false).await;
    let entry = process.cache.entry_name(&42).unwrap();
    let work = async {
        store.rename(name, &entry, End::Commit).await?;
        println!("committed");
        future::pending::<sqlx::Result<()>>().await
    };
    process.cache.write(&42, work).await.map(drop).unwrap();
}

/// Nothing runs but the writer: what a process sees that starts after the crash.
async fn old_values_end_with_a_restart<S: Store>(url: &str) {
    let backend = TestBackend::shared(Backend::Redis).unwrap();
    let (redis, prefix) = (backend.url(), format!("outbox-{}-{}:", S::KIND, std::process::id()));
    let store = S::connect(url).await;
    store.create().await;
    let before = Process::start(redis, &prefix, &store, false).await;
    assert_eq!(before.read(Freshness::Cached).await.0, "tea house");
    before.stop().await;
    crash::<S>(url, redis, &prefix, "coffee house");

    // The danger is real: without the log the old value is there to stay.
    let without = Process::start(redis, &prefix, &store, false).await;
    let (name, source) = without.read(Freshness::Strong).await;
    assert_eq!((name.as_str(), source), ("tea house", Source::Remote));

    let restarted = Process::start(redis, &prefix, &store, true).await;
    let began = Instant::now();
    loop {
        for freshness in [Freshness::Cached, Freshness::StaleOk, Freshness::Strong] {
            assert_eq!(restarted.read(freshness).await.0, "coffee house", "{freshness:?}");
        }
        if store.log().load("shop", 0, 10).await.unwrap().is_empty() {
            break;
        }
        assert!(began.elapsed() < BOUND + BUSY, "the row is still there");
    }
    assert_eq!(without.read(Freshness::Strong).await.0, "coffee house");

    // A process that ran during a crash: it finds the row within a second.
    let bystander = restarted;
    while bystander.read(Freshness::Cached).await.1 != Source::Local {
        assert!(began.elapsed() < BOUND + BUSY, "it keeps no copy");
    }
    crash::<S>(url, redis, &prefix, "tea room");
    let committed = Instant::now();
    while bystander.read(Freshness::Cached).await.0 != "tea room" {
        assert!(committed.elapsed() < BOUND + BUSY, "the old value is still read");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..100 {
        assert_eq!(bystander.read(Freshness::Cached).await.0, "tea room");
    }
    bystander.stop().await;
    without.stop().await;
}

/// What the trait asks of a log.
async fn rows_are_kept_and_removed<S: Store>(url: &str) {
    let store = S::connect(url).await;
    store.create().await;
    let log = store.log();
    let entries: Vec<_> = (0..2_500).map(|n| format!("shop:{n}").into_bytes()).collect();
    log.add("shop", &entries).await.unwrap();
    log.add("user", &[b"user:1".to_vec()]).await.unwrap();
    log.add("shop", &[]).await.unwrap();

    let (mut rows, mut after, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page = log.load("shop", after, 1_000).await.unwrap();
        pages += 1;
        let is_last = page.len() < 1_000;
        after = page.last().map_or(after, |row| row.id);
        rows.extend(page);
        if is_last {
            break;
        }
    }
    assert_eq!((rows.len(), pages), (2_500, 3));
    assert!(rows[0].id >= 1 && rows.is_sorted_by(|one, other| one.id < other.id));
    assert!(rows.iter().zip(&entries).all(|(row, entry)| row.entry == *entry));

    // Removed once, or twice: the same. Rows of other caches stay.
    let ids: Vec<_> = rows.iter().map(|row| row.id).collect();
    log.remove("shop", &ids[1..]).await.unwrap();
    log.remove("shop", &ids).await.unwrap();
    log.remove("user", &ids).await.unwrap();
    log.remove("shop", &[]).await.unwrap();
    assert_eq!(log.load("shop", 0, 10).await.unwrap(), []);
    assert_eq!(log.load("user", 0, 10).await.unwrap().len(), 1);

    // A row goes with its transaction, and no id is used again.
    store.rename("coffee house", b"shop:42", End::Rollback).await.unwrap();
    assert_eq!(store.name().await.unwrap(), "tea house");
    assert_eq!(log.load("shop", 0, 10).await.unwrap(), []);
    store.rename("coffee house", &[0, 0xff, b'\''], End::Commit).await.unwrap();
    let rows = log.load("shop", 0, 10).await.unwrap();
    assert_eq!((rows.len(), rows[0].entry.as_slice()), (1, &[0, 0xff, b'\''][..]));
    assert!(rows[0].id > ids[ids.len() - 1]);
}

mod sqlite {
    use tempfile::TempDir;

    use super::*;

    fn database() -> (TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}?mode=rwc", folder.path().join("shops.db").display());
        (folder, url)
    }

    #[tokio::test]
    async fn keeps_rows() {
        let (_folder, url) = database();
        rows_are_kept_and_removed::<OnSqlite>(&url).await;
    }

    #[tokio::test]
    async fn survives_a_crash() {
        let (_folder, url) = database();
        old_values_end_with_a_restart::<OnSqlite>(&url).await;
    }
}

mod mariadb {
    use super::*;

    #[tokio::test]
    async fn keeps_rows() {
        let database = TestDatabase::create().unwrap();
        rows_are_kept_and_removed::<OnMySql>(database.url()).await;
    }

    #[tokio::test]
    async fn survives_a_crash() {
        let database = TestDatabase::create().unwrap();
        old_values_end_with_a_restart::<OnMySql>(database.url()).await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test]
    async fn keeps_rows() {
        let server = PostgresServer::start().unwrap();
        rows_are_kept_and_removed::<OnPostgres>(&server.url()).await;
    }

    #[tokio::test]
    async fn survives_a_crash() {
        let server = PostgresServer::start().unwrap();
        old_values_end_with_a_restart::<OnPostgres>(&server.url()).await;
    }
}
