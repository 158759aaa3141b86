//! Assembles the service: stores, features, jobs and router; and shuts it down in order.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::Router;
use seawall::{Seawall, cmd, lock::AcquireOutcome, social::Day};

use crate::{
    accounts::{self, Accounts, LogSender, SmsSender},
    big_keys::{BigKeys, jobs::Schedule},
    cart::Carts,
    checkins::Checkins,
    config::Config,
    db::Db,
    debts::{self, Debts, settle::Settler},
    demo,
    error::{Error, Result},
    feed::{self, Feed, inboxes::Inboxes},
    follows::Follows,
    home::Home,
    http::{self, RequestTracker, metrics::Requests},
    inventory::Goods,
    jobs::Jobs,
    keys,
    notes::Notes,
    orders::Orders,
    payments::{Payments, SimulatedPayments},
    sales::{self, Sales, jobs::Workers},
    shops::{self, Shops},
    stats::Stats,
    submissions,
    uploads::Uploads,
    vouchers::Vouchers,
    zone,
};

/// Maximum wait for another process to migrate and fill the database.
const PREPARE: Duration = Duration::from_secs(60);

/// State shared by the handlers.
pub(crate) type Shared = Arc<State>;

/// What every feature depends on; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) seawall: Seawall,
    pub(crate) db: Arc<Db>,
    pub(crate) debts: Debts,
    pub(crate) payments: Arc<dyn Payments>,
    /// Name of this process within the fleet; unchanged after a restart.
    pub(crate) instance: Arc<str>,
}

impl Context {
    /// Returns the current time by the Redis server's clock, in milliseconds since the epoch.
    pub(crate) fn now(&self) -> i64 {
        self.seawall.client().server_millis()
    }

    /// Checks that Redis answers.
    pub(crate) async fn ping(&self) -> Result<()> {
        self.seawall.client().send(b"", &cmd("PING")).await?;
        Ok(())
    }

    /// Returns the current day in the business zone, by the same clock.
    pub(crate) fn today(&self) -> Day {
        zone::day(&self.config.zone, self.now())
    }
}

/// The features and their stores.
#[derive(Debug)]
pub(crate) struct State {
    context: Context,
    accounts: Arc<Accounts>,
    checkins: Checkins,
    stats: Stats,
    shops: Arc<Shops>,
    vouchers: Vouchers,
    notes: Arc<Notes>,
    home: Home,
    uploads: Uploads,
    follows: Follows,
    feed: Arc<Feed>,
    sales: Arc<Sales>,
    goods: Arc<Goods>,
    carts: Arc<Carts>,
    orders: Arc<Orders>,
    request_tracker: RequestTracker,
    requests: Requests,
    draining: AtomicBool,
}

impl State {
    pub(crate) fn config(&self) -> &Config {
        &self.context.config
    }

    pub(crate) fn today(&self) -> Day {
        self.context.today()
    }

    pub(crate) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    pub(crate) fn checkins(&self) -> &Checkins {
        &self.checkins
    }

    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn shops(&self) -> &Shops {
        &self.shops
    }

    pub(crate) fn vouchers(&self) -> &Vouchers {
        &self.vouchers
    }

