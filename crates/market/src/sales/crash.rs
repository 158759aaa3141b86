//! Where a worker may be killed, for tests that do it.

use std::{fmt, sync::Arc};

/// A point between two steps of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrashPoint {
    /// The order's row is written, not committed.
    BeforeCommit,
    /// The row is committed, the sale not yet told.
    AfterCommit,
    /// Some of an author's fans have a note, the others do not yet.
    FanOut,
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
