//! Client-side caching: who read which key, and who is told when it changes.

use crate::command::index::CommandRef;
use crate::ctx::Caller;
use crate::engine::Engine;

/// Keys that clients may have cached.
#[derive(Debug, Default)]
pub(crate) struct Tracking {
    pub(crate) sessions: usize,
}

impl Tracking {
    /// Whether any session tracks keys.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.sessions > 0
    }
}

impl Tracking {
    /// What INFO shows.
    pub(crate) fn info(&self, mut row: impl FnMut(&str, usize)) {
        row("tracking_total_keys", 0);
        row("tracking_total_items", 0);
        row("tracking_total_prefixes", 0);
    }
}

impl Engine {
    /// Remembers the keys that a session has just read.
    pub(crate) fn track_reads(
        &mut self,
        _session: usize,
        _command: CommandRef,
        _args: &[&[u8]],
        _caller: Caller,
    ) {
    }

    /// Tells everyone who may have cached the key.
    pub(crate) fn invalidate_tracked(&mut self, _key: &[u8], _by: Option<usize>) {}

    /// Tells everyone that all keys may have changed.
    pub(crate) fn invalidate_all_tracked(&mut self) {}

    /// Sends a session the invalidations that its own command caused, behind the reply.
    pub(crate) fn flush_own_invalidations(&mut self, _session: usize) {}

    /// Ends tracking for a session.
    pub(crate) fn stop_tracking(&mut self, _session: usize) {}
}
