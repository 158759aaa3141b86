//! What the surveys of big keys have in common, of servers and of files: which keys are big, how the
//! report groups them, and how many it names.

use seawall_resilience::clock::Clock;

use super::{Thresholds, report::Collector};

/// Most keys that a report names.
pub const MAX_TOP: usize = 10_000;
const DEFAULT_TOP: usize = 20;

/// Settings of a report.
#[derive(Debug, Clone)]
pub(super) struct ReportSettings {
    pub(super) thresholds: Thresholds,
    /// The byte that ends a prefix.
    pub(super) separator: u8,
    /// Number of the largest keys that are named.
    pub(super) top: usize,
}

impl Default for ReportSettings {
    fn default() -> Self {
        ReportSettings { thresholds: Thresholds::default(), separator: b':', top: DEFAULT_TOP }
    }
}

impl ReportSettings {
    /// Begins a report, whose time is measured by this clock.
    pub(super) fn begin(&self, clock: &Clock) -> Collector {
        let top = self.top.min(MAX_TOP);
        Collector::new(self.thresholds.clone(), self.separator, top, clock.clone())
    }
}

/// Defines the setters of a survey whose field `report` is its [`ReportSettings`].
macro_rules! report_setters {
    () => {
        /// Sets the thresholds above which a key is big.
        pub fn thresholds(mut self, thresholds: Thresholds) -> Self {
            self.report.thresholds = thresholds;
            self
        }

        /// Sets the byte that ends a prefix. Default: `:`.
        pub fn separator(mut self, separator: u8) -> Self {
            self.report.separator = separator;
            self
        }

        /// Sets how many of the largest keys the report names, at most
        /// [`MAX_TOP`](crate::MAX_TOP). Default: 20.
        pub fn top(mut self, keys: usize) -> Self {
            self.report.top = keys;
            self
        }
    };
}
pub(super) use report_setters;
