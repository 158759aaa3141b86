//! Test server: a private embedded engine, a manual clock, and fault injection.
//!
//! The engine and the toolkit read the same clock, so one call of [`TestServer::advance`] expires a TTL
//! of an hour on both sides.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use seawall_engine::Clock as EngineClock;
use seawall_resilience::clock::{Clock, ManualTime};

use super::FaultControl;
use crate::{
    Handle,
    error::{Error, Result},
};

/// How often a clock ticks that runs by itself.
const TICK: Duration = Duration::from_millis(1);

/// A private engine on a manual clock.
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
    /// Fails if the engine cannot be started.
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

    /// Like [`start`](TestServer::start), but time also passes by itself, `speed` times as fast as on
    /// the wall: nothing waits for an `advance` that does not come.
    ///
    /// Replies and loaders take their real time: at 100 a loader of 50 ms takes five seconds of the
    /// handle's time, and at 1,000 a lease may end before its renewal is answered.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::error::Error::Invalid) unless `speed` is from 1 to 10,000; otherwise as
    /// [`start`](TestServer::start).
    pub async fn start_ticking(speed: u32) -> Result<Self> {
        if !(1..=10_000).contains(&speed) {
            return Err(Error::Invalid(format!("speed must be from 1 to 10000, not {speed}")));
        }
        let test_server = Self::start().await?;
        let (time, mut stopping) = (test_server.time.clone(), test_server.handle.stopping());
        let wall = test_server.handle.client().network_clock().clone();
        let mut before = wall.now();
        let tick = async move {
            loop {
                wall.sleep(TICK).await;
                let now = wall.now();
                time.advance(now.since(before) * speed);
                before = now;
            }
        };
        test_server.handle.spawn_at_home(async move {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => {}
                () = tick => {}
            }
        });
        Ok(test_server)
    }

    /// Returns the handle to test with.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns the fault control of that handle.
    #[must_use]
    pub fn faults(&self) -> &FaultControl {
        &self.faults
    }

    /// Advances time in the toolkit and in the engine, and lets the tasks that waited for it run.
    pub async fn advance(&self, by: Duration) {
        self.time.advance(by);
        tokio::task::yield_now().await;
    }

    /// Simulates a suspension of the client's machine, not of the engine's.
    ///
    /// Timers of the handle stand still while the engine's TTLs keep running.
    pub fn suspend(&self, by: Duration) {
        self.time.suspend(by);
    }

    /// Shuts down the handle and the engine.
    pub async fn shutdown(self) {
        self.handle.shutdown().await;
    }
}

/// Exposes the manual clock to the engine.
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
