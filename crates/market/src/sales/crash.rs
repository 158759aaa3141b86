//! Where a worker or a request may be killed, for tests that do it.

use std::{fmt, sync::Arc};

/// A point between two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// The order's row is written, not committed.
    BeforeCommit,
    /// The row is committed, the sale not yet told.
    AfterCommit,
    /// Some of an author's fans have a note, the others do not yet.
    FanOut,
    /// The units of an order of goods are held, nothing is written.
    GoodsHeld,
    /// An order of goods is committed, its stock in Redis not yet told.
    GoodsWritten,
}

/// Decides at each crash point whether the workers end there, as if the process were killed.
#[derive(Clone)]
pub struct CrashPoints(Arc<dyn Fn(CrashPoint) -> bool + Send + Sync>);

impl CrashPoints {
    /// Ends the workers wherever `kills` says so.
    pub fn new(kills: impl Fn(CrashPoint) -> bool + Send + Sync + 'static) -> Self {
        CrashPoints(Arc::new(kills))
    }

    pub(crate) fn kills(&self, point: CrashPoint) -> bool {
        (self.0)(point)
    }

    /// Goes past a point; never, where it kills: nothing is done from there any more.
    pub(crate) async fn pass(&self, point: CrashPoint) {
        if self.kills(point) {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for CrashPoints {
    fn default() -> Self {
        CrashPoints::new(|_| false)
    }
}

impl fmt::Debug for CrashPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CrashPoints")
    }
}