    pub(crate) fn notes(&self) -> &Notes {
        &self.notes
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn uploads(&self) -> &Uploads {
        &self.uploads
    }

    pub(crate) fn follows(&self) -> &Follows {
        &self.follows
    }

    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(crate) fn sales(&self) -> &Sales {
        &self.sales
    }

    pub(crate) fn goods(&self) -> &Goods {
        &self.goods
    }

    pub(crate) fn carts(&self) -> &Carts {
        &self.carts
    }

    pub(crate) fn orders(&self) -> &Orders {
        &self.orders
    }

    pub(crate) fn request_tracker(&self) -> &RequestTracker {
        &self.request_tracker
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) async fn redis_answers(&self) -> bool {
        self.context.ping().await.is_ok()
    }

    pub(crate) async fn database_answers(&self) -> bool {
        self.context.db.ping().await.is_ok()
    }
}

/// Replaceable parts of an [`App`], for tests and real providers.
#[derive(Debug, Default)]
pub struct Parts {
    /// Delivers login codes. Default: writes them to the log.
    pub sender: Option<Arc<dyn SmsSender>>,
    /// Charges and refunds. Default: a simulation.
    pub payments: Option<Arc<dyn Payments>>,
}

/// The running service, without a socket.
#[derive(Debug)]
pub struct App {
    state: Shared,
    jobs: Jobs,
    workers: Workers,
    schedule: Schedule,
}

impl App {
    /// Opens and migrates the database, fills it if it is empty, opens the sales and starts the
    /// jobs.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a store is away.
    pub async fn start(config: Config, seawall: Seawall, parts: Parts) -> Result<Self> {
        let instance = instance(&config.data)?.into();
        let db = Arc::new(Db::open(&config.database).await?);
        let payments = parts.payments.unwrap_or_else(|| Arc::new(SimulatedPayments::default()));
        let debts = Debts::new(&db, seawall.client());
        let config = Arc::new(config);
        let context = Context { config, seawall, db, debts, payments, instance };
        prepare(&context).await?;
        let sender = parts.sender.unwrap_or_else(|| Arc::new(LogSender));
        let accounts = Arc::new(Accounts::new(&context, sender)?);
        let checkins = Checkins::new(&context);
        let stats = Stats::new(&context)?;
        let shops = Arc::new(Shops::new(&context)?);
        let vouchers = Vouchers::new(&context)?;
        let notes = Arc::new(Notes::new(&context, &accounts)?);
        let home = Home::new(&context, &notes)?;
        let uploads = Uploads::new(&context)?;
        notes.take_ids_in_hand().await?;
        let inboxes = Inboxes::new(&context)?;
        let follows = Follows::new(&context, &accounts, &inboxes, notes.events())?;
        let feed = Arc::new(Feed::new(&context, &notes, &follows, &inboxes));
        let sales = Arc::new(Sales::new(&context)?);
        sales.open_sales().await?;

        let goods = Arc::new(Goods::new(&context)?);
        let carts = Arc::new(Carts::new(&context, &goods)?);
        let orders = Arc::new(Orders::new(&context, &goods, &carts)?);

        let settler = Arc::new(Settler {
            context: context.clone(),
            accounts: Arc::clone(&accounts),
            shops: Arc::clone(&shops),
            notes: Arc::clone(&notes),
            follows: follows.clone(),
            inboxes,
        });
        // This process must not serve data older than what was acknowledged before.
        settler.settle_all().await?;

        let mut jobs = Jobs::new(&context.seawall);
        debts::settle::start(&settler, &mut jobs);
        http::metrics::start(&mut jobs, &context.seawall);
        accounts::jobs::start(&accounts, &mut jobs);
        stats.start(&mut jobs);
        shops::jobs::start(&mut jobs, &shops);
        sales::jobs::start(&sales, &mut jobs);
        let workers = Workers::start(&sales, &context.instance)?;
        goods.start_jobs(&mut jobs);
        carts.start_jobs(&mut jobs)?;
        feed::jobs::start(&feed, &mut jobs)?;
        orders.start_jobs(&mut jobs)?;
        submissions::start_jobs(&context, &mut jobs);
        let big_keys = BigKeys::new(
            &context.seawall,
            Arc::clone(&context.db),
            context.config.big_keys.clone(),
        );
        let schedule = Schedule::start(Arc::new(big_keys), context.config.zone.clone());
        let draining = AtomicBool::new(false);
        let state = Arc::new(State {
            context,
            accounts,
            checkins,
            stats,
            shops,
            vouchers,
            notes,
            home,
            uploads,
            follows,
            feed,
            sales,
            goods,
            carts,
            orders,
            request_tracker: RequestTracker::default(),
            requests: Requests::new(),
            draining,
        });
        Ok(App { state, jobs, workers, schedule })
    }

    /// Returns the router with every route.
    pub fn router(&self) -> Router {
        http::router(Arc::clone(&self.state))
    }

    /// Compares flash sales in Redis with the database and repairs them, immediately instead of in
    /// the next round.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a store is away.
    pub async fn compare_sales(&self) -> Result<()> {
        self.state.sales.reconcile_all().await
    }

    /// Compares stock in Redis with the database and repairs it, immediately instead of in the next
    /// round.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a store is away.
    pub async fn compare_stock(&self) -> Result<()> {
        self.state.goods.compare_all().await
    }

    /// Makes `/readyz` report that the process is shutting down.
    pub fn begin_drain(&self) {
        self.state.draining.store(true, Ordering::Relaxed);
    }

    /// Finishes requests and jobs in progress, then closes the database and the Redis client.
    pub async fn shutdown(self) {
        self.begin_drain();
        self.state.request_tracker.drained().await;
        self.schedule.stop().await;
        self.workers.stop().await;
        self.jobs.stop().await;
        self.state.context.db.close().await;
        self.state.context.seawall.shutdown().await;
    }
}

/// Migrates the database and fills it if it is empty; one process of the fleet at a time.
async fn prepare(context: &Context) -> Result<()> {
    let AcquireOutcome::Acquired(guard) =
        context.seawall.lock(keys::START_LOCK).acquire(PREPARE).await?
    else {
        return Err(Error::Unavailable {
            what: "the database's schema",
            cause: "another process is bringing it up".into(),
        });
    };
    context.db.migrate().await?;
    if context.config.demo {
        demo::fill(context).await?;
    }
    // The next process finds everything done, with or without the lock.
    let _ = guard.release().await;
    Ok(())
}

/// Returns the name of this process among the workers. It survives a restart and is unique per data
/// folder.
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
