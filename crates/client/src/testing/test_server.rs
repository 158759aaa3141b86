//! A server for tests: a private embedded engine, its clock, and the faults.
//!
//! The engine and the toolkit read the same clock, so a lifetime of an hour is over after one call
//! of [`TestServer::advance`], on both sides.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use seawall_engine::Clock as EngineClock;
use seawall_resilience::clock::{Clock, ManualTime};

use super::FaultControl;
use crate::{Handle, error::Result};

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
    handle: Handle,
    time: ManualTime,
    faults: FaultControl,
}

impl TestServer {
    /// Starts an engine in memory.
    ///
    /// # Errors
    /// When the engine cannot be started.
    pub async fn start() -> Result<Self> {
        let (clock, time) = Clock::manual();
        let faults = FaultControl::default();
        let handle = Handle::builder("embedded:")
            .clock(clock)
            .faults(faults.clone())
            .engine_clock(Arc::new(SharedTime::new(time.clone())))
            .connect()
            .await?;
        Ok(TestServer { handle, time, faults })
    }

    /// The handle to test with.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The faults of that handle.
    #[must_use]
    pub fn faults(&self) -> &FaultControl {
        &self.faults
    }

    /// Moves time forward, here and in the engine, and lets whoever waited for it run.
    pub async fn advance(&self, by: Duration) {
        self.time.advance(by);
        tokio::task::yield_now().await;
    }

    /// Suspends the machine of the handle for this long, not that of the engine: timers stand still,
    /// and whatever the engine keeps for a time gets older.
    pub fn suspend(&self, by: Duration) {
        self.time.suspend(by);
    }

    /// Ends the engine.
    pub async fn shutdown(self) {
        self.handle.shutdown().await;
    }
}

/// The engine's view of a manual clock.
struct SharedTime {
    time: ManualTime,
    started: Duration,
}

impl SharedTime {
    fn new(time: ManualTime) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        SharedTime { time, started }
    }
}

impl EngineClock for SharedTime {
    fn unix_micros(&self) -> i64 {
        let now = self.started + Duration::from_nanos(self.time.with_suspension().as_nanos());
        i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.time.with_suspension().as_nanos()
    }
}
