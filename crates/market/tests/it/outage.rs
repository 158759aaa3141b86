//! Outages of Redis, on either backend: of an engine on a test server, or of redis-server behind a proxy.

use std::time::Duration;

use seawall::testing::TestServer;
use seawall_testkit::{FaultProxy, backend::Backend};

use crate::market::Market;

/// What takes Redis away.
pub(crate) enum Outage {
    TestServer(Box<TestServer>),
    Proxy(Box<FaultProxy>),
}

impl Outage {
    /// A market, and what takes its Redis away.
    pub(crate) async fn of(backend: Backend) -> (Market, Self) {
        match backend {
            Backend::Embedded => {
                let test_server = TestServer::start().await.expect("an engine");
                (
                    Market::on_test_server(&test_server).await,
                    Outage::TestServer(Box::new(test_server)),
                )
            }
            _ => {
                let (market, proxy) = Market::behind_proxy().await;
                (market, Outage::Proxy(Box::new(proxy)))
            }
        }
    }

    pub(crate) fn begin(&self) {
        match self {
            Outage::TestServer(test_server) => test_server.faults().begin_outage(),
            Outage::Proxy(proxy) => proxy.down(),
        }
    }

    /// Redis answers again when it returns.
    pub(crate) async fn end(&self, market: &Market) {
        match self {
            Outage::TestServer(test_server) => test_server.faults().end_outage(),
            Outage::Proxy(proxy) => proxy.heal(),
        }
        let back = async |market: &Market| market.get("/readyz", "").await.status == 200;
        market.until("Redis to answer again", back).await;
    }

    /// Lets jobs have a turn: time on a test server stands still.
    pub(crate) async fn turn(&self) {
        if let Outage::TestServer(test_server) = self {
            test_server.advance(Duration::from_secs(1)).await;
        }
    }
}
