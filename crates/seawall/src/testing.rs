//! Tools for tests of code that uses the toolkit (feature `testing`): a manual clock, and faults.

use std::time::Duration;

pub use seawall_client::testing::FaultControl;

use crate::{Result, Seawall};

/// A private engine on a clock that the test advances.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
/// use std::time::Duration;
/// use seawall::{cmd, testing::Stage};
///
/// let stage = Stage::start().await?;
/// let client = stage.seawall().client();
/// client.send(b"k", cmd("SET").arg("k").arg("v").arg("EX").arg(60)).await?;
/// stage.advance(Duration::from_secs(61)).await;
/// let gone: Option<String> = client.query(b"k", cmd("GET").arg("k")).await?;
/// assert_eq!(gone, None);
/// # stage.shutdown().await; Ok(()) }
/// ```
#[derive(Debug)]
pub struct Stage {
    seawall: Seawall,
    stage: seawall_client::testing::Stage,
}

impl Stage {
    /// Starts an engine in memory.
    ///
    /// # Errors
    /// If the engine cannot be started.
    pub async fn start() -> Result<Self> {
        let stage = seawall_client::testing::Stage::start().await?;
        Ok(Stage { seawall: stage.handle().clone().into(), stage })
    }

    /// Returns the handle to test with.
    #[must_use]
    pub fn seawall(&self) -> &Seawall {
        &self.seawall
    }

    /// Returns the fault control of that handle.
    #[must_use]
    pub fn faults(&self) -> &FaultControl {
        self.stage.faults()
    }

    /// Advances the time, here and in the engine, and lets the tasks run that waited for it.
    pub async fn advance(&self, by: Duration) {
        self.stage.advance(by).await;
    }

    /// Suspends the machine of the handle for this long, but not that of the engine.
    ///
    /// Timers of the handle stand still, and everything that the engine keeps for a limited time
    /// gets older.
    pub fn suspend(&self, by: Duration) {
        self.stage.suspend(by);
    }

    /// Stops the engine.
    pub async fn shutdown(self) {
        self.stage.shutdown().await;
    }
}
