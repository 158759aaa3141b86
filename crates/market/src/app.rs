//! The service put together: stores, features, workers, router; and taken apart in order.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::Router;
use seawall::{Seawall, cmd};

use crate::{
    accounts::{Accounts, LogSender, SmsSender},
    big_keys::{BigKeys, jobs::Schedule},
    config::{Config, Database},
    db::Db,
    demo,
    error::{Error, Result},
    http,
    orders::{CrashPoints, Orders, jobs::Workers},
    shops::Shops,
};

/// What handlers share.
pub(crate) type Shared = Arc<State>;

/// The features on their stores.
#[derive(Debug)]
pub(crate) struct State {
    config: Config,
    seawall: Seawall,
    db: Arc<Db>,
    accounts: Accounts,
    shops: Shops,
    orders: Arc<Orders>,
    draining: AtomicBool,
}

impl State {
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    pub(crate) fn shops(&self) -> &Shops {
        &self.shops
    }

    pub(crate) fn orders(&self) -> &Orders {
        &self.orders
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) async fn redis_answers(&self) -> bool {
        self.seawall.link().send(b"", &cmd("PING")).await.is_ok()
    }

    pub(crate) async fn database_answers(&self) -> bool {
        self.db.ping().await.is_ok()
    }
}

/// How an [`App`] is put together; what a test may exchange.
#[derive(Debug, Default)]
pub struct Parts {
    /// What delivers login codes; the log without it.
    pub sender: Option<Arc<dyn SmsSender>>,
    /// Where workers are killed; nowhere without it.
    pub crash_points: CrashPoints,
}

/// The running service, without a socket.
#[derive(Debug)]
pub struct App {
    state: Shared,
    workers: Workers,
    schedule: Schedule,
}

impl App {
    /// Opens the database, fills it when it is empty, opens the sales and starts the workers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when a store is away.
    pub async fn start(config: Config, seawall: Seawall, parts: Parts) -> Result<Self> {
        let Database::Sqlite(path) = &config.database;
        let db = Arc::new(Db::open_sqlite(path).await?);
        if config.demo {
            demo::fill(&db, seawall.link().server_millis()).await?;
        }
        let sender = parts.sender.unwrap_or_else(|| Arc::new(LogSender));
        let accounts = Accounts::new(&seawall, Arc::clone(&db), sender, &config)?;
        let shops = Shops::new(&seawall, Arc::clone(&db))?;
        let orders = Arc::new(Orders::new(&seawall, Arc::clone(&db), parts.crash_points)?);
        orders.open_sales().await?;
        let workers = Workers::start(&orders, &instance(&config.data)?);
        let big_keys = BigKeys::new(&seawall, Arc::clone(&db), config.big_keys.clone());
        let schedule = Schedule::start(Arc::new(big_keys), config.zone.clone());
        let draining = AtomicBool::new(false);
        let state = Arc::new(State { config, seawall, db, accounts, shops, orders, draining });
        Ok(App { state, workers, schedule })
    }

    /// Every route.
    pub fn router(&self) -> Router {
        http::router(Arc::clone(&self.state))
    }

    /// From now on `/readyz` says that the process is ending.
    pub fn begin_drain(&self) {
        self.state.draining.store(true, Ordering::Relaxed);
    }

    /// Writes the orders that wait, closes the database and the handle on Redis.
    pub async fn shutdown(self) {
        self.begin_drain();
        self.schedule.stop().await;
        self.workers.stop().await;
        self.state.db.close().await;
        self.state.seawall.shutdown().await;
    }
}

/// The name of this process among the workers: the same after a restart, another with other data.
fn instance(data: &Path) -> Result<String> {
    let path = data.join("instance");
    let fail = |error: std::io::Error| Error::Unavailable {
        what: "the data folder",
        cause: format!("{}: {error}", path.display()),
    };
    match fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => Ok(name.trim().to_owned()),
        Ok(_) => write_instance(&path).map_err(fail),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(data).map_err(fail)?;
            write_instance(&path).map_err(fail)
        }
        Err(error) => Err(fail(error)),
    }
}

fn write_instance(path: &Path) -> std::io::Result<String> {
    let name = format!("{:016x}", rand::random::<u64>());
    fs::write(path, &name)?;
    Ok(name)
}
