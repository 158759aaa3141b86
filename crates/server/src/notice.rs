//! What the server has to tell its operator.
//!
//! A library must not print. It hands each line to a function that the program chose; without one
//! the lines are dropped.

use std::{fmt, sync::Arc};

/// How much a line matters, in Redis' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever debugs the server.
    Debug,
    /// What happens all the time.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// What an operator must look at.
    Warning,
}

type Sink = dyn Fn(Level, fmt::Arguments<'_>) + Send + Sync;

/// Takes the server's lines.
#[derive(Clone, Default)]
pub struct Notices(Option<Arc<Sink>>);

impl Notices {
    /// Sends every line to `sink`, which filters by level.
    pub fn to(sink: impl Fn(Level, fmt::Arguments<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(sink)))
    }

    /// Tells the operator one line.
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
