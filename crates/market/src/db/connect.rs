//! Connections from the pool, behind a circuit breaker.
//!
//! If the pool cannot connect, every query waits for the pool's full time limit, and a request
//! makes several queries in a row. After two such failures the breaker refuses at once. About once
//! a second a call starts a probe: a separate task that asks the pool for a connection. The call
//! itself is refused like the others, so no caller waits for a server that is probably gone. The
//! first successful probe closes the breaker.
//!
//! Only failures to connect count. A pool that reports "timed out" may just be busy. So a time-out
//! counts only if a slot in the pool was free during the whole wait and still no caller got a
//! connection: fewer connections than the maximum were in use at its start, and none was handed out
//! since. Any answer of a server, even an error, shows that it is there. SQLite has no server, and
//! no breaker.
//!
//! Deliberately absent: a limit for queries in progress. A hanging server keeps those; later
//! queries meet the breaker, because connections are tested before they are handed out.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{
    StreamExt as _, TryFutureExt as _,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use seawall::guard::{Breaker, Open, Outcome};
use sqlx::{
    Any, AnyPool, Either, Executor, SqlStr,
    any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo},
    pool::PoolConnection,
};

use super::{CONNECTIONS, Db, Kind};

/// Failures within [`WINDOW`] that open the breaker.
const FAILURES: usize = 2;
const WINDOW: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// The pool and the state of the server behind it.
#[derive(Debug)]
pub(super) struct Connections {
    pool: AnyPool,
    kind: Kind,
    breaker: Breaker,
    uses: Arc<Uses>,
}

/// Counts connections in use, and connections handed out so far.
#[derive(Debug, Default)]
struct Uses {
    now: AtomicUsize,
    ever: AtomicU64,
}

