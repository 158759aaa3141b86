//! A market for one test: its own stores, called without a socket.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode, header},
};
use http_body_util::BodyExt as _;
use seawall::{Seawall, testing::TestServer};
use seawall_market::{App, Config, Parts, config::Sources};
use seawall_testkit::{
    FaultProxy, MariaDb, TestDatabase,
    backend::{Backend, TestBackend},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

/// How long something that happens in the background may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running market and everything it stands on.
pub(crate) struct Market {
    app: Option<App>,
    router: Router,
    pub(crate) seawall: Seawall,
    dir: Arc<TempDir>,
    database: Arc<Database>,
    _stand: Option<TestBackend>,
}

/// The database under a market: a file in its folder, or one of its own on the shared MariaDB.
pub(crate) enum Database {
    Sqlite(String),
    MariaDb(Box<TestDatabase>),
    /// On a server that the test may end.
    Own(String),
}

impl Database {
    /// What goes with a backend: MariaDB with real servers, SQLite with the embedded engine.
    pub(crate) fn beside(backend: Backend, dir: &TempDir) -> Self {
        match backend {
            Backend::Embedded => Self::in_folder(dir),
            _ => Database::MariaDb(Box::new(TestDatabase::create().expect("MariaDB answers"))),
        }
    }

    pub(crate) fn in_folder(dir: &TempDir) -> Self {
        Database::Sqlite(format!("sqlite:{}", dir.path().join("market.db").display()))
    }

    fn url(&self) -> &str {
        match self {
            Database::Sqlite(url) | Database::Own(url) => url,
            Database::MariaDb(database) => database.url(),
        }
    }
}

/// An answer, taken apart.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The stable word.
    pub(crate) fn code(&self) -> &str {
        self.body["code"].as_str().expect("every answer has a code")
    }

    /// The data, when it is text.
    pub(crate) fn text(&self) -> String {
        self.body["data"].as_str().unwrap_or_else(|| panic!("no text: {self:?}")).to_owned()
    }

    /// Asserts a refusal.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.code()), (status, code), "{self:?}");
        assert_eq!(self.body["success"], false);
    }

    /// Asserts that it went well.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        assert_eq!((&self.body["success"], &self.body["code"]), (&json!(true), &json!("OK")));
        self
    }
}

impl Market {
    /// A market with demo data on a server of its own.
    pub(crate) async fn on(backend: Backend) -> Self {
        Self::with(backend, Parts::default(), &[]).await
    }

    /// The stores of a market, which others run.
    pub(crate) fn of_stores(
        seawall: Seawall,
        dir: Arc<TempDir>,
        database: Arc<Database>,
        stand: TestBackend,
    ) -> Self {
        Market { router: Router::new(), app: None, seawall, dir, database, _stand: Some(stand) }
    }

    /// A market on an engine whose time is in the test's hands.
    pub(crate) async fn on_test_server(test_server: &TestServer) -> Self {
        Self::on_stage_with(test_server, &[]).await
    }

    /// The same with settings of the test's own.
    pub(crate) async fn on_stage_with(test_server: &TestServer, settings: &[(&str, &str)]) -> Self {
        Self::on_stage_of(test_server, Parts::default(), settings).await
    }

    /// The same with parts of the test's own, too.
    pub(crate) async fn on_stage_of(
        test_server: &TestServer,
        parts: Parts,
        settings: &[(&str, &str)],
    ) -> Self {
        let dir = new_dir();
        let database = Arc::new(Database::in_folder(&dir));
        Self::start(test_server.seawall().clone(), dir, database, parts, settings).await
    }

    /// The same on MariaDB.
    pub(crate) async fn on_stage_and_mariadb(test_server: &TestServer) -> Self {
        let dir = new_dir();
        let database = Arc::new(Database::beside(Backend::Redis, &dir));
        Self::start(test_server.seawall().clone(), dir, database, Parts::default(), &[]).await
    }

