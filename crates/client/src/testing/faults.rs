//! Injects faults between the client and Redis without a network: outages and lost replies.
//!
//! Every client contains a [`Faults`]. Without the feature `testing` it is zero-sized and does
//! nothing.

use crate::error::Result;

/// Faults of one handle's client.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    #[cfg(feature = "testing")]
    control: FaultControl,
}

#[cfg(not(feature = "testing"))]
impl Faults {
    #[expect(clippy::unused_self, reason = "with the feature `testing` it looks at itself")]
    pub(crate) fn before(&self) -> Result<()> {
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "with the feature `testing` it looks at itself")]
    pub(crate) fn after<T>(&self, reply: Result<T>) -> Result<T> {
        reply
    }
}

#[cfg(feature = "testing")]
pub use control::FaultControl;

#[cfg(feature = "testing")]
mod control {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicU64, Ordering},
        },
        time::Duration,
    };

    use super::{Faults, Result};
    use crate::error::Error;

    /// Controls the injected faults of one handle. Cheap to clone.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), seawall::Error> {
    /// use seawall::testing::TestServer;
    ///
    /// let test_server = TestServer::start().await?;
    /// test_server.faults().begin_outage();
    /// // … your code must cope …
    /// test_server.faults().end_outage();
    /// # test_server.shutdown().await; Ok(()) }
    /// ```
    #[derive(Debug, Clone, Default)]
    pub struct FaultControl {
        state: Arc<State>,
    }

    #[derive(Debug, Default)]
    struct State {
        away: AtomicBool,
        replies_to_lose: AtomicU64,
    }

    impl FaultControl {
        /// Starts an outage: Redis cannot be reached and nothing is sent.
        pub fn begin_outage(&self) {
            self.state.away.store(true, Ordering::SeqCst);
        }

        /// Ends the outage.
        pub fn end_outage(&self) {
            self.state.away.store(false, Ordering::SeqCst);
        }

        /// Loses the replies to the next `count` commands: the server executes them, but the caller
        /// gets [`Error::Indeterminate`].
        pub fn lose_replies(&self, count: u64) {
            self.state.replies_to_lose.store(count, Ordering::SeqCst);
        }
    }

    impl Faults {
        pub(crate) fn new(control: FaultControl) -> Self {
            Faults { control }
        }

        pub(crate) fn before(&self) -> Result<()> {
            if self.control.state.away.load(Ordering::Relaxed) {
                return Err(Error::Unavailable("an outage was injected".into()));
            }
            Ok(())
        }

        pub(crate) fn after<T>(&self, reply: Result<T>) -> Result<T> {
            let left = &self.control.state.replies_to_lose;
            if left.load(Ordering::Relaxed) > 0
                && left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                    .is_ok()
            {
                return Err(Error::Indeterminate {
                    waited: Duration::ZERO,
                    cause: "a lost reply was injected".into(),
                });
            }
            reply
        }
    }
}
