//! Counters for INFO.

/// Calls of one command.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct CommandStats {
    pub(crate) calls: u64,
    pub(crate) nanos: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
}

/// What INFO's stats section shows.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) commands: Vec<CommandStats>,
    pub(crate) errors: std::collections::BTreeMap<String, u64>,
    pub(crate) total_commands: u64,
    pub(crate) total_connections: u64,
    pub(crate) rejected_connections: u64,
    pub(crate) input_bytes: u64,
    pub(crate) output_bytes: u64,
    pub(crate) keyspace_hits: u64,
    pub(crate) keyspace_misses: u64,
    pub(crate) expired_keys: u64,
    pub(crate) evicted_keys: u64,
    pub(crate) error_replies: u64,
    pub(crate) unexpected_errors: u64,
    pub(crate) peak_memory: usize,
    pub(crate) lazy_freed: u64,
    pub(crate) evicted_clients: u64,
    /// Commands at the last samples, for the rate per second.
    samples: [(i64, u64); 16],
    at: usize,
}

impl Stats {
    pub(crate) fn new(commands: usize) -> Stats {
        Stats { commands: vec![CommandStats::default(); commands], ..Stats::default() }
    }

    /// Forgets the counters, as CONFIG RESETSTAT asks.
    pub(crate) fn reset(&mut self) {
        let commands = self.commands.len();
        *self = Stats::new(commands);
    }

    pub(crate) fn count_error(&mut self, text: &str) {
        self.error_replies += 1;
        let code = text.split(' ').next().unwrap_or("ERR");
        // Limit: scripts can make up error codes; the statistics stay small.
        const MOST_CODES: usize = 128;
        if let Some(n) = self.errors.get_mut(code) {
            *n += 1;
        } else if self.errors.len() < MOST_CODES {
            self.errors.insert(code.to_owned(), 1);
        }
    }

    /// Takes a sample for the rate; called ten times a second.
    pub(crate) fn sample(&mut self, now_ms: i64) {
        self.samples[self.at] = (now_ms, self.total_commands);
        self.at = (self.at + 1) % self.samples.len();
    }

    /// Commands per second over the last samples.
    pub(crate) fn ops_per_second(&self) -> u64 {
        let newest = self.samples[(self.at + self.samples.len() - 1) % self.samples.len()];
        let oldest = self.samples[self.at];
        let millis = (newest.0 - oldest.0).max(1) as u64;
        if oldest.0 == 0 { 0 } else { (newest.1.saturating_sub(oldest.1)) * 1000 / millis }
    }
}