    /// A market with parts and settings of the test's own.
    pub(crate) async fn with(backend: Backend, parts: Parts, settings: &[(&str, &str)]) -> Self {
        let stand = TestBackend::private(backend).expect("the backend starts");
        let seawall = connect(&stand).await;
        let dir = new_dir();
        let database = Arc::new(Database::beside(backend, &dir));
        let mut market = Self::start(seawall, dir, database, parts, settings).await;
        market._stand = Some(stand);
        market
    }

    /// A market on redis-server and MariaDB, and what can cut it off from Redis.
    pub(crate) async fn behind_proxy() -> (Self, FaultProxy) {
        let stand = TestBackend::private(Backend::Redis).expect("the backend starts");
        let server = stand.server().expect("it is a private one");
        let proxy = FaultProxy::start(server.port()).expect("a port is free");
        let builder = Seawall::builder(&proxy.url()).response_timeout(Duration::from_secs(2));
        let seawall = builder.connect().await.expect("it answers");
        let dir = new_dir();
        let database = Arc::new(Database::beside(Backend::Redis, &dir));
        let mut market = Self::start(seawall, dir, database, Parts::default(), &[]).await;
        market._stand = Some(stand);
        (market, proxy)
    }

    /// A market on a MariaDB that nobody else uses.
    pub(crate) async fn on_own_database() -> (Self, MariaDb) {
        let server = MariaDb::start().expect("MariaDB starts");
        let stand = TestBackend::private(Backend::Embedded).expect("the backend starts");
        let database = Arc::new(Database::Own(server.database().expect("a database")));
        let seawall = connect(&stand).await;
        let mut market = Self::start(seawall, new_dir(), database, Parts::default(), &[]).await;
        market._stand = Some(stand);
        (market, server)
    }

    /// A process on stores that are there.
    pub(crate) async fn start(
        seawall: Seawall,
        dir: Arc<TempDir>,
        database: Arc<Database>,
        parts: Parts,
        settings: &[(&str, &str)],
    ) -> Self {
        // Shown with a test that fails; the first test of a process sets it.
        let _ = tracing_subscriber::fmt().with_test_writer().with_ansi(false).try_init();
        let app = App::start(config(&dir, &database, settings), seawall.clone(), parts).await;
        let app = app.expect("it starts");
        Market { router: app.router(), app: Some(app), seawall, dir, database, _stand: None }
    }

    /// The same process after a restart, on the same stores.
    pub(crate) async fn restarted(&self) -> Market {
        let (dir, database) = (Arc::clone(&self.dir), Arc::clone(&self.database));
        Self::start(self.seawall.clone(), dir, database, Parts::default(), &[]).await
    }

    /// Another process on the same stores, with a folder and so a name of its own.
    pub(crate) async fn colleague(&self) -> Market {
        self.colleague_with(&[]).await
    }

    /// The same with settings of its own.
    pub(crate) async fn colleague_with(&self, settings: &[(&str, &str)]) -> Market {
        let database = Arc::clone(&self.database);
        Self::start(self.seawall.clone(), new_dir(), database, Parts::default(), settings).await
    }

    /// Lets a phone ask for a code at once again.
    pub(crate) async fn forget_limits(&self, phone: &str) {
        let keys: Vec<String> = self.redis(&["KEYS", &format!("*{phone}*")]).await;
        for key in keys {
            let _: i64 = self.redis(&["DEL", &key]).await;
        }
    }

    /// Its data folder.
    pub(crate) fn data(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Its routes, for a server.
    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// Ends it in order, the stores included.
    pub(crate) async fn shutdown(mut self) {
        self.stop().await;
    }

    /// Ends it in order; its database can still be looked at.
    pub(crate) async fn stop(&mut self) {
        self.app.take().expect("it runs").shutdown().await;
    }

    pub(crate) async fn call(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.expect("never fails");
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let body = serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned()));
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Answer {
        self.call(request(Method::GET, path, token, Body::empty())).await
    }

    pub(crate) async fn post(&self, path: &str, token: &str) -> Answer {
        self.call(request(Method::POST, path, token, Body::empty())).await
    }

