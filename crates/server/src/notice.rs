//! Log lines for the operator.
//!
//! A library must not print. It passes each line to a function that the program chose; if there is
//! none, the lines are dropped.

use std::{fmt, sync::Arc};

/// Log level, with Redis' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For debugging the server.
    Debug,
    /// Routine events.
    Verbose,
    /// Events that an operator wants to know.
    Notice,
    /// Events that require the operator's attention.
    Warning,
}

type Sink = dyn Fn(Level, fmt::Arguments<'_>) + Send + Sync;

/// Receives the server's log lines.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<Sink>>);

impl Notices {
    /// Sends every line to `sink`, which filters by level.
    pub fn to(sink: impl Fn(Level, fmt::Arguments<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Passes one line to the operator.
    pub fn tell(&self, level: Level, line: fmt::Arguments<'_>) {
        if let Some(sink) = &self.0 {
            sink(level, line);
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Notices(sink)" } else { "Notices(dropped)" })
    }
}