/// Counts a connection as in use while it lives.
#[derive(Debug)]
pub(super) struct InUse(Arc<Uses>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connections {
    pub(super) fn new(pool: AnyPool, kind: Kind) -> Self {
        let breaker = Breaker::builder("database")
            .failure_threshold(FAILURES)
            .window(WINDOW)
            .probe_interval(PROBE_EVERY)
            .max_probes(1)
            .build()
            .expect("none of the settings is zero");
        Connections { pool, kind, breaker, uses: Arc::default() }
    }

    pub(super) fn pool(&self) -> &AnyPool {
        &self.pool
    }

    /// Fails while the server is known to be away; for callers that first wait for something else.
    pub(super) fn check(&self) -> Result<(), sqlx::Error> {
        // `get` sends probes, so a caller that is due for a probe passes here.
        self.breaker.check().map_err(away)
    }

    /// Returns a connection within the pool's time limit; fails at once while the server is away.
    pub(super) async fn get(self: &Arc<Self>) -> Result<(PoolConnection<Any>, InUse), sqlx::Error> {
        let permit = self.breaker.enter().map_err(away)?;
        if permit.is_probe() {
            let this = Arc::clone(self);
            // Ends with the pool's time limit.
            tokio::spawn(async move {
                let (probed, outcome) = this.attempt().await;
                drop(probed);
                permit.record(outcome);
            });
            return Err(away(Open { retry_after: PROBE_EVERY }));
        }
        let (connection, outcome) = self.attempt().await;
        permit.record(outcome);
        connection
    }

    async fn attempt(&self) -> (Result<(PoolConnection<Any>, InUse), sqlx::Error>, Outcome) {
        let had_room = self.uses.now.load(Ordering::SeqCst) < CONNECTIONS as usize;
        let before = self.uses.ever.load(Ordering::SeqCst);
        match self.pool.acquire().await {
            Ok(connection) => {
                self.uses.now.fetch_add(1, Ordering::SeqCst);
                self.uses.ever.fetch_add(1, Ordering::SeqCst);
                (Ok((connection, InUse(Arc::clone(&self.uses)))), Outcome::Ok)
            }
            Err(error) => {
                let stood_still = before == self.uses.ever.load(Ordering::SeqCst);
                let is_away = match &error {
                    _ if self.kind == Kind::Sqlite => false,
                    sqlx::Error::Io(_) => true,
                    sqlx::Error::PoolTimedOut => had_room && stood_still,
                    _ => false,
                };
                (Err(error), if is_away { Outcome::Failed } else { Outcome::Ignored })
            }
        }
    }
}

fn away(open: Open) -> sqlx::Error {
    io::Error::new(io::ErrorKind::NotConnected, open).into()
}

/// Runs single statements, each on its own connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(pub(super) &'a Db);

impl<'c> Executor<'c> for Reader<'_> {
    type Database = Any;

    /// Fetches all rows at once: no caller reads rows one by one.
    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<AnyQueryResult, AnyRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + sqlx::Execute<'q, Any>,
    {
        let connections = Arc::clone(&self.0.connections);
        let all = async move {
            let (mut connection, _in_use) = connections.get().await?;
            let steps: Vec<_> = connection.fetch_many(query).collect().await;
            Ok(stream::iter(steps))
        };
        Box::pin(all.try_flatten_stream())
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, Result<Option<AnyRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + sqlx::Execute<'q, Any>,
    {
        let connections = Arc::clone(&self.0.connections);
        Box::pin(async move {
            let (mut connection, _in_use) = connections.get().await?;
            connection.fetch_optional(query).await
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [AnyTypeInfo],
    ) -> BoxFuture<'e, Result<AnyStatement, sqlx::Error>>
    where
        'c: 'e,
    {
        let connections = Arc::clone(&self.0.connections);
        Box::pin(async move {
            let (mut connection, _in_use) = connections.get().await?;
            connection.prepare_with(sql, parameters).await
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;
    use seawall::guard::BreakerState;
    use seawall_testkit::MariaDb;

    use super::*;
    use crate::config::{Database, Secret};

    /// Maximum time for a server to be found again.
    const PATIENCE: Duration = Duration::from_secs(60);

    async fn db_on(server: &MariaDb) -> Db {
        let url = Secret::new(server.database().expect("a database"));
        Db::open(&Database::Mysql(url)).await.expect("it opens")
    }

    async fn one(db: &Db) -> Result<(), sqlx::Error> {
        sqlx::query("SELECT 1 AS one").fetch_one(db.read()).await.map(drop)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_dead_server_is_not_waited_for_and_found_again() {
        let server = MariaDb::start().expect("MariaDB starts");
        let db = db_on(&server).await;
        one(&db).await.expect("it answers");
        server.kill().expect("it ends");
        let breaker = &db.connections.breaker;
        // The first callers wait for the pool's time limit, concurrently.
        for failed in join_all((0..FAILURES).map(|_| one(&db))).await {
            failed.expect_err("it is gone");
        }
        assert_ne!(breaker.state(), BreakerState::Closed);
        // A thousand more: each would have waited for seconds, one after the other.
        let begun = std::time::Instant::now();
        for _ in 0..1000 {
            one(&db).await.expect_err("it is gone");
            db.write().await.expect_err("it is gone");
            db.snapshot().await.map(drop).expect_err("it is gone");
        }
        assert!(begun.elapsed() < PATIENCE, "somebody waits");
        server.restart().expect("it starts again");
        let deadline = std::time::Instant::now() + PATIENCE;
        while one(&db).await.is_err() {
            assert!(std::time::Instant::now() < deadline, "it is not found again");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        db.write().await.expect("it answers").commit().await.expect("committed");
        db.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn neither_a_busy_pool_nor_a_wrong_statement_is_a_dead_server() {
        let database = seawall_testkit::TestDatabase::create().expect("MariaDB answers");
        let url = Secret::new(database.url());
        let db = Db::open(&Database::Mysql(url)).await.expect("it opens");
        let mut busy = Vec::new();
        for _ in 0..CONNECTIONS {
            busy.push(db.connections.get().await.expect("a connection"));
        }
        for waited in join_all((0..2 * FAILURES).map(|_| one(&db))).await {
            assert!(matches!(waited, Err(sqlx::Error::PoolTimedOut)), "{waited:?}");
        }
        assert_eq!(db.connections.breaker.state(), BreakerState::Closed);
        busy.clear();
        for _ in 0..2 * FAILURES {
            let wrong = sqlx::query("SELECT nonsense FROM nowhere").fetch_one(db.read()).await;
            assert!(matches!(wrong, Err(sqlx::Error::Database(_))), "{:?}", wrong.err());
        }
        assert_eq!(db.connections.breaker.state(), BreakerState::Closed);
        one(&db).await.expect("it answers");
        db.close().await;
    }
}