    pub(crate) async fn ask_code(&self, phone: &str) -> Answer {
        let mut request =
            request(Method::POST, "/user/code", "", Body::from(format!("phone={phone}")));
        let kind = "application/x-www-form-urlencoded".parse().expect("a header");
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        self.call(request).await
    }

    /// A code, as echo mode returns it.
    pub(crate) async fn code(&self, phone: &str) -> String {
        let answer = self.ask_code(phone).await.ok();
        answer.body["data"]["code"].as_str().expect("echo mode shows the code").to_owned()
    }

    pub(crate) async fn log_in_with(&self, phone: &str, code: &str) -> Answer {
        self.post_json("/user/login", &json!({ "phone": phone, "code": code })).await
    }

    pub(crate) async fn post_json(&self, path: &str, body: &Value) -> Answer {
        self.send_json(Method::POST, path, "", body).await
    }

    /// Any method with a body.
    pub(crate) async fn send_json(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &Value,
    ) -> Answer {
        let mut request = request(method, path, token, Body::from(body.to_string()));
        let kind = "application/json".parse().expect("a header");
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        self.call(request).await
    }

    /// The same under a name of the client's own.
    pub(crate) async fn send_named(
        &self,
        method: Method,
        path: &str,
        token: &str,
        body: &Value,
        key: &str,
    ) -> Answer {
        let mut request = request(method, path, token, Body::from(body.to_string()));
        for (name, value) in [("content-type", "application/json"), ("idempotency-key", key)] {
            request.headers_mut().insert(name, value.parse().expect("a header"));
        }
        self.call(request).await
    }

    /// A token for a phone.
    pub(crate) async fn log_in(&self, phone: &str) -> String {
        let code = self.code(phone).await;
        self.log_in_with(phone, &code).await.ok().text()
    }

