//! Tools for tests of code that uses the toolkit (feature `testing`): a manual clock, and faults.

use std::time::Duration;

pub use seawall_client::testing::FaultControl;

use crate::{Result, Seawall};

/// A private engine on a clock that the test advances.
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
    /// If the engine cannot be started.
    pub async fn start() -> Result<Self> {
        let test_server = seawall_client::testing::TestServer::start().await?;
        Ok(TestServer { seawall: test_server.handle().clone().into(), test_server })
    }

    /// Like [`start`](TestServer::start), but time also passes by itself, `speed` times as fast as on
    /// the wall: nothing waits for an `advance` that does not come.
    ///
    /// Replies and loaders take their real time: at 100 a loader of 50 ms takes five seconds of the
    /// handle's time, and at 1,000 a lease may end before its renewal is answered.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use seawall::{cache::Cache, testing::TestServer};
    ///
    /// let test_server = TestServer::start_ticking(100).await?;
    /// let shops: Cache<u64, String> = test_server.seawall().cache("shop").build()?;
    /// test_server.faults().begin_outage();
    /// // Every pause in here ends, although the test does not advance the time.
    /// let load = || async { Ok::<_, std::io::Error>("tea house".to_owned()) };
    /// assert!(shops.get_or_load(&42, load).await?.value.is_some());
    /// # test_server.faults().end_outage(); test_server.shutdown().await; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) unless `speed` is from 1 to 10,000; otherwise as
    /// [`start`](TestServer::start).
    pub async fn start_ticking(speed: u32) -> Result<Self> {
        let test_server = seawall_client::testing::TestServer::start_ticking(speed).await?;
        Ok(TestServer { seawall: test_server.handle().clone().into(), test_server })
    }

    /// Returns the handle to test with.
    #[must_use]
    pub fn seawall(&self) -> &Seawall {
        &self.seawall
    }

    /// Returns the fault control of that handle.
    #[must_use]
    pub fn faults(&self) -> &FaultControl {
        self.test_server.faults()
    }

    /// Advances the time, here and in the engine, and lets the tasks run that waited for it.
    pub async fn advance(&self, by: Duration) {
        self.test_server.advance(by).await;
    }

    /// Suspends the machine of the handle for this long, but not that of the engine.
    ///
    /// Timers of the handle stand still, and everything that the engine keeps for a limited time
    /// gets older.
    pub fn suspend(&self, by: Duration) {
        self.test_server.suspend(by);
    }

    /// Stops the engine.
    pub async fn shutdown(self) {
        self.test_server.shutdown().await;
    }
}
