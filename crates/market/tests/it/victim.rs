//! A market in a process of its own, which a test holds where it is to die, and kills.
//!
//! A process is a runtime here: all of its tasks end where they are, all that it remembers is gone, and
//! nothing is cleaned up. Both stores stay. It is held from outside, by a lock in the database
//! ([`Market::hold_up_orders`]) and by the proxy through which it reaches Redis.

use std::{sync::Arc, time::Duration};

use seawall::Seawall;
use seawall_market::Parts;
use seawall_testkit::{
    Address, FaultProxy,
    backend::{Backend, TestBackend},
};
use tokio::runtime::{Builder, Runtime};

use crate::market::{Database, Market, PATIENCE, new_dir};

/// How long a process may take to notice that it ended.
const END: Duration = Duration::from_secs(10);

/// A process of one thread.
pub(crate) fn process() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

/// Ends a process; nothing of it runs any more when this returns.
pub(crate) async fn kill(process: Runtime) {
    let ending = tokio::task::spawn_blocking(move || process.shutdown_timeout(END));
    ending.await.expect("no panic");
}

/// A market that is to die.
pub(crate) struct Victim {
    pub(crate) proxy: FaultProxy,
    market: Arc<Market>,
    process: Option<Runtime>,
}

impl Victim {
    /// One on stores of its own, and the stores, with a way to Redis that is the test's.
    pub(crate) async fn on(backend: Backend) -> (Self, Market) {
        let (stand, dir) = (TestBackend::private(backend).expect("the backend starts"), new_dir());
        let socket = dir.path().join("engine.sock");
        let builder = Seawall::builder(stand.url()).response_timeout(PATIENCE);
        let (builder, address) = match stand.server() {
            Some(server) => (builder, server.address()),
            None => (builder.engine_socket(&socket), Address::Unix(socket)),
        };
        let seawall = builder.connect().await.expect("it answers");
        let database = Arc::new(Database::beside(backend, &dir));
        let proxy = FaultProxy::in_front_of(address).expect("a port is free");
        let (url, process) = (proxy.url(), process());
        let starting = {
            let (dir, database) = (Arc::clone(&dir), Arc::clone(&database));
            async move {
                let builder = Seawall::builder(&url).response_timeout(PATIENCE);
                let seawall = builder.connect().await.expect("it answers");
                Market::start(seawall, dir, database, Parts::default(), &[]).await
            }
        };
        let market = Arc::new(process.spawn(starting).await.expect("no panic"));
        let stores = Market::of_stores(seawall, dir, database, stand);
        (Victim { proxy, market, process: Some(process) }, stores)
    }

    /// Does something in its process.
    pub(crate) async fn inside<T, R>(&self, work: impl FnOnce(Arc<Market>) -> R) -> T
    where
        T: Send + 'static,
        R: Future<Output = T> + Send + 'static,
    {
        let process = self.process.as_ref().expect("it lives");
        process.spawn(work(Arc::clone(&self.market))).await.expect("no panic")
    }

    /// Begins something in its process that is not waited for.
    pub(crate) fn begin(&self, work: impl Future<Output: Send> + Send + 'static) {
        self.process.as_ref().expect("it lives").spawn(work);
    }

    /// Its routes.
    pub(crate) fn router(&self) -> axum::Router {
        self.market.router()
    }

    /// Kills it.
    pub(crate) async fn kill(mut self) {
        kill(self.process.take().expect("it lives")).await;
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.shutdown_background();
        }
    }
}