    /// Waits until an order has left the queue: its status.
    pub(crate) async fn settled(&self, order: &str, token: &str) -> String {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = self.get(&format!("/voucher-order/{order}"), token).await.ok();
            let status = answer.body["data"]["status"].as_str().expect("a status").to_owned();
            if status != "QUEUED" {
                return status;
            }
            assert!(tokio::time::Instant::now() < deadline, "{order} is still queued");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits for something that happens in the background.
    pub(crate) async fn until(&self, what: &str, is_so: impl AsyncFn(&Market) -> bool) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !is_so(self).await {
            assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A number from the database.
    pub(crate) async fn sql(&self, query: &'static str) -> i64 {
        let pool = self.pool().await;
        let number = sqlx::query_scalar(query).fetch_one(&pool).await.expect("a number");
        pool.close().await;
        number
    }

    /// Changes the database behind the market's back.
    pub(crate) async fn change(&self, statement: &'static str) {
        let pool = self.pool().await;
        sqlx::query(statement).execute(&pool).await.expect("it is carried out");
        pool.close().await;
    }

    /// Keeps every writer out of the database until the pool is closed.
    pub(crate) async fn hold_up_writers(&self) -> sqlx::AnyPool {
        let pool = self.pool().await;
        // Kept by the pool: the lock ends with the connection.
        let mut connection = pool.acquire().await.expect("a connection");
        let lock = match *self.database {
            Database::Sqlite(_) => "BEGIN IMMEDIATE",
            Database::MariaDb(_) | Database::Own(_) => "FLUSH TABLES WITH READ LOCK",
        };
        sqlx::raw_sql(lock).execute(&mut *connection).await.expect("the lock");
        drop(connection);
        pool
    }

    /// Keeps orders from being written until the pool is closed: at MariaDB each transaction gets as far
    /// as the row of its order, at SQLite none can begin.
    pub(crate) async fn hold_up_orders(&self) -> sqlx::AnyPool {
        if let Database::Sqlite(_) = *self.database {
            return self.hold_up_writers().await;
        }
        let pool = self.pool().await;
        let mut connection = pool.acquire().await.expect("a connection");
        let lock = "LOCK TABLES voucher_order READ, orders READ";
        sqlx::raw_sql(lock).execute(&mut *connection).await.expect("the lock");
        drop(connection);
        pool
    }

    /// Waits until a transaction waits for [`Market::hold_up_orders`]; SQLite does not tell.
    pub(crate) async fn until_held_up(&self) {
        if let Database::Sqlite(_) = *self.database {
            return;
        }
        let waiting = "SELECT COUNT(*) FROM information_schema.processlist \
                       WHERE db = DATABASE() AND state LIKE 'Waiting for table%lock'";
        self.until("an order to be held up", async |market| market.sql(waiting).await > 0).await;
    }

    async fn pool(&self) -> sqlx::AnyPool {
        sqlx::AnyPool::connect(self.database.url()).await.expect("it is there")
    }

    /// A reply of Redis.
    pub(crate) async fn redis<T: seawall::FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = seawall::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        let key = words.get(1).copied().unwrap_or_default();
        self.seawall.client().query(key.as_bytes(), &command).await.expect("Redis answers")
    }

    /// Compares flash sales in both stores, without waiting for the round.
    pub(crate) async fn compare_sales(&self) {
        let app = self.app.as_ref().expect("it runs");
        app.compare_sales().await.expect("both answer");
    }

    /// Compares stock in Redis with the database.
    pub(crate) async fn compare_stock(&self) {
        let app = self.app.as_ref().expect("it runs");
        app.compare_stock().await.expect("both answer");
    }

    /// Units of a sale, by Redis.
    pub(crate) async fn stock(&self, voucher: u64) -> i64 {
        self.redis(&["HGET", &sale_key(voucher), "left"]).await
    }

    /// Waits until nothing is queued any more.
    pub(crate) async fn all_settled(&self) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        for group in 0..seawall_market::keys::SALE_SHARDS {
            let (stream, waiting) =
                (format!("sale:{{{group}}}"), format!("sale:{{{group}}}:waiting"));
            loop {
                let queued: i64 = self.redis(&["XLEN", &stream]).await;
                if queued == 0 && self.redis::<i64>(&["HLEN", &waiting]).await == 0 {
                    break;
                }
                assert!(tokio::time::Instant::now() < deadline, "{stream} is not drained");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// The toolkit's key of a sale.
pub(crate) fn sale_key(voucher: u64) -> String {
    format!("sale:{{{}}}:{voucher}", voucher % seawall_market::keys::SALE_SHARDS)
}

/// Many tests share this machine: a reply may take its time.
async fn connect(stand: &TestBackend) -> Seawall {
    let builder = Seawall::builder(stand.url()).response_timeout(PATIENCE);
    builder.connect().await.expect("it answers")
}

pub(crate) fn new_dir() -> Arc<TempDir> {
    Arc::new(tempfile::Builder::new().prefix("seawall-market-").tempdir().expect("a folder"))
}

fn config(dir: &TempDir, database: &Database, settings: &[(&str, &str)]) -> Config {
    let data = dir.path().display().to_string();
    let defaults = [("data", data.as_str()), ("sms", "echo")];
    // By the environment: a URL with a password is refused as a flag.
    let database = ("SEAWALL_DATABASE".to_owned(), database.url().to_owned());
    let mut sources = Sources::new().environment(std::iter::once(database));
    for (name, value) in defaults.iter().chain(settings) {
        sources = sources.flag(name, value).expect("known");
    }
    sources.config().expect("valid")
}

pub(crate) fn request(method: Method, path: &str, token: &str, body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        request = request.header(header::AUTHORIZATION, token);
    }
    request.body(body).expect("a request")
}

/// Runs tests on the embedded engine with SQLite, and on redis-server with MariaDB.
macro_rules! on_each_backend {
    ($($name:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(seawall_testkit::backend::Backend::Embedded).await;
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(seawall_testkit::backend::Backend::Redis).await;
            })*
        }
    };
}
pub(crate) use on_each_backend;
