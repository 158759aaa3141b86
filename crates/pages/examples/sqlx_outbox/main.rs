//! A cache whose invalidations survive a crash, because the transaction that changes a row also writes into an
//! outbox: `cargo run -p seawall-pages --example sqlx_outbox`.
//!
//! Here on SQLite; `outbox.rs` has the same for MySQL, MariaDB and PostgreSQL.

#[expect(dead_code, reason = "this example is on SQLite")]
mod outbox;

use std::{
    error::Error,
    future,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use outbox::SqliteOutbox;
use seawall::{
    Seawall,
    cache::{Cache, CacheBuilder, Invalidation, Loaded, RecoveryLog},
};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

/// Shops in a database, behind a cache.
struct Shops {
    pool: SqlitePool,
    cache: Cache<i64, String>,
}

impl Shops {
    fn open(pool: &SqlitePool, cache: CacheBuilder<i64, String>) -> Result<Self, Box<dyn Error>> {
        Ok(Shops { pool: pool.clone(), cache: cache.ttl(Duration::from_secs(600)).build()? })
    }

    async fn name(&self, id: i64) -> Result<String, Box<dyn Error>> {
        let pool = self.pool.clone();
        let load = move || async move {
            let select = sqlx::query_scalar("select name from shop where id = ?").bind(id);
            let name: Option<String> = select.fetch_optional(&pool).await?;
            Ok::<_, sqlx::Error>(Loaded::from(name))
        };
        let read = self.cache.get_or_load(&id, load).await?;
        Ok(read.value.map(|name| name.to_string()).unwrap_or_default())
    }

    /// Changes a shop. The row of the outbox is committed with it: what happens to this process from then on
    /// does not matter to the invalidation.
    async fn rename(
        &self,
        id: i64,
        name: &str,
        committed: impl Future<Output = ()>,
    ) -> Result<Invalidation, Box<dyn Error>> {
        let entry = self.cache.entry_name(&id)?;
        let work = async {
            let mut transaction = self.pool.begin().await?;
            let update = sqlx::query("update shop set name = ? where id = ?").bind(name).bind(id);
            update.execute(&mut *transaction).await?;
            SqliteOutbox::note(&mut transaction, self.cache.name(), &[entry]).await?;
            transaction.commit().await?;
            committed.await;
            Ok::<_, sqlx::Error>(())
        };
        let ((), done) = self.cache.write(&id, work).await?;
        Ok(done)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(folder) = std::env::args_os().nth(1) {
        return crash_after_commit(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir()?;
    let socket = folder.path().join("engine.sock");
    let seawall = Seawall::builder("embedded:").engine_socket(&socket).connect().await?;
    let pool = connect(folder.path()).await?;
    for statement in [
        "create table shop (id integer primary key, name text not null)",
        "insert into shop values (42, 'tea house')",
    ] {
        sqlx::query(statement).execute(&pool).await?;
    }
    let outbox = Arc::new(SqliteOutbox::open(pool.clone()).await?);
    let shops = Shops::open(&pool, seawall.cache("shop").recovery_log(outbox.clone()))?;
    say(&format!("at first: {}", shops.name(42).await?));

    // The usual way: invalidated as soon as it is committed.
    let done = shops.rename(42, "tea room", future::ready(())).await?;
    say(&format!("after a write: {}, {done:?}", shops.name(42).await?));

    // Its row is carried out once more, and deleted.
    while !outbox.load("shop", 0, 1).await?.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    say(&format!("the outbox is empty, the cache has {}", shops.name(42).await?));

    // Another process commits and is killed before it invalidates anything.
    let mut writer = Command::new(std::env::current_exe()?);
    let mut writer = writer.arg(folder.path()).stdout(Stdio::piped()).spawn()?;
    let mut output = BufReader::new(writer.stdout.take().ok_or("no output")?);
    output.read_line(&mut String::new())?;
    writer.kill()?;
    writer.wait()?;

    // This one finds the row of the outbox within a second.
    let killed = Instant::now();
    while shops.name(42).await? != "coffee house" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    say(&format!("{:?} after the crash: {}", killed.elapsed(), shops.name(42).await?));
    seawall.shutdown().await;
    Ok(())
}

async fn connect(folder: &Path) -> sqlx::Result<SqlitePool> {
    let file = SqliteConnectOptions::new().filename(folder.join("shops.db"));
    SqlitePool::connect_with(file.create_if_missing(true)).await
}

/// The other process: commits, says so, and goes no further.
async fn crash_after_commit(folder: &Path) -> Result<(), Box<dyn Error>> {
    let seawall =
        Seawall::connect(&format!("unix:{}", folder.join("engine.sock").display())).await?;
    // Without the log, so that it cannot find its own row in time.
    let shops = Shops::open(&connect(folder).await?, seawall.cache("shop"))?;
    let committed = async {
        say("committed");
        future::pending::<()>().await;
    };
    shops.rename(42, "coffee house", committed).await.map(drop)
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn say(text: &str) {
    println!("{text}");
}
