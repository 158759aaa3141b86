//! For tests of code that uses the toolkit (feature `testing`): time in your hands, faults on demand.

use std::time::Duration;

pub use seawall_client::testing::FaultControl;

use crate::{Result, Seawall};

/// A private engine on a clock that is advanced by hand.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{cmd, testing::TestServer};
///
/// let test_server = TestServer::start().await?;
/// let client = test_server.seawall().client();
/// client.send(b"k", cmd("SET").arg("k").arg("v").arg("EX").arg(60)).await?;
/// test_server.advance(Duration::from_secs(61)).await;
/// let gone: Option<String> = client.query(b"k", cmd("GET").arg("k")).await?;
/// assert_eq!(gone, None);
/// # test_server.shutdown().await; Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestServer {
    seawall: Seawall,
    test_server: seawall_client::testing::TestServer,
}

impl TestServer {
    /// Starts an engine in memory.
    ///
    /// # Errors
    /// When the engine cannot be started.
    pub async fn start() -> Result<Self> {
        let test_server = seawall_client::testing::TestServer::start().await?;
        Ok(TestServer { seawall: test_server.handle().clone().into(), test_server })
    }

    /// The handle to test with.
    #[must_use]
    pub fn seawall(&self) -> &Seawall {
        &self.seawall
    }

    /// The faults of that handle.
    #[must_use]
    pub fn faults(&self) -> &FaultControl {
        self.test_server.faults()
    }

    /// Moves time forward, here and in the engine, and lets whoever waited for it run.
    pub async fn advance(&self, by: Duration) {
        self.test_server.advance(by).await;
    }

    /// Suspends the machine of the handle for this long, not that of the engine: timers stand still,
    /// and whatever the engine keeps for a time gets older.
    pub fn suspend(&self, by: Duration) {
        self.test_server.suspend(by);
    }

    /// Ends the engine.
    pub async fn shutdown(self) {
        self.test_server.shutdown().await;
    }
}
